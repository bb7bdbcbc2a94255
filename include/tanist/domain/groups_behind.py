"""Groups of a source whose committed offsets are ahead of what is copied. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.records import GroupPosition
    from tanist.domain.source_ends import SourceEnds


def groups_behind(positions: Iterable[GroupPosition], ends: Iterable[SourceEnds]) -> frozenset[str]:
    """The groups with a position that is not copied yet, as workers have stored both.

    A position of a partition of which nothing is stored counts as not copied.
    """
    copied = {end.partition: end.copied_until for record in ends for end in record.ends}
    found = set[str]()
    for each in positions:
        until = copied.get(each.partition)
        if until is None or each.offset > until:
            found.add(each.group)
    return frozenset(found)
