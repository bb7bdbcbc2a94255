"""The requests that commit positions of a group, in a transaction and outside of any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from tanist.domain.names import TopicPartition
from tanist.kafka.wire.leaders import by_topic
from tanist.kafka.wire.messages import AddOffsetsToTxnRequest, OffsetCommitRequest, TxnOffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.transactions import TransactionalId
    from tanist.ports.positions import CommittedPosition

_P = TypeVar("_P", bound=TopicPartition)
TXN_OFFSET_COMMIT: Final = (3, 3)  # newer ones are of the newer transaction protocol (KIP-890)
_NO_GENERATION: Final = -1
_NO_EPOCH: Final = -1
"""An epoch of another cluster stops Java consumers for good."""


def add_group(connection: Connection, owned: TransactionalId, group: str) -> ApiMessage:
    """Takes a group into a transaction, before its positions are committed there."""
    return AddOffsetsToTxnRequest(
        transactional_id=owned.name,
        producer_id=owned.producer.id,
        producer_epoch=owned.producer.epoch,
        group_id=group,
        version=connection.version(AddOffsetsToTxnRequest, 1, 3),
    )


def commit_in_transaction(
    connection: Connection,
    owned: TransactionalId,
    group: str,
    positions: Mapping[_P, CommittedPosition],
    member_id: str = "",
) -> ApiMessage:
    """Without a generation.

    A classic group with members takes it if `member_id` is empty, and refuses one of nobody
    (ClassicGroup.validateOffsetCommit).
    """
    kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    return TxnOffsetCommitRequest(
        transactional_id=owned.name,
        group_id=group,
        producer_id=owned.producer.id,
        producer_epoch=owned.producer.epoch,
        generation_id=_NO_GENERATION,
        member_id=member_id,
        group_instance_id=None,
        topics=_topics(kind, kind.TxnOffsetCommitRequestPartition, positions),
        version=connection.version(TxnOffsetCommitRequest, *TXN_OFFSET_COMMIT),
    )


def commit_alone(connection: Connection, group: str, positions: Mapping[_P, CommittedPosition]) -> ApiMessage:
    """Outside of any transaction, as a consumer without a group protocol does."""
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        group_instance_id=None,
        topics=_topics(kind, kind.OffsetCommitRequestPartition, positions),
        version=connection.version(OffsetCommitRequest, 6, 8),
    )


def _topics(kind: Any, part: Any, positions: Mapping[_P, CommittedPosition]) -> list[Any]:
    found = {(at.topic, at.partition): each for at, each in positions.items()}
    return [
        kind(
            name=topic,
            partitions=[
                part(
                    partition_index=number,
                    committed_offset=(new := found[topic, number]).offset,
                    committed_leader_epoch=_NO_EPOCH,
                    committed_metadata=new.metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(list(positions))
    ]
