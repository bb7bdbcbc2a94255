"""The transactions in which one thread appends batches that were readdressed in place, with their positions.

Or the positions alone, behind batches of the same producer epoch that are in none: it fences these as well.

Each method is a phase of `domain.transactional_append`, and returns what has happened in it.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.broker_errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    NotEnoughReplicas,
    OperationNotAttempted,
    ProducerFenced,
)
from tanist.domain.errors import BrokerError, CouldNotTell, Stopped, TanistError, TimedOut
from tanist.domain.names import DestinationOffset, MirrorPartition, ProducerId
from tanist.domain.transactional_append import TxnEvent
from tanist.kafka.protocol.batch import patch
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import ProduceBatch
from tanist.kafka.wire.coordinators import ask_once
from tanist.kafka.wire.groups import fetch_positions
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.leaders import each_partition
from tanist.kafka.wire.offset_commits import add_group, commit_in_transaction
from tanist.kafka.wire.transactions import TransactionalId
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tanist.domain.names import BrokerId, TopicPartition
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.kafka.wire.waits import Waits
    from tanist.ports.positions import CommittedPosition

_MODULUS: Final = 1 << 31
_FENCED: Final = (ProducerFenced, InvalidProducerEpoch)
_LOOK_SECONDS: Final = 1.0
_DEPTH: Final = 4
"""Appends in flight; of a producer the broker recognises the last five batches (ProducerStateEntry)."""


class TransactionNotVerified(BrokerError):
    """A leader did not learn from the coordinator whether its partition is in the transaction.

    Brokers say NOT_ENOUGH_REPLICAS then, too, because older clients try that again (ReplicaManager).
    """

    name, retriable = "TRANSACTION_NOT_VERIFIED", True
    operator_action = (
        "none if it passes (the coordinator of the transactional id is moving); otherwise restart the brokers of "
        "__transaction_state"
    )


class TransactionEnding(CouldNotTell):
    """The last transaction of the id was decided, and no other one can begin before all its markers are written."""

    name = "TRANSACTION_ENDING"
    operator_action = (
        "restore the replicas of the partitions that are named: brokers write a marker where min.insync.replicas are "
        "in sync"
    )


_UNVERIFIED: Final = "Unable to verify"
"""What only that refusal says; of too few replicas it is "insufficient to satisfy the min.isr requirement"."""


class CopiedBatch(NamedTuple):
    """One batch of the source, dense; its memory is ours to change."""

    at: MirrorPartition
    payload: memoryview
    records: int


class _Posted(NamedTuple):
    """`batches`: by their place in the append."""

    appends: Appends
    batches: Sequence[int]


def _turns(batches: Sequence[CopiedBatch]) -> list[list[int]]:
    """The places of the first batch of each partition, of the second, and so on."""
    turns: list[list[int]] = []
    seen: defaultdict[MirrorPartition, int] = defaultdict(int)
    for i, each in enumerate(batches):
        turn = seen[each.at]
        seen[each.at] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(i)
    return turns


class CopyTransactions:
    """Of one transactional id. `error`: why the last phase was not done; None: it was.

    `bases`: of the last `append`, the offset of each batch, in their order (-1: not appended). `refused`: the
    partitions that broke the last phase that names any, each with its own reason. `transactional`: whether batches are
    in transactions, or of the same producer and epoch without one; whoever changes it begins an epoch before the next
    append. `channel`: of its connections to leaders, who answer the requests of one connection one by one; one `append`
    at a time uses it.
    """

    def __init__(
        self,
        router: Router,
        name: str,
        group: str,
        timeout_ms: int,
        *,
        channel: str = "transactions",
        throttled: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`throttled` gets the milliseconds for which a leader reads no append, because of a quota (KIP-219)."""
        self._router = router
        self._throttled = throttled
        self._channel = channel
        self._owned = TransactionalId(router, name, timeout_ms)
        self._group = group
        self._appends: dict[BrokerId, Appends] = {}
        self._sequences: defaultdict[MirrorPartition, int] = defaultdict(int)
        self._added: set[MirrorPartition] = set()
        self._verified: set[MirrorPartition] = set()
        """Those that have answered in this transaction. Until then an append to a leader waits alone: of an id one
        verification at a time is pending, and the next one cancels it (AddPartitionsToTxnManager.addTxnData). And a
        leader that does not know the producer takes its second batch also where it has refused the first."""
        self.bases: list[DestinationOffset] = []
        self.refused: dict[MirrorPartition, TanistError] = {}
        self.error: TanistError | None = None
        self.transactional = True
        self._lacks_markers = False
        """Whether the last epoch did not begin for want of a marker: the next try is short, other ids wait for it."""

    @property
    def producer_id(self) -> ProducerId:
        """Whose batches are appended in this epoch. Coordinators change it where its epochs are used up."""
        return ProducerId(self._owned.producer.id)

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

    def end_empty(self, partitions: Collection[MirrorPartition], by: Deadline, *, commit: bool) -> TxnEvent:
        """End an empty transaction on `partitions`: no earlier epoch can append there once its markers are written.

        They are when the next epoch begins. `commit`: what the producer id has open there is committed by them.
        `refused`: the partitions that kept it from beginning.
        """
        return self._phase(lambda: self._end_empty(partitions, by, commit=commit))

    def append(self, batches: Sequence[CopiedBatch], by: Deadline) -> Waits[TxnEvent]:
        """Append in the order given, several batches of a partition in flight; each wait is for an answer."""
        self.error = None
        try:
            yield from self._append(batches, by)
        except Stopped:
            raise
        except TanistError as why:
            return self._happened(why)
        return TxnEvent.DONE

    def commit_positions(self, positions: Mapping[MirrorPartition, CommittedPosition], by: Deadline) -> TxnEvent:
        """The positions behind what was appended, in the same transaction."""
        return self._phase(lambda: self._commit_positions(positions, by))

    def end(self, by: Deadline, *, commit: bool) -> TxnEvent:
        """Decide. It is asked once: whoever asks again knows that the first one may still arrive."""
        done = self._phase(lambda: self._owned.end(by, commit=commit, once=True))
        if done is TxnEvent.DONE:
            self._forget_partitions()
        return done

    def _phase(self, work: Callable[[], None]) -> TxnEvent:
        self.error = None
        try:
            work()
        except Stopped:
            raise
        except TanistError as why:
            return self._happened(why)
        return TxnEvent.DONE

    def _happened(self, why: TanistError) -> TxnEvent:
        self.error = why
        if isinstance(why, _FENCED):
            return TxnEvent.FENCED
        return TxnEvent.REFUSED if isinstance(why, BrokerError) else TxnEvent.UNANSWERED

    def _begin(self, begin: Callable[[Deadline], None], by: Deadline) -> None:
        for appends in self._appends.values():  # of the epoch before: an answer to it is nobody's
            appends.connection.close()
        self._appends.clear()
        try:
            begin(Deadline(min(by.at, time.monotonic() + _LOOK_SECONDS)) if self._lacks_markers else by)
        except (ConcurrentTransactions, TimedOut) as late:
            self._must_not_be_ending(late)
            raise
        self._lacks_markers = False
        self._sequences.clear()
        self._forget_partitions()

    def _must_not_be_ending(self, late: TanistError) -> None:
        """Raises TransactionEnding: what `late` has waited for are markers."""
        left = self._owned.unmarked(Deadline(time.monotonic() + _LOOK_SECONDS))
        self._lacks_markers = bool(left)
        if left:
            partitions = ", ".join(map(str, sorted(left)))
            raise TransactionEnding(
                f"the last transaction of {self._owned.name!r} has no marker yet in {partitions}, so none of its "
                "partitions is copied"
            ) from late

    def _forget_partitions(self) -> None:
        self._added.clear()
        self._verified.clear()

    def _end_empty(self, partitions: Collection[MirrorPartition], by: Deadline, *, commit: bool) -> None:
        self.refused = {}
        self._add(partitions, by)
        self._owned.end(by, commit=commit, once=True)
        self._forget_partitions()

    def _append(self, batches: Sequence[CopiedBatch], by: Deadline) -> Waits[None]:
        self.bases, self.refused = [DestinationOffset(-1)] * len(batches), {}
        if self.transactional:
            self._add({each.at for each in batches} - self._added, by)
        leaders = {at: self._router.leader(at) for at in {each.at for each in batches}}
        in_flight: deque[_Posted] = deque()
        try:
            yield from self._post(batches, leaders, in_flight, by)
        except BrokerError as why:
            if in_flight:  # not a refusal: whether they were appended is not known
                raise CouldNotTell(f"batches are on their way: {why.reason}") from why
            raise
        if self.refused:
            raise min(self.refused.values(), key=lambda why: not isinstance(why, _FENCED))  # a fence concerns all

    def _post(
        self,
        batches: Sequence[CopiedBatch],
        leaders: Mapping[MirrorPartition, BrokerId],
        in_flight: deque[_Posted],
        by: Deadline,
    ) -> Waits[None]:
        for turn in _turns(batches):
            fresh = {batches[i].at for i in turn} - self._verified
            led: defaultdict[BrokerId, list[int]] = defaultdict(list)
            for i in turn:
                led[leaders[batches[i].at]].append(i)
            for leader, some in led.items():
                appends = self._open(leader, by)
                appends.post([self._patched(batches[i]) for i in some], by)
                in_flight.append(_Posted(appends, some))
            while in_flight and (fresh or len(in_flight) > _DEPTH):
                yield
                self._collect(in_flight.popleft(), batches, by)
            self._verified |= fresh
            if self.refused:
                break
        while in_flight:
            yield
            self._collect(in_flight.popleft(), batches, by)

    def _patched(self, of: CopiedBatch) -> ProduceBatch:
        producer, sequence = self._owned.producer, self._sequences[of.at]
        self._sequences[of.at] = (sequence + of.records) % _MODULUS
        patch(of.payload, producer.id, producer.epoch, sequence, transactional=self.transactional)
        return ProduceBatch(of.at.topic, of.at.partition, of.payload)

    def _collect(self, posted: _Posted, batches: Sequence[CopiedBatch], by: Deadline) -> None:
        """Raises CouldNotTell where an answer is missing, whatever else was refused."""
        answer = posted.appends.collect(by)
        if answer.throttle_ms > 0:
            self._throttled(answer.throttle_ms)
        for i, each in zip(posted.batches, answer.partitions, strict=True):
            at = batches[i].at
            if each.error_code == NONE:
                self.bases[i] = DestinationOffset(each.base_offset)
            else:  # the first is the reason: what follows it lacks its sequence
                self.refused.setdefault(at, _refusal(each.error_code, f"append to {at}: {each.message}"))

    def _open(self, leader: BrokerId, by: Deadline) -> Appends:
        held = self._appends.get(leader)
        if held is None or held.connection.lost:
            connection = self._router.connection(leader, by, channel=self._channel)
            transactional_id = self._owned.name if self.transactional else ""
            held = self._appends[leader] = Appends(connection, transactional_id=transactional_id)
        return held

    def _add(self, partitions: Collection[MirrorPartition], by: Deadline) -> None:
        if partitions:
            answers = self._owned.add(sorted(partitions), by)
            errors = {at: error for at, error in answers.items() if error is not None}
            named = {at: error for at, error in errors.items() if not isinstance(error, OperationNotAttempted)}
            self.refused = {at: named[at] for at in partitions if at in named}
            if errors:
                raise next(iter((named or errors).values()))
            self._added |= set(partitions)

    def _commit_positions(self, positions: Mapping[MirrorPartition, CommittedPosition], by: Deadline) -> None:
        self.refused = {}
        self._owned.ask(lambda connection: add_group(connection, self._owned, self._group), by)

        def ask(connection: Connection, groups: Sequence[str], by: Deadline) -> dict[str, TanistError | bool]:
            answer = connection.call(commit_in_transaction(connection, self._owned, self._group, positions), by)
            self.refused = {
                MirrorPartition(*at): error_for(each.error_code, f"the position of {at} in group {self._group!r}")
                for at, each in each_partition(answer.topics)
                if each.error_code != NONE
            }
            return dict.fromkeys(groups, next(iter(self.refused.values()), True))

        done = ask_once(self._router, [self._group], by, ask)[self._group]
        if isinstance(done, TanistError):
            raise done


def _refusal(code: int, context: str) -> TanistError:
    """Why a leader has not appended."""
    error = error_for(code, context)
    if isinstance(error, NotEnoughReplicas) and _UNVERIFIED in context:
        return TransactionNotVerified(context)
    return error
