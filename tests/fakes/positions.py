"""Consumer groups and their coordinator in memory, as far as committed positions go. It refuses what a broker would."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import UnknownMember, UnknownTopicOrPartition, UnstableOffsetCommit
from tanist.domain.errors import GroupCommitFenced, PositionMoved, TanistError
from tanist.domain.names import TopicPartition
from tanist.ports.positions import CommitChange, CommittedPosition, GroupFacts, GroupListing, unasked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import MirrorName, MirrorPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import CommittedOf, Outcome
    from tests.fakes.cluster import MemoryCluster

TIMEOUT_SECONDS: Final = 10.0
"""After this long an open transaction is aborted, its producer fenced."""
BEFORE_PENDING, BEFORE_READ, BEFORE_END = "groups:before-pending", "groups:before-read", "groups:before-end"
"""Where a command can be frozen."""


@dataclass
class MemoryGroup:
    """`positions`: with their place in the group's log; the later one counts, however its transaction ended when."""

    kind: str = "classic"
    members: int = 0
    positions: dict[TopicPartition, tuple[int, CommittedPosition]] = field(default_factory=dict)

    def put(self, at: TopicPartition, place: int, new: CommittedPosition) -> None:
        if place >= self.positions.get(at, (-1, new))[0]:
            self.positions[at] = (place, new)

    def now(self, at: TopicPartition) -> CommittedPosition | None:
        return self.positions[at][1] if at in self.positions else None


@dataclass
class MemoryTransaction:
    epoch: int = 0
    began: float | None = None
    pending: dict[tuple[str, TopicPartition], tuple[int, CommittedPosition]] = field(default_factory=dict)


@dataclass
class MemoryGroups:
    """The coordinator of the groups of one cluster, and of the transactions over their positions."""

    cluster: MemoryCluster
    groups: dict[str, MemoryGroup] = field(default_factory=dict)
    transactions: dict[str, MemoryTransaction] = field(default_factory=dict)
    silent: tuple[TanistError, ...] = ()
    """What brokers that do not list their groups answer."""
    _place: int = 0

    # ── what consumers do ─────────────────────────────────────────────────────────────────────────────────────────

    def group(self, name: str, kind: str = "classic") -> MemoryGroup:
        return self.groups.setdefault(name, MemoryGroup(kind))

    def commit(self, name: str, at: TopicPartition, offset: int, metadata: str = "") -> None:
        """A member's commit."""
        self.group(name).put(at, self._next(), CommittedPosition(offset, metadata))

    # ── what brokers do with a transaction ────────────────────────────────────────────────────────────────────────

    def init(self, transactional_id: str) -> int:
        """Whoever held it is fenced, what was pending is gone."""
        found = self.transactions.setdefault(transactional_id, MemoryTransaction())
        self._abort(found)
        return found.epoch

    def send(
        self, transactional_id: str, epoch: int, name: str, wanted: Mapping[TopicPartition, CommittedPosition]
    ) -> Outcome:
        """TxnOffsetCommit with generation -1 and a member id that no group has."""
        transaction = self._owned(transactional_id, epoch)
        if (group := self.groups.get(name)) and group.members:
            return {at: UnknownMember(f"group {name!r}") for at in wanted}
        outcome: dict[TopicPartition, TanistError | None] = {
            at: None if at in self.cluster.ends else UnknownTopicOrPartition(f"{at}") for at in wanted
        }
        if transaction.began is None:
            transaction.began = self.cluster.clock.monotonic()
        for at in [at for at, refused in outcome.items() if refused is None]:
            self.group(name)
            transaction.pending[name, at] = (self._next(), wanted[at])
        return outcome

    def end(self, transactional_id: str, epoch: int, *, commit: bool) -> None:
        """EndTxn."""
        transaction = self._owned(transactional_id, epoch)
        if commit:
            for (name, at), (place, new) in transaction.pending.items():
                self.group(name).put(at, place, new)
        transaction.pending, transaction.began = {}, None

    def is_pending(self, name: str, at: TopicPartition) -> bool:
        for transaction in self.transactions.values():
            self._expire(transaction)
        return any((name, at) in transaction.pending for transaction in self.transactions.values())

    def _owned(self, transactional_id: str, epoch: int) -> MemoryTransaction:
        found = self.transactions[transactional_id]
        self._expire(found)
        if found.epoch != epoch:
            raise GroupCommitFenced(f"transactional id {transactional_id!r}: epoch {epoch}, now {found.epoch}")
        return found

    def _expire(self, transaction: MemoryTransaction) -> None:
        now = self.cluster.clock.monotonic()
        if transaction.began is not None and transaction.began + TIMEOUT_SECONDS <= now:
            self._abort(transaction)

    def _abort(self, transaction: MemoryTransaction) -> None:
        transaction.epoch += 1
        transaction.pending, transaction.began = {}, None

    def _next(self) -> int:
        self._place += 1
        return self._place


