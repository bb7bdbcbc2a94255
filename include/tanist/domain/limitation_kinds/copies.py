"""Limitations of mirror topics: how far they are copied, what was done to them, what is lost."""

from __future__ import annotations

from typing import Final

from tanist.domain.limitation_kinds.kind import ACCEPT, BLOCKS, PLAN_AGAIN, USUAL, LimitationKind

_COPY_AGAIN: Final = "copy the topic again: `tanist mirrors remove --keep-copy`, delete it, `tanist mirrors add`"

COPIES: Final = (
    # copying
    LimitationKind(
        name="WITHOUT_DRAIN",
        means="partitions are not being copied, so they are failed over as they are",
        next_step="`tanist mirrors resume`, or mend what has stopped them (`tanist mirrors describe`)",
        checks=("running",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="OFFSETS_MAPPED",
        means="the copies have offsets of their own: no way back, no recovery of divergent tails, no reserve",
        next_step="nothing: a mirror in the other direction, under other names, can be created once it has failed over",
        planned=USUAL,
        unplanned=USUAL,
    ),
    LimitationKind(
        name="PARTITION_FAILED",
        means="copying has failed, and the partition ends there",
        next_step="`tanist mirrors describe` names the error, docs/reference/errors.md what to do",
        checks=("partitions",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="PARTITION_NO_COPY",
        means="the mirror partition differs from its source (a foreign write, a divergence)",
        next_step="plan its topic alone, and the others with `--exclude`",
        checks=("partitions",),
        planned=BLOCKS | ACCEPT,
        unplanned=BLOCKS | ACCEPT,
    ),
    LimitationKind(
        name="PARTITION_PREPARING",
        means="copying has not begun: both logs are being compared",
        next_step="`tanist mirrors wait --for state=MIRRORING`",
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="PARTITION_UNKNOWN",
        means="no worker has reported the partition",
        next_step="`tanist fetcher run`",
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=ACCEPT,
        unknown=True,
    ),
    LimitationKind(
        name="TOMBSTONES_MAY_BE_MISSING",
        means="keys that were deleted at the source may be left in the mirror topic",
        next_step="`tanist mirrors describe` says from which offset on",
        checks=("losses",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    # the mirror topic
    LimitationKind(
        name="COPY_TRUNCATED",
        means="the mirror topic begins later than its source: records that the source still has were deleted",
        next_step=_COPY_AGAIN,
        checks=("copies",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="COPY_HAS_FOREIGN_RECORDS",
        means="the last batch of a partition has a producer id that is not the mirror's",
        next_step=_COPY_AGAIN,
        checks=("copies",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="COPY_WRITER_UNKNOWN",
        means="it is not known who wrote the last batch of a partition",
        next_step="a broker that does not answer is waited for",
        checks=("copies",),
        planned=BLOCKS,
        unplanned=ACCEPT,
        unknown=True,
    ),
    LimitationKind(
        name="COPY_HAS_MORE_PARTITIONS",
        means="partitions were added at the destination",
        next_step=_COPY_AGAIN,
        checks=("copies",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="COPY_CONFIGS_ALTERED",
        means="configurations were altered that delete records of the mirror topic, or change new ones",
        next_step="`tanist metadata sync`, then `tanist validate`",
        checks=("copies",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="TOPIC_RECREATED",
        means="the topic was deleted and created again, at the source or at the destination",
        next_step=_COPY_AGAIN,
        checks=("copies",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="OTHERS_MAY_WRITE",
        means="principals other than the mirror may write to the mirror topic, or it is not known who may",
        next_step="remove their ACLs at the destination, or grant DESCRIBE on Cluster `kafka-cluster` there",
        checks=("copies",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    # loss and reserve
    LimitationKind(
        name="RECORDS_AT_RISK",
        means="offsets of the source are not at the destination",
        next_step="nothing: the tolerance (`--max-loss`) is approved",
        planned=USUAL,
        unplanned=USUAL,
    ),
    LimitationKind(
        name="BEYOND_TOLERANCE",
        means="more offsets are at risk than is tolerated",
        next_step=f"{PLAN_AGAIN}, with `--max-loss` where the number moves",
        checks=("lag",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="RECORDS_AT_RISK_UNKNOWN",
        means="it is not known how many offsets of a partition are at risk",
        next_step="accept it by partition, or wait until the partition answers",
        checks=("lag",),
        planned=ACCEPT,
        unplanned=ACCEPT,
        unknown=True,
    ),
    LimitationKind(
        name="RECORDS_UNSEEN",
        means="what the source accepted after its last answer is not counted",
        next_step="nothing; it is to be accepted where a last answer was older than 30 s when the source fell silent",
        checks=("lag",),
        unplanned=USUAL | ACCEPT,
        unknown=True,
    ),
    LimitationKind(
        name="OFFSETS_MAY_BE_REUSED",
        means="new records may get offsets that the old source has used, or that its producers still use",
        next_step="planned: stop transactional producers, or plan fewer topics (`--topic`); unplanned: accept it",
        checks=("reserves",),
        planned=ACCEPT,
        unplanned=ACCEPT,
        unknown=True,
    ),
    LimitationKind(
        name="GROUP_POSITIONS_OLD",
        means="no committed offsets of groups were kept, so none can be translated unless the source answers",
        next_step="`tanist fetcher run` keeps them",
        checks=("groups",),
        unplanned=ACCEPT,
        unknown=True,
    ),
)
