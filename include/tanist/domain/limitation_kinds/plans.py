"""Limitations of a plan or an approval, of other runs, and of a way back."""

from __future__ import annotations

from typing import Final

from tanist.domain.limitation_kinds.kind import ACCEPT, BLOCKS, PLAN_AGAIN, LimitationKind

PLANS: Final = (
    LimitationKind(
        name="RUN_UNFINISHED",
        means="another failover of this mirror has begun and is neither done nor aborted",
        next_step="finish it with `tanist failover run`, or `tanist failover abort`",
        checks=("runs",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="PRODUCER_FENCED",
        means="another failover has begun to promote these partitions",
        next_step="see `tanist failover status`, and finish that failover",
        checks=("runs",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="NOTHING_TO_FAIL_OVER",
        means="no topic is in the mirror, or all were failed over or removed",
        next_step="`tanist mirrors add` puts a topic in",
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="COPIED_BY_ANOTHER",
        means="somebody else copies the records of the mirror, so there is nothing that Tanist could fail over",
        next_step="none: `tanist groups sync` moves its groups, and whoever copies it stops copying",
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="ALREADY_PROMOTED",
        means="a topic of the plan has left the mirror since",
        next_step=PLAN_AGAIN,
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="ANOTHER_TOPIC",
        means="a topic of the plan was created again, or added again, since",
        next_step=PLAN_AGAIN,
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="PARTITION_STOPPED_COPYING",
        means="a partition was copied when the plan was made, and is not any more",
        next_step=PLAN_AGAIN,
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="GROWN_SINCE_PLANNED",
        means="partitions or topics were added since the plan was made",
        next_step=f"`tanist metadata sync`, then {PLAN_AGAIN}",
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="TOPICS_DETACHED",
        means="topics were taken out of the mirror without a failover, and are left out of this one, too",
        next_step="accept it, or `tanist mirrors add`; if a topic of the plan was detached since: plan again",
        checks=("detached",),
        planned=BLOCKS | ACCEPT,
        unplanned=BLOCKS | ACCEPT,
    ),
    LimitationKind(
        name="ANOTHER_ROUTE",
        means="another version of Tanist, with other steps, made the plan",
        next_step=PLAN_AGAIN,
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="APPROVAL_EXPIRED",
        means="the approval was given too long ago",
        next_step="approve again",
        planned=BLOCKS,
        unplanned=BLOCKS,
        reversal=BLOCKS,
    ),
    LimitationKind(
        name="CLOCK_BEHIND",
        means="this host's clock is behind the brokers', so an approval could have expired",
        next_step="correct this host's clock",
        planned=BLOCKS,
        unplanned=BLOCKS,
        reversal=BLOCKS,
    ),
    LimitationKind(
        name="READING_OLD",
        means="the page shows an old answer, and no newer one has arrived",
        next_step="`tanist status` asks the clusters now",
        checks=("reading",),
        planned=BLOCKS,
        unplanned=BLOCKS,
        unknown=True,
    ),
)


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
