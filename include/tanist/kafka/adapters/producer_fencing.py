"""The producer fence of a promotion, over `kafka.wire`: the port `ProducerFencing`.

The proof is a marker that can never be appended. It carries the producer epoch that the old writers have, and a
coordinator epoch lower than any real one: the leader first compares the producer epoch, exactly as it does for
data (ProducerAppendInfo.checkProducerEpoch), and answers 47 if they are fenced; otherwise it compares the coordinator
epoch and answers 52. An id that it has forgotten has the coordinator epoch -1, still above ours: 52 again. A batch of
data with an impossible sequence would be appended there, and be a record in a business topic.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.broker_errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from tanist.domain.errors import CouldNotTell, MalformedFrame, TanistError
from tanist.domain.gap_markers import LAST_EPOCH, coordinator_epochs
from tanist.domain.names import DestinationOffset, MirrorPartition
from tanist.domain.writer_identity import FENCED_EPOCH, ProducerIds, TransactionalWriter
from tanist.kafka.adapters.bounds import settled_ends
from tanist.kafka.adapters.durable_fences import Keeping, copied_ends
from tanist.kafka.adapters.transactional_fencing import fence_transactional_ids, transactional_proof
from tanist.kafka.wire.requests import Markers, describe_producers, write_markers
from tanist.ports.fencing import NO_HISTORY, ProducerFence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tanist.domain.names import ProducerId
    from tanist.domain.writer_identity import WriterIdentity
    from tanist.kafka.wire.leaders import Answers
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline
    from tanist.ports.fencing import Kept, TransactionFence


_Answers: TypeAlias = "dict[MirrorPartition, DestinationOffset | TanistError]"
MOST_AT_ONCE = 5_000
"""Markers for each leader in one request: some 0.2 s where nothing else is at work, and a time limit is kept."""


class Reserving:
    """Owned by one thread, with the router that it is given.

    Its producer epoch is higher than any that a leader has seen of the markers' id, so markers of workers that are on
    their way are refused once the first of ours has landed. After a request whose markers were not counted exactly, the
    next one has a higher epoch again.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._epochs: dict[MirrorPartition, int] = {}

    def write(
        self, ends: Mapping[MirrorPartition, int], marker_ids: Mapping[MirrorPartition, ProducerId], by: Deadline
    ) -> _Answers:
        """One request to each leader; where the logs end then, committed."""
        found = _offsets(settled_ends(self._router, ends, by))
        missing = {
            at: range(end, ends[at]) for at, end in found.items() if not isinstance(end, TanistError) and end < ends[at]
        }
        wanted = self._bounded(missing)
        found |= self._raise_epochs([at for at in wanted if at not in self._epochs], marker_ids, by)
        markers = {
            at: Markers(marker_ids[at], self._epochs[at], coordinator_epochs(DestinationOffset(each.start), len(each)))
            for at, each in wanted.items()
            if at in self._epochs
        }
        refused = write_markers(self._router, markers, by) if markers else {}
        found |= _offsets(settled_ends(self._router, markers, by))
        found |= {at: error for at, error in refused.items() if error is not None}
        for at in markers:
            if found[at] != wanted[at].stop:
                self._epochs.pop(at)
        return found

    def _bounded(self, missing: Mapping[MirrorPartition, range]) -> dict[MirrorPartition, range]:
        """The offsets that one request to each leader fills."""
        left: defaultdict[int, int] = defaultdict(lambda: MOST_AT_ONCE)
        wanted: dict[MirrorPartition, range] = {}
        for at, offsets in missing.items():
            leader = self._router.leader(at)
            if some := offsets[: left[leader]]:
                wanted[at] = some
                left[leader] -= len(some)
        return wanted

    def _raise_epochs(
        self, partitions: Collection[MirrorPartition], marker_ids: Mapping[MirrorPartition, ProducerId], by: Deadline
    ) -> _Answers:
        """Choose the epochs; returns the partitions that have none, with the reason."""
        failed: _Answers = {}
        for at, producers in describe_producers(self._router, partitions, by).items() if partitions else ():
            if isinstance(producers, TanistError):
                failed[at] = producers
                continue
            seen = max((e.producer_epoch for e in producers if e.producer_id == marker_ids[at]), default=0)
            if seen + 1 < LAST_EPOCH:
                self._epochs[at] = seen + 1
            else:
                failed[at] = CouldNotTell(f"{at}: no producer epoch of gap markers is left")
        return failed


