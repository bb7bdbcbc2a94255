"""Limitations of the way back: tails, and what a reversal deletes or leaves behind."""

from __future__ import annotations

from typing import Final

from tanist.domain.limitation_kinds.kind import ACCEPT, BLOCKS, LimitationKind

RETURNS: Final = (
    LimitationKind(
        name="TAIL_UNDECIDED",
        means="nobody has decided about records that only the old source has",
        next_step="rescue, decide and replay (docs/failback.md); or `--accept` it, or `tanist failback accept`",
        checks=("tail_findings",),
        planned=BLOCKS,
        unplanned=ACCEPT,
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="TAIL_STAYS_READABLE",
        means="records that only the old source has stay in its log, where consumers read them",
        next_step="accept it",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="TAIL_EXPIRED",
        means="the old source had deleted records that only it had, before they were rescued",
        next_step="accept it: they exist nowhere",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="SOURCE_LOST_RECORDS",
        means="the old source has lost copied records, which are copied back",
        next_step="accept it",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="PREFIX_NOT_COMPARED",
        means="retention has left no copied record that both logs have, so nothing could be compared",
        next_step="accept it, or leave the topic behind with `--exclude`",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="TOPICS_STAY_BEHIND",
        means="topics are not copied back",
        next_step="accept it, or plan without `--exclude`",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="TOPICS_COPIED_AGAIN",
        means="topics are deleted at the old source and copied again from their first offset",
        next_step="accept it: `--recreate` asks for it",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="RECORDS_NOT_SURVEYED",
        means="topics are deleted at the old source without having been compared or rescued",
        next_step="accept it, or leave the topic behind with `--exclude`",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="QUARANTINE_INCOMPLETE",
        means="quarantine no longer has all records that were rescued from a log that is deleted",
        next_step="accept it, or leave the topic behind with `--exclude`",
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="MIRROR_TOPIC_WRITABLE",
        means="other clients can write to the old source's topics, which stops the mirror",
        next_step="stop them, or deny them WRITE",
        reversal=ACCEPT,
    ),
)
