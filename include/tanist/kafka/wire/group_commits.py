"""Positions of groups in three moves that a late sleeper cannot complete.

A plain OffsetCommit cannot be fenced: sent before a freeze, or after it, it takes a group back to where it stood then.

1. TxnOffsetCommit, generation -1, a member id that no group has: a group with members refuses it. The position is
   pending; whatever is committed for the group after this move wins over it, whichever way the transaction ends.
2. The committed positions are read again, without waiting for what is pending (requireStable off).
3. EndTxn: commit if each still is what the decision was made on, else abort.

So between the decision and its effect nobody else's commit can be lost; and whoever sleeps in between is fenced by the
next owner of the transactional id, or by the timeout. (4.3.1 and 3.9.1, classic and KIP-848 groups.)
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import (
    ConcurrentTransactions,
    GroupAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from tanist.domain.errors import CouldNotTell, GroupCommitFenced, PositionMoved, Stopped, TanistError
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.coordinators import PATIENCE_SECONDS, ByGroup, ask_once, passing
from tanist.kafka.wire.groups import fetch_committed
from tanist.kafka.wire.leaders import each_partition
from tanist.kafka.wire.offset_commits import add_group, commit_in_transaction
from tanist.kafka.wire.transactions import TransactionalId
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.names import TopicPartition
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.positions import CommitChange, CommittedPosition, Outcome

Changes = dict[str, "Mapping[TopicPartition, CommitChange]"]

TIMEOUT_MS: Final = 10_000
"""A command killed between the first and the third move blocks joining consumers of its groups for so long at most
(`transaction.abort.timed.out.transaction.cleanup.interval.ms`, 10 s, comes on top: 14 and 18 s were seen)."""
MOST_GROUPS: Final = 25
"""In one transaction: few enough that it is over long before its timeout, at 200 ms a request."""
_NO_MEMBER_OF_THEIRS: Final = "tanist"
"""Not empty: with an empty one groups that have members accept the commit, and are moved under their members."""
_FENCED: Final = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, InvalidProducerIdMapping)
_OF_THE_TRANSACTION: Final = (*_FENCED, TransactionalIdAuthorizationFailed)
_ABORT_SECONDS: Final = 2.0
_SETTLE_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 0.1


class _Over(Exception):  # no TanistError: what asks coordinators would take it for a group's answer
    """Something speaks against the transaction as a whole."""

    def __init__(self, error: TanistError) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True)
class _Sent:
    """What became of the first move. `pending`: what has to be read again; `final`: answers without any effect."""

    pending: dict[str, Outcome] = field(default_factory=dict)
    final: ByGroup[Outcome] = field(default_factory=dict)
    unsure: ByGroup[Outcome] = field(default_factory=dict)
    """Not answered: pending or not, now or later. Such a transaction is never committed."""


class GroupCommits:
    """One transactional id; owned by one thread at a time."""

    def __init__(self, router: Router, transactional_id: str) -> None:
        self._router = router
        self._owned = TransactionalId(router, transactional_id, TIMEOUT_MS)
        self._unused = False

    def take_over(self, by: Deadline) -> None:
        """Fence who has begun before, and abort what it left open.

        Raises:
            as TransactionalId.begin.
        """
        self._unused = False
        self._owned.take_over(by)
        self._unused = True

    def commit(self, changes: Changes, by: Deadline, confirm: Callable[[], None]) -> ByGroup[Outcome]:
        """What became of each group. `confirm` may raise a TanistError: that is the answer of what it hit, then."""
        done: ByGroup[Outcome] = {}
        groups = sorted(changes)
        for first in range(0, len(groups), MOST_GROUPS):
            some = {group: changes[group] for group in groups[first : first + MOST_GROUPS]}
            done |= self._commit_some(some, by, confirm)
        return done

    def _commit_some(self, changes: Changes, by: Deadline, confirm: Callable[[], None]) -> ByGroup[Outcome]:
        """One transaction after another, each without the groups that spoilt the one before."""
        patience = Deadline(min(by.at, time.monotonic() + PATIENCE_SECONDS))
        done: ByGroup[Outcome] = {}
        while left := {group: changes[group] for group in changes if group not in done}:
            try:
                answers = self._transaction(left, by, confirm)
            except Stopped:
                raise
            except TanistError as error:
                return done | dict.fromkeys(left, _translate_error(error))
            again = patience.left(time.monotonic()) > _PAUSE_SECONDS
            done |= {group: each for group, each in answers.items() if not (again and _passing(each))}
            if any(map(_passing, answers.values())):
                self._router.pause(_PAUSE_SECONDS, by)
        return done

    def _transaction(self, changes: Changes, by: Deadline, confirm: Callable[[], None]) -> ByGroup[Outcome]:
        """The three moves. Groups without an answer were rolled back because of another one: they are tried again.

        Raises:
            TanistError: of the transaction as a whole, or what `confirm` says; nothing was committed.
        """
        if not self._unused:
            self._owned.begin(by)
        self._unused = False
        decided = False
        try:
            sent = self._send(changes, by)
            moved = self._read_again(sent.pending, changes, by)
            if not (sent.unsure or moved) and sent.pending:
                confirm()
                self._owned.end(by, commit=True)
                decided = True
                self._await_visible(by)
                return {**sent.final, **sent.pending}
            return {**sent.final, **sent.unsure, **moved}
        finally:
            if not decided:
                self._abort()

    def _await_visible(self, by: Deadline) -> None:
        """Wait until what was committed can be read; whether or not, it is decided."""
        with suppress(TanistError):
            self._owned.begin(Deadline(min(by.at, time.monotonic() + _SETTLE_SECONDS)))
            self._unused = True

    def _abort(self) -> None:
        """As well as it goes: the brokers do it by themselves after the timeout, the next owner does it at once."""
        with suppress(TanistError):
            self._owned.end(Deadline(time.monotonic() + _ABORT_SECONDS), commit=False)

    # ── the first move ────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, changes: Changes, by: Deadline) -> _Sent:
        """Raises what speaks against the transaction as a whole."""

        def ask(connection: Connection, groups: Sequence[str], by: Deadline) -> ByGroup[Outcome]:
            answers: ByGroup[Outcome] = {}
            for index, group in enumerate(groups):
                refused = self._add(group, by)
                answers[group] = refused or self._send_one(connection, group, changes[group], by)
                if connection.closed:
                    return answers | dict.fromkeys(groups[index + 1 :], answers[group])
            return answers

        sent = _Sent()
        try:
            answers = ask_once(self._router, list(changes), by, ask)
        except _Over as over:
            raise over.error from over
        for group, answer in answers.items():
            if isinstance(answer, CouldNotTell):
                sent.unsure[group] = answer
            elif isinstance(answer, TanistError) or None not in answer.values():
                sent.final[group] = answer
            else:
                sent.pending[group] = answer
        return sent

    def _add(self, group: str, by: Deadline) -> TanistError | None:
        """Why this group cannot be in the transaction."""
        try:
            self._owned.ask(lambda connection: add_group(connection, self._owned, group), by)
        except GroupAuthorizationFailed as refused:
            return refused
        except TanistError as error:
            raise _Over(error) from error
        return None

    def _send_one(
        self, connection: Connection, group: str, wanted: Mapping[TopicPartition, CommitChange], by: Deadline
    ) -> Outcome | TanistError:
        new = {at: change.new for at, change in wanted.items()}
        try:
            request = commit_in_transaction(connection, self._owned, group, new, _NO_MEMBER_OF_THEIRS)
            answer = connection.call(request, by)
        except Stopped:
            raise
        except CouldNotTell as lost:
            return lost
        outcome = {
            at: None if each.error_code == NONE else error_for(each.error_code, f"commit of group {group!r} in {at}")
            for at, each in each_partition(answer.topics)
        }
        if over := next((error for error in outcome.values() if isinstance(error, _OF_THE_TRANSACTION)), None):
            raise _Over(over)
        if None in outcome.values():
            return outcome
        return next((error for error in outcome.values() if _passing(error)), None) or outcome

    # ── the second move ───────────────────────────────────────────────────────────────────────────────────────────

    def _read_again(self, pending: Mapping[str, Outcome], changes: Changes, by: Deadline) -> ByGroup[Outcome]:
        """Why groups must not be committed; none: each is where it was."""
        asked = {
            group: [at for at, refused in outcome.items() if refused is None] for group, outcome in pending.items()
        }
        found = ask_once(
            self._router,
            list(asked),
            by,
            lambda connection, groups, by: fetch_committed(connection, {g: asked[g] for g in groups}, by),
        )
        moved: ByGroup[Outcome] = {}
        for group, now in found.items():
            why = now if isinstance(now, TanistError) else _moved(group, asked[group], changes[group], now)
            if why is not None:
                moved[group] = why
        return moved


def _moved(
    group: str,
    partitions: Iterable[TopicPartition],
    wanted: Mapping[TopicPartition, CommitChange],
    now: Mapping[TopicPartition, CommittedPosition | TanistError],
) -> TanistError | None:
    for at in partitions:
        found, expected = now.get(at), wanted[at].expected
        if isinstance(found, TanistError):
            return found
        if found != expected:
            was = "nothing" if expected is None else expected.offset
            is_now = "nothing" if found is None else found.offset
            return PositionMoved(
                f"group {group!r} in {at}: {was} was committed when this was decided, now it is {is_now}"
            )
    return None


def _passing(answer: object) -> bool:
    return passing(answer) or isinstance(answer, ConcurrentTransactions)


def _translate_error(error: TanistError) -> TanistError:
    if not isinstance(error, _FENCED):
        return error
    return GroupCommitFenced(f"{error.name}: {error.reason}; or the transaction took longer than {TIMEOUT_MS} ms")