def _offsets(ends: Mapping[MirrorPartition, int | TanistError]) -> _Answers:
    return {at: end if isinstance(end, TanistError) else DestinationOffset(end) for at, end in ends.items()}


_Seen: TypeAlias = "dict[MirrorPartition, ProducerFence | TanistError]"

_ROLES: Final = (0, 1, 2)
"""Places in `ProducerIds`: data, gap markers, fill up to the log start."""
_DATA_ROLES: Final = (0, 2)
_LAST_COORDINATOR_EPOCH: Final = 0x7FFFFFFF  # fillers carry their target offsets here, and lower ones are refused
_IMPOSSIBLE_COORDINATOR_EPOCH: Final = -2
_ROUNDS: Final = 3


class KafkaProducerFencing:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._keeping = Keeping(router)
        self._reserving = Reserving(router)

    def fence_data_producers(
        self, writers: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        return self._fence(writers, _DATA_ROLES, by)

    def copied_ends(
        self,
        writers: Mapping[MirrorPartition, ProducerIds],
        by: Deadline,
        begun: Mapping[MirrorPartition, DestinationOffset] = NO_HISTORY,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        return copied_ends(self._router, _data_ids(writers), by, begun) if writers else {}

    def reserve(
        self,
        ends: Mapping[MirrorPartition, int],
        writers: Mapping[MirrorPartition, ProducerIds],
        by: Deadline,
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        return self._reserving.write(ends, {at: each.marker for at, each in writers.items()}, by)

    def fence_producers(
        self, writers: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        return self._fence(writers, _ROLES, by)

    def fence_transactional_ids(
        self, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
    ) -> Mapping[MirrorPartition, TransactionFence | TanistError]:
        return fence_transactional_ids(self._router, writers, by)

    def proof(
        self, writers: Mapping[MirrorPartition, WriterIdentity], by: Deadline
    ) -> Mapping[MirrorPartition, ProducerFence | TanistError]:
        by_ids = {at: each for at, each in writers.items() if isinstance(each, ProducerIds)}
        by_transactions = {at: each for at, each in writers.items() if isinstance(each, TransactionalWriter)}
        return self._proof(by_ids, _ROLES, by) | transactional_proof(self._router, by_transactions, by)

    def compacted(self, topics: Collection[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        return self._keeping.compacted(topics, by)

    def kept(
        self, writers: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        return self._keeping.kept(_data_ids(writers), by)

    def keep(
        self, writers: Mapping[MirrorPartition, ProducerIds], by: Deadline, *, rest: float = 0
    ) -> Mapping[MirrorPartition, Kept | TanistError]:
        return self._keeping.keep(_data_ids(writers), by, rest)

    def _fence(
        self, writers: Mapping[MirrorPartition, ProducerIds], roles: Collection[int], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | TanistError]:
        if not writers:
            return {}
        before = settled_ends(self._router, writers, by)
        failed: dict[MirrorPartition, DestinationOffset | TanistError] = {
            at: end for at, end in before.items() if isinstance(end, TanistError)
        }
        ready = {at: each for at, each in writers.items() if at not in failed}
        ends = dict[MirrorPartition, "int | TanistError"]()
        answers: _Seen = {}
        left = ready
        for _ in range(_ROUNDS):
            late = self._bar(left, roles, by)
            ends |= settled_ends(self._router, left, by)
            answers |= self._proof(left, roles, by)
            answers |= {at: CouldNotTell(f"{at}: markers were written, and that was not answered") for at in late}
            left = {at: each for at, each in left.items() if answers[at] is not ProducerFence.FENCED}
            if not left:
                break
        return failed | {at: _fence_of(at, ends[at], answers[at]) for at in ready}

    def _proof(
        self, writers: Mapping[MirrorPartition, ProducerIds], roles: Collection[int], by: Deadline
    ) -> dict[MirrorPartition, ProducerFence | TanistError]:
        """One id that is not fenced is enough: of that partition the others are not asked about."""
        left, seen = dict(writers), {at: list["ProducerFence | TanistError"]() for at in writers}
        for role in roles:
            for at, answer in (self._ask(left, role, by) if left else {}).items():
                seen[at].append(answer)
                if answer is ProducerFence.OPEN:
                    del left[at]
        return {at: _all_of(at, answers) for at, answers in seen.items()}

    # ── markers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _bar(
        self, writers: Mapping[MirrorPartition, ProducerIds], roles: Collection[int], by: Deadline
    ) -> frozenset[MirrorPartition]:
        """Write the markers that are missing; returns the partitions of which not every marker was answered.

        Such a marker may still be appended, behind an end that is read now, and behind records of an old writer: these
        partitions are asked once more. That a marker was answered proves nothing else.
        """
        late = set[MirrorPartition]()
        for role, answers in self._each(writers, roles, by).items():
            wanted = {
                at: Markers(writers[at][role], _last_epoch(role), (_LAST_COORDINATOR_EPOCH,))
                for at, answer in answers.items()
                if answer is not ProducerFence.FENCED
            }
            if wanted:
                written = write_markers(self._router, wanted, by)
                late |= {at for at in wanted if written[at] is not None}
        return frozenset(late)

    def _each(
        self, writers: Mapping[MirrorPartition, ProducerIds], roles: Collection[int], by: Deadline
    ) -> dict[int, dict[MirrorPartition, ProducerFence | TanistError]]:
        """The leaders' answers for each of the ids, by its place in `ProducerIds`."""
        if not writers:
            return {}
        return {role: self._ask(writers, role, by) for role in roles}

    def _ask(self, writers: Mapping[MirrorPartition, ProducerIds], role: int, by: Deadline) -> _Seen:
        def ask(partitions: Iterable[MirrorPartition]) -> Answers[MirrorPartition, None]:
            probes = {
                at: Markers(writers[at][role], _last_epoch(role) - 1, (_IMPOSSIBLE_COORDINATOR_EPOCH,))
                for at in partitions
            }
            return write_markers(self._router, probes, by)

        answers = ask(writers)
        again = [at for at, answer in answers.items() if isinstance(answer, TanistError) and answer.retriable]
        if again:  # nothing is written by asking, so it may be asked again: a leader has moved
            answers |= ask(again)
        return {at: _meaning(at, answer) for at, answer in answers.items()}


def _data_ids(writers: Mapping[MirrorPartition, ProducerIds]) -> dict[MirrorPartition, ProducerId]:
    return {at: each.data for at, each in writers.items()}


def _last_epoch(role: int) -> int:
    return (FENCED_EPOCH, LAST_EPOCH, FENCED_EPOCH)[role]


def _meaning(at: MirrorPartition, answer: TanistError | None) -> ProducerFence | TanistError:
    if isinstance(answer, InvalidProducerEpoch):
        return ProducerFence.FENCED
    if isinstance(answer, TransactionCoordinatorFenced):
        return ProducerFence.OPEN
    return answer or MalformedFrame(f"{at}: a marker was accepted that no leader may accept")


def _all_of(at: MirrorPartition, answers: list[ProducerFence | TanistError]) -> ProducerFence | TanistError:
    """FENCED if all three ids are; OPEN if one certainly is."""
    if ProducerFence.OPEN in answers:
        return ProducerFence.OPEN
    errors = [answer for answer in answers if isinstance(answer, TanistError)]
    return errors[0] if errors else ProducerFence.FENCED if answers else CouldNotTell(f"{at}: no marker was sent")


def _fence_of(
    at: MirrorPartition, end: int | TanistError, barrier: ProducerFence | TanistError
) -> DestinationOffset | TanistError:
    if isinstance(barrier, TanistError):
        return barrier
    if barrier is ProducerFence.OPEN:
        return CouldNotTell(f"{at}: the markers were not written")
    return end if isinstance(end, TanistError) else DestinationOffset(end)
