"""The fence of transactional ids: one empty transaction of each over the partitions that were copied in it.

InitProducerId alone is no fence: only the coordinator learns of it, and a Produce that is still on its way is accepted
by a leader that has no marker of a higher epoch (`../shared/reference/transactions.md`, "Who owns an id"). The marker
that ends an empty transaction is in the log of each partition. Nor does a fence keep off who asks for a new epoch: the
state does that, which workers read after every InitProducerId (`domain.promotions.copy_blocked_reason`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import InvalidProducerEpoch, InvalidTxnState, OperationNotAttempted, ProducerFenced
from tanist.domain.errors import CouldNotTell, Stopped, TanistError
from tanist.domain.lost_markers import LostMarker, lacks_marker, lost_marker, open_from
from tanist.domain.names import DestinationOffset
from tanist.domain.transaction_support import VERIFICATION
from tanist.domain.writer_identity import ProducerEpoch
from tanist.kafka.adapters.bounds import settled_ends
from tanist.kafka.wire.admin import ConfigKind, ConfigResource, describe_configs
from tanist.kafka.wire.requests import End, describe_producers, list_offsets
from tanist.kafka.wire.transactions import TransactionalId
from tanist.ports.clock import Deadline
from tanist.ports.fencing import ProducerFence, TransactionFence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import BrokerId, MirrorPartition
    from tanist.domain.writer_identity import TransactionalWriter
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router

_TIMEOUT_MS: Final = 15_000
"""Of an empty transaction whose owner dies."""
_ROUNDS_SECONDS: Final = 10.0
"""A worker that lives, and has other partitions in the id, takes it over again at once: then this is done again."""
_COORDINATOR_SECONDS: Final = 15.0
"""How long one coordinator may keep the others waiting in each phase."""
_TAKEN_OVER: Final = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState)
"""Another owner has begun since, so its coordinator has aborted ours: with a higher epoch still, in every partition."""


_NO_EPOCH: Final = ProducerEpoch(-1, -1)


@dataclass(slots=True)
class _EmptyTransaction:
    """Of one id. `epoch`: that of its first marker, or a lower one; `failed`: why a partition is not in it.

    `lasts`: what is committed of those partitions of which it is known.
    """

    owned: TransactionalId
    partitions: list[MirrorPartition]
    epoch: ProducerEpoch = _NO_EPOCH
    failed: dict[MirrorPartition, TanistError] = field(default_factory=dict)
    lasts: Mapping[MirrorPartition, CopiedPosition] = field(default_factory=dict)

    def begin(self, by: Deadline) -> None:
        """Take the id over: what was open in it is aborted."""
        self.owned.take_over(by)
        self.epoch = ProducerEpoch(*self.owned.producer)

    def commit_lost(self, by: Deadline) -> None:
        """Commit what lacks only the marker of its commit: the markers that follow would abort it."""
        ends = list_offsets(self.owned.router, dict.fromkeys(self.lasts, End.LOG_END), by) if self.lasts else {}
        known = {at: DestinationOffset(end) for at, end in ends.items() if not isinstance(end, TanistError)}
        lacking = [at for at, end in known.items() if lacks_marker(end, self.lasts[at])]
        seen = describe_producers(self.owned.router, lacking, by) if lacking else {}
        some = [
            at
            for at, answer in seen.items()
            if not isinstance(answer, TanistError)
            and lost_marker(known[at], self.lasts[at], open_from(answer, self.epoch.producer_id)) is LostMarker.COMMIT
        ]
        if some and all(error is None for error in self.owned.add(some, by).values()):
            self.owned.end(by, commit=True)
            self.owned.begin(by)

    def add(self, by: Deadline) -> None:
        """One partition that is refused keeps all of them out: it is left behind, and the others are added again."""
        while self.partitions:
            answers = self.owned.add(self.partitions, by)
            refused = {at: error for at in self.partitions if (error := answers[at]) is not None}
            if not refused:
                return
            if fenced := [error for error in refused.values() if isinstance(error, _TAKEN_OVER)]:
                raise fenced[0]
            own = {
                at: error for at, error in refused.items() if not isinstance(error, OperationNotAttempted)
            } or refused
            self.failed |= own
            self.partitions = [at for at in self.partitions if at not in own]

    def end(self, by: Deadline) -> None:
        """Abort it."""
        if self.partitions:
            self.owned.end(by, commit=False)

    def settle(self, by: Deadline) -> None:
        """Answers once every marker is written."""
        self.owned.begin(by)


def fence_transactional_ids(
    router: Router, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
) -> dict[MirrorPartition, TransactionFence | TanistError]:
    """As the port says. The ids wait for their markers side by side."""
    found: dict[MirrorPartition, TransactionFence | TanistError] = {}
    left, until = dict(writers), Deadline(min(by.at, time.monotonic() + _ROUNDS_SECONDS))
    while left:
        found |= _one_round(router, left, by)
        left = {at: each for at, each in left.items() if isinstance(found[at], _Unproved)}
        if not until.left(time.monotonic()):
            break
    return found


class _Unproved(CouldNotTell):
    """The id was taken over meanwhile, and not every partition has a marker since: again."""


def _one_round(
    router: Router, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
) -> dict[MirrorPartition, TransactionFence | TanistError]:
    each_id: defaultdict[str, list[MirrorPartition]] = defaultdict(list)
    for at, writer in sorted(writers.items()):
        each_id[writer.transactional_id].append(at)
    lasts = {at: writer.last for at, writer in writers.items() if writer.last is not None}
    some = [
        _EmptyTransaction(
            TransactionalId(router, name, _TIMEOUT_MS), its, lasts={at: lasts[at] for at in its if at in lasts}
        )
        for name, its in each_id.items()
    ]
    for each in some:  # at once, for a worker that is fenced by it may take the id over in between
        for phase in (
            _EmptyTransaction.begin,
            _EmptyTransaction.commit_lost,
            _EmptyTransaction.add,
            _EmptyTransaction.end,
        ):
            _do(each, phase, by)
    for each in some:
        _do(each, _EmptyTransaction.settle, by)
    failed = {at: error for each in some for at, error in each.failed.items()}
    return failed | _proved(router, {at: each.epoch for each in some for at in each.partitions}, by)


def _do(each: _EmptyTransaction, phase: Callable[[_EmptyTransaction, Deadline], None], by: Deadline) -> None:
    if not each.partitions:
        return
    try:
        phase(each, Deadline(min(by.at, time.monotonic() + _COORDINATOR_SECONDS)))
    except Stopped:
        raise
    except _TAKEN_OVER:
        pass  # what the leaders have seen counts
    except TanistError as error:
        each.failed |= dict.fromkeys(each.partitions, error)
        each.partitions = []


def _proved(
    router: Router, epochs: Mapping[MirrorPartition, ProducerEpoch], by: Deadline
) -> dict[MirrorPartition, TransactionFence | TanistError]:
    """The partitions whose leader has seen the epoch, or a higher one, and no open transaction of the id."""
    seen = describe_producers(router, epochs, by) if epochs else {}
    found: dict[MirrorPartition, TransactionFence | TanistError] = {}
    for at, answer in seen.items():
        if isinstance(answer, TanistError):
            found[at] = answer
        elif _stands(answer, epochs[at]) is not True:
            found[at] = _Unproved(f"{at}: no marker of producer id {epochs[at].producer_id} is in its log yet")
    fenced = [at for at in epochs if at not in found]
    for at, end in settled_ends(router, fenced, by).items() if fenced else ():
        found[at] = end if isinstance(end, TanistError) else TransactionFence(epochs[at], DestinationOffset(end))
    return found


def transactional_proof(
    router: Router, writers: Mapping[MirrorPartition, TransactionalWriter], by: Deadline
) -> dict[MirrorPartition, ProducerFence | TanistError]:
    """As the port says. FENCED, too, where the leader has forgotten the id, as after `producer.id.expiration.ms`.

    Then it asks the coordinator about the first batch of any transaction, and the coordinator knows the higher epoch.
    A leader that verifies no transaction asks nobody, and none asks about a batch outside of transactions: FORGOTTEN.
    """
    recorded = {at: each.fence for at, each in writers.items() if each.fence is not None}
    answers = describe_producers(router, recorded, by) if recorded else {}
    found: dict[MirrorPartition, ProducerFence | TanistError] = dict.fromkeys(writers, ProducerFence.OPEN)
    for at, answer in answers.items():
        if isinstance(answer, TanistError):
            found[at] = answer
        elif (stands := _stands(answer, recorded[at])) is None:
            found[at] = ProducerFence.FORGOTTEN
        elif stands:
            found[at] = ProducerFence.FENCED
    forgotten = [at for at, each in found.items() if each is ProducerFence.FORGOTTEN and writers[at].in_transactions]
    return found | _by_verification(router, forgotten, by)


def _by_verification(
    router: Router, partitions: Iterable[MirrorPartition], by: Deadline
) -> dict[MirrorPartition, ProducerFence | TanistError]:
    """Whether the leader of each partition asks the coordinator about a transaction that is new to it."""
    each_leader = {at: router.leader(at) for at in partitions}
    answers = {leader: _verifies(router, leader, by) for leader in set(each_leader.values())}
    return {at: answers[leader] for at, leader in each_leader.items()}


def _verifies(router: Router, broker: BrokerId, by: Deadline) -> ProducerFence | TanistError:
    try:
        found = describe_configs(router, ConfigResource(ConfigKind.BROKER, str(broker)), [VERIFICATION], by)
    except Stopped:
        raise
    except TanistError as error:
        return CouldNotTell(f"forgotten, and whether its leader verifies transactions is not known: {error.reason}")
    value = found[VERIFICATION].value if VERIFICATION in found else None
    return ProducerFence.FENCED if value == "true" else ProducerFence.FORGOTTEN


def _stands(producers: Iterable[ActiveProducer], fence: ProducerEpoch) -> bool | None:
    """Whether the leader refuses every epoch below that of the fence; None: it does not remember the producer id."""
    own = [each for each in producers if each.producer_id == fence.producer_id]
    if not own:
        return None
    return all(each.producer_epoch >= fence.epoch and each.transaction_start < 0 for each in own)
