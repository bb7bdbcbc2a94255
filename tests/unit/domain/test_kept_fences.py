"""Source fences of topics that stay behind in a reversal: they are kept, with the cluster where they stand."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.kept_fences import fence_groups, kept_after, what_stays
from tanist.domain.moves import KeptFences, opposite
from tanist.domain.names import EpochMs
from tanist.domain.records import Fences
from tests.builders import DR, a_lineage, a_view
from tests.unit.domain.test_pending_reversal import SPEC, TOPIC

NOW = EpochMs(7)


def fence(topic: str, status: FenceStatus = FenceStatus.PROVED) -> FencedTopic:
    before = None if status is FenceStatus.PENDING else FenceBefore(topic=topic, kind=FenceKind.TINY_MESSAGES)
    return FencedTopic(topic=topic, status=status, wanted_by="cafe", before=before)


STAYS, PENDING, LIFTED = fence("stays"), fence("pending", FenceStatus.PENDING), fence("lifted", FenceStatus.LIFTED)
FAILED_OVER = Fences(mirror=DR, topics=(LIFTED, fence("orders"), PENDING, STAYS), at=EpochMs(1))
KEPT = KeptFences(mirror=DR, cluster_id="e", topics=(PENDING, STAYS), at=NOW)
"""East was the source when the topics were left behind there."""


def test_a_reversal_keeps_the_fences_of_topics_that_do_not_return_pending_ones_too() -> None:
    view = a_view(SPEC, FAILED_OVER)
    assert kept_after(view, SPEC, {"orders"}, NOW) == (KEPT,)
    assert kept_after(view, SPEC, {"orders", "stays", "pending"}, NOW) == ()


def test_fences_that_were_kept_at_one_cluster_are_carried_on_when_the_mirror_comes_back() -> None:
    """And those that are kept at the other cluster then are told apart from them; what was lifted is forgotten."""
    here, gone = opposite(SPEC), replace(KEPT, topics=(replace(PENDING, status=FenceStatus.LIFTED), STAYS))
    later = Fences(mirror=DR, topics=(fence("more"), fence("orders")), at=EpochMs(5))
    view = a_view(here, gone, later)
    at_east, at_west = kept_after(view, here, {"orders"}, NOW)
    assert (at_east.cluster_id, at_east.topics) == ("e", (STAYS,))
    assert (at_west.cluster_id, at_west.topics) == ("w", (fence("more"),))


def test_a_kept_fence_is_of_its_own_cluster_whichever_direction_the_mirror_has() -> None:
    for spec in (SPEC, opposite(SPEC)):
        view = a_view(spec, KEPT)
        of_source, kept = fence_groups(view, spec)
        assert (of_source.spec, of_source.kept, of_source.topics) == (spec, False, ())
        assert (kept.spec.source, kept.kept, kept.topics) == ("east", True, (PENDING, STAYS))
        assert kept.must_stand(view, "stays")
        lifted = replace(STAYS, status=FenceStatus.LIFTED)
        assert kept.updated([lifted], NOW) == replace(KEPT, topics=(PENDING, lifted))
        assert kept.updated([STAYS], NOW) is None


def test_a_kept_fence_of_a_topic_that_the_mirror_copies_again_is_not_set() -> None:
    """It would shut out the mirror."""
    back = replace(TOPIC, topic="pending")
    view = a_view(SPEC, KEPT, back)
    _, kept = fence_groups(view, SPEC)
    assert kept.watched(view) == (STAYS,)
    assert not kept.must_stand(view, "pending")


def test_a_kept_fence_is_forgotten_once_its_cluster_has_taken_over_the_topic() -> None:
    """The topic was added again and failed over to it: the stale fence was set on the live primary."""
    over = a_lineage(1, topic="stays", promotion_epoch=2, old_cluster_id="w", new_cluster_id="e", at=EpochMs(5))
    for spec in (SPEC, opposite(SPEC)):
        view = a_view(spec, KEPT, over)
        _, kept = fence_groups(view, spec)
        assert kept.topics == (PENDING,)
        assert kept.again(view).topics == (PENDING,)
        assert [each.topics for each in kept_after(view, spec, (), NOW)] == [(PENDING,)]
        left = replace(over, new_cluster_id="w")
        assert next(g for g in fence_groups(a_view(spec, KEPT, left), spec) if g.kept).topics


def test_a_kept_fence_of_a_topic_that_returns_is_not_carried_on() -> None:
    view = a_view(SPEC, KEPT)
    assert [each.topics for each in kept_after(view, SPEC, {"stays"}, NOW)] == [(PENDING,)]


def test_an_approver_is_told_that_topics_which_stay_behind_stay_fenced() -> None:
    assert what_stays(STAYS) == "it stays fenced at the old source"
    assert what_stays(PENDING).startswith("its source fence is pending")
    assert what_stays(LIFTED) == what_stays(None) == ""
