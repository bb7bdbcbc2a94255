"""Source fences that a plan finds in force, and that no unfinished failover has set."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode, named
from tanist.domain.failover.facts import is_locked
from tanist.domain.failover.plan import Limitation
from tanist.domain.fences import FenceStatus, fence_command, is_stray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.facts import Facts, ObservedTopic
    from tanist.domain.failover.plan import Intent


def of_old_fences(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Source fences that no unfinished failover has set: they block producers of a source that is in use.

    An unplanned failover needs its source to be fenced, whoever has done it: that is no reason against one.
    """
    # an unfinished run needs its fence: RUN_UNFINISHED reports it
    if intent.mode is Mode.UNPLANNED or is_locked(facts) or facts.others_running:
        return
    standing = [
        (each.topic, each.source_fence.status) for each in facts.of(intent.names) if each.source_fence and _stands(each)
    ]
    left = {topic: f"{topic} ({status})" for topic, status in standing if status is not FenceStatus.UNRECORDED}
    strange = [topic for topic, status in standing if status is FenceStatus.UNRECORDED]
    lift = partial(fence_command, "lift", intent.mirror, facts.destination)
    why = (
        *((f"left by an earlier failover: {named(left.values())}; lift it with `{lift([*left])}`",) if left else ()),
        *((f"not on record: {named(strange)}; lift it with `{lift(strange, '--unrecorded')}`",) if strange else ()),
    )
    if why:
        yield Limitation("SOURCE_FENCED", "; ".join(why))


def _stands(seen: ObservedTopic) -> bool:
    """Whether a source fence of ours is in force, or recorded as such; False for one that was there before ours."""
    fence = seen.source_fence
    if fence is None:
        return False
    return fence.status is not FenceStatus.LIFTED or bool(fence.reason) or is_stray(fence, stands=seen.fence_stands)
