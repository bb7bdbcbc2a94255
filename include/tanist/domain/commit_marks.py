"""The metadata of our commits, as in "tanist m1 east@1234": from which position at the source they were translated."""

from __future__ import annotations

from typing import Final

OUR_MARK: Final = "tanist "
"""The beginning of the metadata of every commit of ours."""


def mark_begin(mirror: str, source: str) -> str:
    """What the metadata of commits of positions of `source` begin with; the position there follows."""
    return f"{OUR_MARK}{mirror} {source}@"


def marked_offset(metadata: str, begin: str) -> int | None:
    """The position at the source that a commit was translated from; None: it does not begin with `begin`."""
    if not metadata.startswith(begin):
        return None
    number = metadata[len(begin) :].partition(" ")[0]
    return int(number) if number.isdecimal() else None
