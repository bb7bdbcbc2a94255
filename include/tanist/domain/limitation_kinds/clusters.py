"""Limitations of both clusters, of who may do what there, and of workers."""

from __future__ import annotations

from typing import Final

from tanist.domain.limitation_kinds.kind import ACCEPT, BLOCKS, USUAL, LimitationKind

CLUSTERS: Final = (
    # the source
    LimitationKind(
        name="SOURCE_DOWN",
        means="the source, or a partition of it, does not answer, so it cannot be drained",
        next_step="`tanist failover plan --mode unplanned`",
        checks=("source",),
        planned=BLOCKS,
        unknown=True,
    ),
    LimitationKind(
        name="ANOTHER_CLUSTER",
        means="another cluster answers at the addresses of the source",
        next_step="correct `bootstrap_servers` of the source",
        checks=("source",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="SOURCE_NOT_DRAINED",
        means="an unplanned failover waits for no source, whether it answers or not",
        next_step="while the source answers, a planned failover loses nothing",
        unplanned=USUAL,
    ),
    LimitationKind(
        name="TRANSACTIONS_UNKNOWN",
        means="open transactions of the source are not reported",
        next_step="grant DESCRIBE on TransactionalId `*` at the source; a silent coordinator is waited for",
        checks=("source",),
        planned=BLOCKS | ACCEPT,
        unknown=True,
    ),
    LimitationKind(
        name="NEAR_FENCE",
        means="the source has no authorizer, or no ACL for a topic, so records of a few bytes pass its source fence",
        next_step="stop the producers of the source",
        planned=USUAL,
    ),
    LimitationKind(
        name="SOURCE_FENCED",
        means="source fences block producers although no failover needs them",
        next_step="`tanist fence lift`",
        checks=("fences",),
        planned=ACCEPT,
    ),
    LimitationKind(
        name="SOURCE_SEEN_LATER",
        means="the source has answered after `--source-dead-since`",
        next_step="plan with the later time, or without the option",
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="PARTITIONS_WITHOUT_COPY",
        means="the source has partitions that are not mirrored",
        next_step="`tanist metadata sync`",
        checks=("source_partitions",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="TOPICS_WITHOUT_COPY",
        means="topics match the mirror's filters and are not mirrored",
        next_step="`tanist metadata sync`; before a reversal, `tanist mirrors add` and a failover of them",
        checks=("source_partitions",),
        planned=ACCEPT,
        unplanned=ACCEPT,
        reversal=ACCEPT,
    ),
    LimitationKind(
        name="SOURCE_TRUNCATED",
        means="the source has lost records that were copied",
        next_step="decide which cluster is right (docs/failover-explained.md)",
        checks=("partitions",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="SOURCE_TOPIC_DELETED",
        means="the topic was deleted at the source, so the mirror topic is the only copy",
        next_step="`tanist mirrors remove` of this topic, and a plan of the others (`--exclude`)",
        checks=("partitions",),
        planned=BLOCKS,
        unplanned=ACCEPT,
    ),
    # the destination
    LimitationKind(
        name="DESTINATION_OFFLINE",
        means="no leader answers for a partition of the mirror topics",
        next_step="start the broker that leads it",
        checks=("destination", "replicas"),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="DESTINATION_UNKNOWN",
        means="the destination does not describe replicas or topics",
        next_step="grant DESCRIBE_CONFIGS; a broker that does not answer is waited for",
        checks=("replicas",),
        planned=BLOCKS,
        unplanned=BLOCKS,
        unknown=True,
    ),
    LimitationKind(
        name="DESTINATION_BELOW_MIN_ISR",
        means="producers could not write: fewer replicas in sync than `min.insync.replicas`",
        next_step="start the broker that is down",
        checks=("replicas",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="OFFSET_MAP_MISSING",
        means="topic `__mirror_offsets` does not exist, so no offset can be translated",
        next_step="`tanist state restore`",
        checks=("offset_map",),
        planned=BLOCKS,
        unplanned=BLOCKS,
    ),
    LimitationKind(
        name="UNPROTECTED",
        means="the destination has no authorizer, so any client can write an approval",
        next_step="nothing, or an authorizer",
        planned=USUAL,
        unplanned=USUAL,
    ),
    LimitationKind(
        name="RIGHTS_UNKNOWN",
        means="it is not known whether the destination enforces ACLs",
        next_step="grant DESCRIBE on Cluster `kafka-cluster` at the destination",
        checks=("destination",),
        planned=BLOCKS,
        unplanned=BLOCKS,
        unknown=True,
    ),
    # workers and their logins
    LimitationKind(
        name="NO_WORKER",
        means="no fetcher is running, so nothing drains the source",
        next_step="`tanist fetcher run`",
        checks=("workers",),
        planned=BLOCKS | ACCEPT,
    ),
    LimitationKind(
        name="MIRROR_LOGIN_UNKNOWN",
        means="a fetcher that has just started does not know its login yet",
        next_step="wait: it reports within 30 s",
        checks=("workers",),
        planned=BLOCKS,
        unplanned=BLOCKS,
        unknown=True,
    ),
    LimitationKind(
        name="MIRROR_CANNOT_BE_SHUT_OUT",
        means="the mirror's login can write to what it has failed over, whatever an ACL says",
        next_step="give the mirror a login that is no super user (docs/deploy.md)",
        checks=("openings",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    # access
    LimitationKind(
        name="WRITERS_LOCKED_OUT",
        means="principals that may write at the source could not write at the destination",
        next_step="remove the DENY of the destination, or accept that they stop",
        checks=("writers",),
        planned=ACCEPT,
        unplanned=ACCEPT,
    ),
    LimitationKind(
        name="SOURCE_ACLS_CHANGED",
        means="who may write at the source has changed since it was stored",
        next_step="`tanist metadata sync`",
        checks=("writers",),
        planned=ACCEPT,
    ),
)
