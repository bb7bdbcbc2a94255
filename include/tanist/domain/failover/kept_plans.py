"""Plans are kept: the words of each one that was shown, by its hash, so that whoever approves it types the hash alone.

A kept plan permits nothing. It expires with the longest approval, and belongs to one mirror, by its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.approval.entries import LONGEST_MS
from tanist.domain.approval.words import hash_of
from tanist.domain.kept_plan import KeptPlan
from tanist.domain.records import RunStatus
from tanist.domain.state_record import Tombstone

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tanist.domain.failover.plan import Plan
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView

KEPT_MS: Final = LONGEST_MS
MOST_KEPT: Final = 50
"""Plans of a mirror. Where there would be more the oldest are dropped: those that nobody has approved down to
`LEFT_KEPT`, so that approvals are not read for every new plan."""
LEFT_KEPT: Final = 40
REFRESH_MS: Final = 3_600_000
"""A plan that is made again is stored again only where its record is older than this."""


def kept_plan(view: StateView, spec: MirrorSpec, plan: str, now: EpochMs) -> KeptPlan | None:
    """The plan with the hash `plan`; None: it is not kept, has expired, or its words are not those of the hash."""
    found = next((each for each in view.kept_plans(spec.mirror) if each.plan == plan), None)
    if found is None or found.mirror_id != spec.mirror_id or _has_expired(found, now):
        return None
    return found if hash_of(found.plan_json) == plan else None


def is_full(view: StateView, spec: MirrorSpec) -> bool:
    """Whether `to_keep` may drop plans to make room, so that it has to be told which ones are approved."""
    return len(view.kept_plans(spec.mirror)) >= MOST_KEPT


def to_keep(
    plan: Plan, view: StateView, spec: MirrorSpec, now: EpochMs, approved: Collection[str] | None = None
) -> tuple[StateRecord, ...]:
    """What is written so that `plan` is kept, and no plan of this name that has expired; empty: nothing.

    Plans of a deleted mirror of the name are as good as expired: what a late command has stored of one goes, too. To
    make room the oldest are dropped: first those that are not among the `approved`, and of these only what must go.
    None: not known, so each plan may be approved. Never one that is running.
    """
    ours = [each for key in view.keys_of(spec.mirror) if isinstance(each := view[key], KeptPlan)]
    gone = [each for each in ours if each.mirror_id != spec.mirror_id or _has_expired(each, now)]
    tombstones = tuple(Tombstone(each.key) for each in gone if each.plan != plan.hash)
    found = kept_plan(view, spec, plan.hash, now)
    if found is not None and now - found.at < REFRESH_MS:
        return tombstones
    kept = KeptPlan(mirror=spec.mirror, mirror_id=spec.mirror_id, plan=plan.hash, plan_json=plan.canonical_plan, at=now)
    return (
        *tombstones,
        *_making_room([each for each in ours if each not in gone and each.plan != plan.hash], view, approved),
        kept,
    )


def _making_room(
    others: Sequence[KeptPlan], view: StateView, approved: Collection[str] | None
) -> tuple[Tombstone, ...]:
    """What is dropped of `others`, plans of one mirror, so that one more can be kept."""
    if (count := len(others) + 1) <= MOST_KEPT:
        return ()
    running = {each.plan for each in view.failovers(others[0].mirror) if each.status is RunStatus.RUNNING}
    needed = {each.plan for each in others if approved is None or each.plan in {*approved, *running}}
    surplus = max(count - MOST_KEPT, min(len(others) - len(needed), count - LEFT_KEPT))
    order = sorted((each.plan in running, each.plan in needed, each.at, each.plan, each.key) for each in others)
    return tuple(Tombstone(key) for *_, key in order[:surplus])  # at least 39 stay, so none that is running goes


def _has_expired(kept: KeptPlan, now: EpochMs) -> bool:
    return now - kept.at >= KEPT_MS
