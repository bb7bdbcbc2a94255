"""The last translation of a failover: every group of the moved topics, as far as it may be committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.translation import Rules
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.items import position_item
from tanist.usecases.groups.sync import SyncRequest, sync_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.usecases.groups.contacts import GroupContacts
    from tanist.usecases.groups.sync import Synced
    from tanist.usecases.sides import Run

PROVE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsTranslated:
    """`rows` as `tanist groups sync` prints them; `problems`: one line for each position that needs a look.

    Clamped positions are committed and listed all the same: these groups had read more than was copied.
    """

    rows: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...]


def final_translation(
    spec: MirrorSpec, contacts: GroupContacts, topics: Sequence[str], run: Run, *, source_answers: bool
) -> GroupsTranslated:
    """Translate and commit; idempotent, so a run that was killed calls it again. No single group makes it raise.

    `source_answers`: False spares the wait for a source that is known to be dead.

    Raises:
        what the destination answers if it cannot be read.
    """
    chosen = Chosen(topics=frozenset(topics), ask_source=source_answers)
    synced = sync_groups(spec, contacts, SyncRequest(chosen=chosen, rules=Rules(), prove_seconds=PROVE_SECONDS), run)
    return GroupsTranslated(rows=tuple(map(position_item, synced.rows)), problems=_problems(synced))


def _problems(synced: Synced) -> tuple[str, ...]:
    bad = dict.fromkeys([*synced.mismatches, *synced.failed, *synced.withheld, *synced.clamped])
    return tuple(f"{row.group} {row.partition}: {row.reason}" for row in bad)
