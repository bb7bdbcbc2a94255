"""The transactions in which one thread appends batches that were readdressed in place, with their positions.

Each method is a phase of `domain.transactional_append`, and returns what has happened in it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.broker_errors import InvalidProducerEpoch, ProducerFenced
from tanist.domain.errors import BrokerError, Stopped, TanistError
from tanist.domain.transactional_append import TxnEvent
from tanist.kafka.protocol.batch import header_of, patch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.wire.coordinators import ask_once
from tanist.kafka.wire.groups import fetch_positions
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.leaders import by_topic, each_partition
from tanist.kafka.wire.messages import AddOffsetsToTxnRequest, TxnOffsetCommitRequest
from tanist.kafka.wire.transactions import TransactionalId

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tanist.domain.names import BrokerId, MirrorPartition, TopicPartition
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import CommittedPosition

TXN_OFFSET_COMMIT: Final = (3, 3)  # newer ones are of the newer transaction protocol (KIP-890)
_MODULUS: Final = 1 << 31
_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)
_NO_MEMBER: Final = ""


class CopiedBatch(NamedTuple):
    """One batch of the source, dense; its memory is ours to change."""

    at: MirrorPartition
    payload: memoryview


class CopyTransactions:
    """Of one transactional id. `error`: why the last phase was not done; None: it was."""

    def __init__(self, router: Router, name: str, group: str, timeout_ms: int) -> None:
        self._router = router
        self._owned = TransactionalId(router, name, timeout_ms)
        self._group = group
        self._appends: dict[BrokerId, Appends] = {}
        self._sequences: defaultdict[MirrorPartition, int] = defaultdict(int)
        self._added: set[MirrorPartition] = set()
        self.error: TanistError | None = None

    def take_over(self, by: Deadline) -> TxnEvent:
        """Fence every other owner. Only who holds the lease may."""
        return self._phase(lambda: self._begin(self._owned.take_over, by))

    def next_epoch(self, by: Deadline) -> TxnEvent:
        """Go on as the same owner: what is still on its way in the old epoch is refused."""
        return self._phase(lambda: self._begin(self._owned.begin, by))

    def positions(self, by: Deadline) -> Mapping[TopicPartition, CommittedPosition | TanistError]:
        """What is committed in the group, and stable: after a new epoch nothing of an older one is pending.

        Raises:
            TanistError: the coordinator does not tell.
        """
        found = fetch_positions(self._router, [self._group], by)[self._group]
        if isinstance(found, TanistError):
            raise found
        return found

    def append(self, batches: Sequence[CopiedBatch], by: Deadline) -> TxnEvent:
        """Append in the order given; one batch of each partition is in flight at a time."""
        return self._phase(lambda: self._append(batches, by))

    def commit_positions(self, positions: Mapping[MirrorPartition, CommittedPosition], by: Deadline) -> TxnEvent:
        """The positions behind what was appended, in the same transaction."""
        return self._phase(lambda: self._commit_positions(positions, by))

    def end(self, by: Deadline, *, commit: bool) -> TxnEvent:
        """Decide. It is asked once: whoever asks again knows that the first one may still arrive."""
        done = self._phase(lambda: self._owned.end(by, commit=commit, once=True))
        if done is TxnEvent.DONE:
            self._added.clear()
        return done

    def _phase(self, work: Callable[[], None]) -> TxnEvent:
        self.error = None
        try:
            work()
        except Stopped:
            raise
        except TanistError as why:
            self.error = why
            if isinstance(why, _FENCED):
                return TxnEvent.FENCED
            return TxnEvent.REFUSED if isinstance(why, BrokerError) else TxnEvent.UNANSWERED
        return TxnEvent.DONE

    def _begin(self, begin: Callable[[Deadline], None], by: Deadline) -> None:
        for appends in self._appends.values():  # of the epoch before: an answer to it is nobody's
            appends.connection.close()
        self._appends.clear()
        begin(by)
        self._sequences.clear()
        self._added.clear()

    def _append(self, batches: Sequence[CopiedBatch], by: Deadline) -> None:
        self._add({each.at for each in batches} - self._added, by)
        waiting: dict[MirrorPartition, list[memoryview]] = defaultdict(list)
        for each in batches:
            waiting[each.at].append(each.payload)
        refused: TanistError | None = None
        while waiting and refused is None:
            refused = self._append_one_of_each(waiting, by)
        if refused is not None:
            raise refused

    def _append_one_of_each(self, waiting: dict[MirrorPartition, list[memoryview]], by: Deadline) -> TanistError | None:
        """Raises CouldNotTell where an answer is missing, whatever else was refused."""
        leaders: defaultdict[BrokerId, list[ProduceBatch]] = defaultdict(list)
        for at in list(waiting):
            batch = waiting[at].pop(0)
            if not waiting[at]:
                del waiting[at]
            count = header_of(batch).record_count
            producer = self._owned.producer
            patch(batch, producer.id, producer.epoch, self._sequences[at], transactional=True)
            self._sequences[at] = (self._sequences[at] + count) % _MODULUS
            leaders[self._router.leader(at)].append(ProduceBatch(at.topic, at.partition, batch))
        for leader, some in leaders.items():
            self._open(leader, by).post(some, by)
        refused: TanistError | None = None
        for leader in leaders:
            for each in self._appends[leader].collect(by).partitions:
                if each.error_code != NONE:
                    refused = error_for(each.error_code, f"append to partition {each.partition}: {each.message}")
        return refused

    def _open(self, leader: BrokerId, by: Deadline) -> Appends:
        held = self._appends.get(leader)
        if held is None or held.connection.lost:
            connection = self._router.connection(leader, by, channel="transactions")
            held = self._appends[leader] = Appends(connection, transactional_id=self._owned.name)
        return held

    def _add(self, partitions: Collection[MirrorPartition], by: Deadline) -> None:
        if partitions:
            for error in self._owned.add(sorted(partitions), by).values():
                if error is not None:
                    raise error
            self._added |= set(partitions)

    def _commit_positions(self, positions: Mapping[MirrorPartition, CommittedPosition], by: Deadline) -> None:
        self._owned.ask(self._add_group, by)

        def ask(connection: Connection, groups: Sequence[str], by: Deadline) -> dict[str, TanistError | bool]:
            answer = connection.call(self._offsets(connection, positions), by)
            errors = [each.error_code for _, each in each_partition(answer.topics) if each.error_code != NONE]
            why = error_for(errors[0], f"positions in group {self._group!r}") if errors else True
            return dict.fromkeys(groups, why)

        done = ask_once(self._router, [self._group], by, ask)[self._group]
        if isinstance(done, TanistError):
            raise done

    def _add_group(self, connection: Connection) -> ApiMessage:
        return AddOffsetsToTxnRequest(
            transactional_id=self._owned.name,
            producer_id=self._owned.producer.id,
            producer_epoch=self._owned.producer.epoch,
            group_id=self._group,
            version=connection.version(AddOffsetsToTxnRequest, 1, 3),
        )

    def _offsets(self, connection: Connection, positions: Mapping[MirrorPartition, CommittedPosition]) -> ApiMessage:
        topic_kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        part = topic_kind.TxnOffsetCommitRequestPartition
        topics = [
            topic_kind(
                name=topic,
                partitions=[
                    part(
                        partition_index=n,
                        committed_offset=found.offset,
                        committed_leader_epoch=-1,
                        committed_metadata=found.metadata,
                    )
                    for n in numbers
                    for at, found in positions.items()
                    if (at.topic, at.partition) == (topic, n)
                ],
            )
            for topic, numbers in by_topic(list(positions))
        ]
        return TxnOffsetCommitRequest(
            transactional_id=self._owned.name,
            group_id=self._group,
            producer_id=self._owned.producer.id,
            producer_epoch=self._owned.producer.epoch,
            generation_id=-1,
            member_id=_NO_MEMBER,
            group_instance_id=None,
            topics=topics,
            version=connection.version(TxnOffsetCommitRequest, *TXN_OFFSET_COMMIT),
        )
