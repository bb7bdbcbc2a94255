"""Where a position lies in what a log and its copy have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Standing(StrEnum):
    """In this order a published table numbers them: new ones are added at the end."""

    EXACT = "exact"
    REPEATED = "repeated"
    UNDECIDED = "undecided"
    REORDERED = "reordered"
    IN_A_GAP = "in a gap"
    BEFORE_FIRST_RUN = "clamped to first run"
    CAUGHT_UP = "caught up"
    BEYOND_TAIL = "beyond mapped tail"
    BEYOND_END = "beyond the end"
    NOTHING_IN_COMMON = "nothing in common"
    NO_POSITION = "no position"
    OPEN = "equal records"
    MERGED = "merged"


WHY: Final = {
    Standing.REPEATED: "the destination may have records again, after this one, that are read already",
    Standing.UNDECIDED: "the next record waits for a transaction that is open: nobody knows whether it will be read",
    Standing.REORDERED: (
        "later records of the source are earlier at the destination: the records in between are read again"
    ),
    Standing.IN_A_GAP: "the source or the destination has no record at this offset: resume after the previous record",
    Standing.BEFORE_FIRST_RUN: "older than the first common record: resume at the first record of the destination",
    Standing.CAUGHT_UP: "after the last copied record, where the destination has more: these are read, too",
    Standing.BEYOND_TAIL: "after the last copied record: records copied later are read again",
    Standing.BEYOND_END: "the source ends before this offset",
    Standing.NOTHING_IN_COMMON: "the partitions have no record in common",
    Standing.NO_POSITION: "a position must be an offset >= 0",
    Standing.OPEN: (
        "records that are the same in everything were copied more than once, and nobody can tell which copy is whose: "
        "resume at the earliest that is possible"
    ),
    Standing.MERGED: "one of many small ranges that are published as one: resume at the beginning of this one",
}
"""What to tell of a position that is not exact."""
STANDINGS: Final = (*Standing,)
