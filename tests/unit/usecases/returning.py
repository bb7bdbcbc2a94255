"""The way back in memory: a mirror of `FailoverWorld` that has failed over. Its old source has the same records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tanist.domain.failback.survey import TailCounts
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import Reversed, reverse
from tests.fakes.cluster import pair_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.failback.open_transactions import ReturnedTransaction
    from tanist.domain.names import MirrorPartition, TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import CopiedSpan
    from tanist.usecases.mirror import ReturnedMirror
    from tests.unit.usecases.failover.in_memory import FailoverWorld


class NoTails:
    """Both logs are identical up to the end of what was copied."""

    def common_ends(self, copied: Mapping[MirrorPartition, CopiedSpan], by: Deadline) -> dict[MirrorPartition, int]:
        del by
        return {at: span.end for at, span in copied.items()}

    def counts(
        self, tails: Mapping[MirrorPartition, tuple[int, int]], by: Deadline
    ) -> dict[MirrorPartition, TailCounts]:
        del by
        assert all(begin == end for begin, end in tails.values()), tails
        return {at: TailCounts() for at in tails}

    def transactions(self, spans: Mapping[MirrorPartition, object], by: Deadline) -> dict[MirrorPartition, Any]:
        del by
        return dict.fromkeys(spans, ())


class NoTransactions:
    """None is open at the old source."""

    def on(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[ReturnedTransaction, ...]:
        del partitions, by
        return ()

    def abort(self, transaction: ReturnedTransaction, by: Deadline) -> None:
        raise NotImplementedError


def returned(world: FailoverWorld) -> ReturnedMirror:
    """Both clusters, as the way back sees them."""
    both = replace(world.clusters(), pair=pair_with(tails=NoTails())).returned()
    return replace(both, source=replace(both.source, transactions=NoTransactions()))


def reverses(world: FailoverWorld) -> Reversed:
    """Plan, approve and run."""
    clusters, request = returned(world), ReversalRequest()
    planned = reversal.plan(request, clusters, world.command()).plan
    reversal.approve(planned.hash, request, clusters, world.command(), terms=ApprovalTerms.of("drill", 60))
    return reverse(request, clusters, world.command())
