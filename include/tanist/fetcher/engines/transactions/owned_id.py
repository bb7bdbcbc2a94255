"""The transactions of one transactional id: what is in the open one, when it ends, and what its end means.

Of a mirror that delivers at least once batches are appended outside of transactions, and each transaction has only
positions: behind what was appended since the last one. Before the first batch of a producer id in a partition a
position says whose batches may follow it, so whoever recovers can tell them from those of others.

`domain.transactional_append` says which phase follows which. After anything but success every partition of the
transaction recovers: its position is read again, from what was committed.
"""

from __future__ import annotations

import logging
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.appending import translate_refusal
from tanist.domain.broker_errors import MessageTooLarge, RecordListTooLarge
from tanist.domain.delivery import Delivery
from tanist.domain.errors import CouldNotTell, PartitionBroken, Stopped, TanistError
from tanist.domain.fake_group import NO_PRODUCER, MirrorTruncated, group_of
from tanist.domain.mapped_settings import TIMEOUT_MS, interval_ms
from tanist.domain.recovery import NotCommittedYet
from tanist.domain.transaction_size import TransactionSize
from tanist.domain.transactional_append import TxnEvent, TxnPhase, after
from tanist.domain.writer_identity import transactional_id_of
from tanist.fetcher.claims import NotOurs
from tanist.fetcher.engines.transactions.taking import behind_others, take
from tanist.kafka.wire.copy_transactions import CopyTransactions
from tanist.ports.positions import CommittedPosition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import DestinationOffset, MirrorPartition, ProducerId, SourceOffset, TopicPartition
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.fetcher.engines.transactions.taking import Taken
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.protocol.batch import BatchHeader
    from tanist.kafka.wire.router import Router
    from tanist.kafka.wire.waits import Waits

log = logging.getLogger(__name__)

CHANNELS: Final = 8
ANSWER_SECONDS: Final = 15.0
DECIDED_WITHIN_SECONDS: Final = 30.0
"""How long an end without an answer is asked for again; then the id is taken over, which tells the outcome, too."""
_NONE: Final[Mapping[MirrorPartition, Any]] = MappingProxyType({})


class Unexpected(CouldNotTell):
    """A batch was appended at another offset than the end of the mirror partition."""

    name = "APPENDED_ELSEWHERE"
    operator_action = "none: the mirror partition is read again, which shows who wrote to it"