class MemoryPositions:
    """The port `Positions`: one transaction for each group. `checkpoint`: called where a command can be frozen."""

    def __init__(
        self, groups: MemoryGroups, mirror: MirrorName, checkpoint: Callable[[str], None] = lambda _: None
    ) -> None:
        self._groups, self._checkpoint = groups, checkpoint
        self._id = f"tanist-{mirror}/groups"
        self._epoch: int | None = None

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]:
        return self.listing(by).groups

    def listing(self, by: Deadline) -> GroupListing:
        self._groups.cluster.answer()
        found = {
            name: GroupFacts(
                group=name, kind=each.kind, state="Stable" if each.members else "Empty", members=each.members
            )
            for name, each in self._groups.groups.items()
        }
        return GroupListing(groups=found, silent=self._groups.silent)

    def committed(
        self, groups: Sequence[str], by: Deadline, *, stable: bool = True
    ) -> Mapping[str, CommittedOf | TanistError]:
        if groups:
            self._groups.cluster.answer()
        return {name: self._committed(name, stable=stable) for name in groups}

    def _committed(self, name: str, *, stable: bool) -> CommittedOf:
        group = self._groups.groups.get(name, MemoryGroup())
        pending = {at for at in group.positions if stable and self._groups.is_pending(name, at)}
        known: dict[TopicPartition, CommittedPosition | TanistError] = {
            at: now for at, (_, now) in group.positions.items()
        }
        return known | {at: UnstableOffsetCommit(f"position of group {name!r} in {at}") for at in pending}

    def take_over(self, groups: Sequence[str], by: Deadline) -> None:
        if groups and not self._groups.cluster.dead:
            self._epoch = self._groups.init(self._id)

    def commit(
        self,
        changes: Mapping[str, Mapping[MirrorPartition, CommitChange]],
        by: Deadline,
        confirm: Callable[[], None] = unasked,
    ) -> Mapping[str, Outcome | TanistError]:
        done: dict[str, Outcome | TanistError] = {}
        refused: TanistError | None = None
        for name, wanted in changes.items():
            try:
                done[name] = self._three_moves(name, wanted, confirm)
            except _NotConfirmed as error:
                refused = refused or error.why
            except TanistError as error:
                done[name] = error
        if refused is not None:
            raise refused
        return done

    def _three_moves(
        self, name: str, wanted: Mapping[MirrorPartition, CommitChange], confirm: Callable[[], None]
    ) -> Outcome | TanistError:
        self._groups.cluster.answer()
        asked = dict[TopicPartition, CommitChange](wanted.items())
        epoch = self._epoch = self._groups.init(self._id) if self._epoch is None else self._epoch
        self._checkpoint(BEFORE_PENDING)
        outcome = self._groups.send(self._id, epoch, name, {at: change.new for at, change in asked.items()})
        sent = [at for at, refused in outcome.items() if refused is None]
        if not sent:
            return outcome
        self._checkpoint(BEFORE_READ)
        group = self._groups.group(name)
        if any(group.now(at) != asked[at].expected for at in sent):
            self._groups.end(self._id, epoch, commit=False)
            return PositionMoved(f"group {name!r}")
        try:
            confirm()
        except TanistError as why:
            self._groups.end(self._id, epoch, commit=False)
            raise _NotConfirmed(why) from why
        self._checkpoint(BEFORE_END)
        self._groups.end(self._id, epoch, commit=True)
        return outcome


class _NotConfirmed(Exception):
    def __init__(self, why: TanistError) -> None:
        super().__init__(why)
        self.why = why