class OwnedId:
    """Of one state partition, owned by the fetcher thread. Its id may be used only under the lease."""

    def __init__(self, destination: Router, tools: FetcherThreadTools, number: int) -> None:
        self.number = number
        self.phase = TxnPhase.TAKE_OVER
        self.partitions: dict[MirrorPartition, TransactionPartition] = {}
        """Those that the open transaction may hold something of."""
        self._destination = destination
        self._clock = tools.clock
        self._claims = tools.claims
        self._members: Sequence[TransactionPartition] = ()
        """All of this id that the thread has now. None of them can go on in an epoch that has ended."""
        self._spec = tools.spec
        self._size = TransactionSize()
        self._fenced: set[MirrorPartition] = set()
        """The partitions in which this owner has fenced the others since it took over."""
        name, group = transactional_id_of(self._spec, number), group_of(self._spec.mirror)
        channel, throttled = f"transactions-{self.channel}", tools.throttled
        self._transactions = CopyTransactions(
            destination, name, group, TIMEOUT_MS, channel=channel, throttled=throttled
        )
        self._transactions.transactional = self._wants_transactions

    @property
    def channel(self) -> int:
        """Ids of one channel share a connection to each leader, so they append one after another."""
        return self.number % CHANNELS

    @property
    def _wants_transactions(self) -> bool:
        return self._spec.delivery is Delivery.EXACTLY_ONCE

    def follow(self, members: Sequence[TransactionPartition]) -> None:
        """Take what the thread has of this id now, with the settings that the mirror has now."""
        self._members = members
        self._spec = next((each.assigned.spec for each in members if not each.assigned.draining), self._spec)
        if self._goes_on() and self._transactions.transactional is not self._wants_transactions:
            self.end_if_due(now=True)
            if self._goes_on():
                self._transactions.transactional = self._wants_transactions
                self._go(TxnEvent.NEW_EPOCH)
                self._recover_all()

    # ── a new epoch ───────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> TanistError | None:
        """Get a producer epoch in which nothing was sent, if one is needed. The reason if that was not possible."""
        while self.phase not in {TxnPhase.RESUME, TxnPhase.APPEND}:
            if self.phase is not TxnPhase.NEXT_EPOCH:
                if not self._claims.holds(self.number):
                    return NotOurs(f"the lease of state partition {self.number} has expired")
                if self.phase is TxnPhase.ASK_LEASE:
                    self.phase = after(self.phase, TxnEvent.DONE)
            by = self._clock.deadline(ANSWER_SECONDS)
            if take_over := self.phase is TxnPhase.TAKE_OVER:
                self._fenced.clear()
            event = self._transactions.take_over(by) if take_over else self._transactions.next_epoch(by)
            self.phase = after(self.phase, event)
            if take_over and event is not TxnEvent.DONE:
                return self._transactions.error
        return None

    def positions(self) -> Mapping[TopicPartition, CommittedPosition | TanistError]:
        """What is committed in the group of the mirror's positions.

        Raises:
            TanistError: its coordinator does not tell.
        """
        return self._transactions.positions(self._clock.deadline(ANSWER_SECONDS))

    @property
    def producer_id(self) -> ProducerId:
        """In whose name the partitions are appended to now."""
        return self._transactions.producer_id

    def fence(self, partitions: Collection[MirrorPartition]) -> Mapping[MirrorPartition, TanistError]:
        """Keep out what other owners may still append to `partitions` outside of transactions; why not, by partition.

        Raises:
            TanistError: the markers are being written, or it is not known whether they are: a new epoch comes first.
        """
        return self._end_empty(set(partitions) - self._fenced, TxnEvent.UNFENCED)

    def must_be_fresh(self) -> None:
        """Raises NotCommittedYet: the markers of the last transaction may not be written before a new epoch begins."""
        if self._goes_on():
            self.end_if_due(now=True)
        if self._goes_on():
            self._go(TxnEvent.UNMARKED)
            self._recover_all()
            raise NotCommittedYet("the markers of the last transaction come first")

    def mark(self, partitions: Collection[MirrorPartition], *, commit: bool) -> Mapping[MirrorPartition, TanistError]:
        """Write the markers that `partitions` have lost, of a transaction that was committed, or aborted.

        Why not, by partition. Raises: as `fence`.
        """
        return self._end_empty(set(partitions), TxnEvent.UNMARKED if commit else TxnEvent.UNFENCED)

    def _end_empty(self, left: set[MirrorPartition], event: TxnEvent) -> Mapping[MirrorPartition, TanistError]:
        """End an empty transaction on the partitions that are left, and on fewer if some refuse it."""
        refused: dict[MirrorPartition, TanistError] = {}
        if not left:
            return refused
        self.end_if_due(now=True)
        if self.phase in {TxnPhase.RESUME, TxnPhase.APPEND}:
            self._go(event)
        while self.phase in {TxnPhase.FENCE, TxnPhase.MARK}:
            commit = self.phase is TxnPhase.MARK
            done = self._transactions.end_empty(left, self._clock.deadline(ANSWER_SECONDS), commit=commit)
            if done is TxnEvent.DONE:
                self._fenced |= left
            elif done is TxnEvent.REFUSED and (some := self._transactions.refused):
                refused |= some
                left -= some.keys()
                if left:
                    continue
                done = TxnEvent.LEFT_OUT
            self._go(done)
        if self.phase is TxnPhase.RESUME:
            return refused
        self._recover_all()
        raise self._transactions.error or NotCommittedYet("markers are being written: they come first")

    def resumed(self) -> None:
        """Positions were read, after whether the mirror still copies: the next transaction may begin."""
        if self.phase is TxnPhase.RESUME:
            self.phase = after(self.phase, TxnEvent.DONE)

    def _goes_on(self) -> bool:
        """Whether anything may be sent in this epoch."""
        return self.phase is TxnPhase.APPEND

    # ── the open transaction ──────────────────────────────────────────────────────────────────────────────────────

    def append(self, partitions: Sequence[TransactionPartition]) -> Waits[None]:
        """Append everything that was read of `partitions`, which belong to this id and are being copied."""
        if not self._goes_on() or not self._may_append_plainly(partitions):
            return
        now = self._clock.monotonic()
        some = [each for each in partitions if each.pipeline.steps]
        taken = list(take(some, self._size.limit - self._held(self.partitions.values()), now))
        self.partitions |= {each.of.at: each.of for each in taken}
        batches = [batch for each in taken for batch in each.batches]
        if not batches:
            return
        event = yield from self._transactions.append(batches, self._clock.deadline(ANSWER_SECONDS))
        if event is TxnEvent.REFUSED and not self._transactions.transactional:
            self._keep(taken)
            return
        if event is not TxnEvent.DONE:
            for each in taken:
                each.of.alone_from = None
            largest = {each.of.at: each.largest for each in taken}
            self._failed(
                event, largest, behind_others(taken, self._transactions.bases), posted=sum(each.size for each in taken)
            )
            return
        bases, now = iter(self._transactions.bases), self._clock.monotonic()
        for each in taken:
            for header in each.headers:
                self._landed(each.of, header, next(bases), now)

    def _may_append_plainly(self, partitions: Sequence[TransactionPartition]) -> bool:
        """Whether batches may be sent outside of a transaction, if it is outside: nobody else checks the lease then.

        A position that names their producer is committed first.
        """
        if self._transactions.transactional:
            return True
        if not self._claims.holds(self.number):
            self._go(TxnEvent.FENCED)
            self._recover_all()
            return False
        ours = self._transactions.producer_id
        unnamed = [each for each in partitions if each.committed is not None and each.committed.producer_id != ours]
        for each in unnamed:
            self.commit_again(each)
        if unnamed:
            self.end_if_due(now=True)
        return self._goes_on()

    def _keep(self, taken: Sequence[Taken]) -> None:
        """Some partitions have refused a batch that is in no transaction: what was appended before it is committed."""
        refused, bases, now = self._transactions.refused, iter(self._transactions.bases), self._clock.monotonic()
        for each in taken:
            found = [(header, next(bases)) for header in each.headers]
            landed = list(takewhile(lambda one: one[1] >= 0, found))
            if len(landed) < len(found):
                each.of.open(now).position = each.begun
            for header, base in landed:
                self._landed(each.of, header, base, now)
            if (why := refused.get(each.of.at)) is not None:
                each.of.halt(_reason(each.of, why, each.largest), now)
        log.warning("batches were refused", extra={"id": self.number, "why": str(self._transactions.error)})
        self.end_if_due(now=True)
        if self._goes_on():
            self._go(TxnEvent.NEW_EPOCH)
        self._recover_all()
        self._look_for_leaders()

    def _landed(self, of: TransactionPartition, header: BatchHeader, base: DestinationOffset, now: float) -> None:
        expected = of.pipeline.end
        of.appended(header, base, now)
        if base != expected and of.opened is not None:
            of.opened.misplaced = True
            where = f"{of.at}: appended at {base}, not at {expected}"
            shorter = base < expected  # what our abort leaves there would hide it from recovery
            of.halt(MirrorTruncated(f"{where}, where it had ended") if shorter else Unexpected(where), now)

    def commit_again(self, of: TransactionPartition) -> None:
        """Take a position that has not moved into the next transaction: brokers expire what nobody commits."""
        self.partitions[of.at] = of
        of.open(self._clock.monotonic())

    def end_if_due(self, *, now: bool) -> Mapping[MirrorPartition, CopiedPosition]:
        """Commit the open transaction when it is old or large enough, or `now`; what was committed."""
        opened = {at: each for at, each in self.partitions.items() if each.opened is not None}
        if not self._goes_on() or not opened or not (now or self._due(opened.values())):
            return {}
        if any(each.opened is not None and each.opened.misplaced for each in opened.values()):
            self._abort()
            return {}
        ours = NO_PRODUCER if self._transactions.transactional else self._transactions.producer_id
        positions = {at: each.to_commit(ours) for at, each in opened.items()}
        if not self._commit(positions):
            return {}
        moment, epoch = self._clock.monotonic(), self._clock.now()
        for at, each in opened.items():
            each.was_committed(positions[at], moment, epoch)
        self.partitions.clear()
        self._size = self._size.committed()
        if not self._goes_on():  # it is committed, and a second request to end it may still arrive
            self._recover_all()
        return positions

    def _due(self, opened: Collection[TransactionPartition]) -> bool:
        begun = min(each.opened.begun_at for each in opened if each.opened is not None)
        draining = any(each.assigned.draining or each.pipeline.halted or each.pipeline.steps for each in opened)
        every = interval_ms(self._spec) / 1000
        large = self._held(opened) >= self._size.limit
        return draining or large or self._clock.monotonic() - begun >= every

    @staticmethod
    def _held(partitions: Collection[TransactionPartition]) -> int:
        """Bytes of the batches that the open transaction has of them."""
        opened = (each.opened for each in partitions if each.opened is not None)
        return sum(header.size for each in opened for header in each.appended)

    def _commit(self, positions: Mapping[MirrorPartition, CopiedPosition]) -> bool:
        """Whether the transaction is committed, for certain."""
        wanted = {at: CommittedPosition(each.position, each.metadata) for at, each in positions.items()}
        self._go(TxnEvent.DONE)
        event = self._transactions.commit_positions(wanted, self._clock.deadline(ANSWER_SECONDS))
        if event is not TxnEvent.DONE:
            self._failed(event)
            return False
        self._go(event)
        give_up = self._clock.deadline(DECIDED_WITHIN_SECONDS)
        while self.phase in {TxnPhase.COMMIT, TxnPhase.COMMIT_AGAIN}:
            event = self._transactions.end(self._clock.deadline(ANSWER_SECONDS), commit=True)
            if event is TxnEvent.DONE:
                self._go(event)
                return True
            if event is TxnEvent.UNANSWERED and give_up.left(self._clock.monotonic()) > 0:
                self._go(event)
                continue
            self._failed(event)
            if self.phase is TxnPhase.COMMIT_AGAIN:
                self.phase = TxnPhase.ASK_LEASE
        return False

    def _go(self, event: TxnEvent) -> TxnEvent:
        self.phase = after(self.phase, event)
        return event

    # ── failure ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _failed(
        self,
        event: TxnEvent,
        sizes: Mapping[MirrorPartition, int] = _NONE,
        behind: Mapping[MirrorPartition, SourceOffset] = _NONE,
        *,
        posted: int = 0,
    ) -> None:
        """The transaction is void, or nobody knows: each partition of it reads again what is committed.

        `sizes`: of the largest batch of each, in bytes. `behind`: where a batch begins that has others before it.
        `posted`: bytes that the open transaction may hold besides.
        """
        why = self._transactions.error
        if event in {TxnEvent.FENCED, TxnEvent.UNANSWERED}:
            self._size = self._size.failed(self._held(self.partitions.values()) + posted)
        refused = self._transactions.refused if event is TxnEvent.REFUSED else {}
        log.warning("transaction failed", extra={"transactional_id": self.number, "phase": self.phase, "why": str(why)})
        self._go(event)
        if self.phase is TxnPhase.ABORT:
            self._go(self._transactions.end(self._clock.deadline(ANSWER_SECONDS), commit=False))
        now = self._clock.monotonic()
        for at, each in self.partitions.items():
            reason = _reason(each, refused[at], sizes.get(at, 0)) if at in refused else None if refused else why
            if at in behind and isinstance(reason, PartitionBroken):
                each.alone_from, reason = behind[at], None
            each.halt(reason, now)
        self._recover_all()
        self._look_for_leaders()

    def _recover_all(self) -> None:
        """Nothing is open any more, or nobody knows."""
        for each in self.partitions.values():
            each.opened = None
        self.partitions.clear()
        for each in self._members:
            each.halt(None, self._clock.monotonic())

    def _abort(self) -> None:
        """One partition of it cannot be committed; its own halt says why."""
        self._go(TxnEvent.REFUSED)
        self._go(self._transactions.end(self._clock.deadline(ANSWER_SECONDS), commit=False))
        self._recover_all()

    def _look_for_leaders(self) -> None:
        topics = sorted(self._destination.topics())
        try:
            self._destination.refresh(topics, self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            log.warning("destination does not tell its leaders", extra={"reason": why.reason})


def _reason(of: TransactionPartition, why: TanistError, size: int) -> TanistError | None:
    """Why the partition fails; None: it is read again, in smaller batches. `size`: bytes of its largest batch."""
    too_large = isinstance(why, MessageTooLarge | RecordListTooLarge)
    if too_large and (smaller := of.merging.refused(size)):
        of.merging = smaller
        return None
    return translate_refusal(why)
