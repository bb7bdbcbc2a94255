"""What must hold: when a run is called DONE, and once everybody has come to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.explorer import pointed
from tests.explorer.place import DR, EARLIER_LIFE, PARTITIONS, TOPICS, Place
from tests.explorer.product import (
    Approval,
    ApprovedPlan,
    CommandContext,
    FailoverRun,
    FenceStatus,
    MirrorStatus,
    Mode,
    Observer,
    Readiness,
    RunStatus,
    Silence,
    StatusContext,
    Verdict,
    check_invariants,
    may_stand,
    observe,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.explorer.product import MirrorSpec

HELD: Final = frozenset({FenceStatus.PROVED, FenceStatus.UNPROVED, FenceStatus.IN_FORCE})
DONE_UNDONE: Final = "never DONE undone"
INVARIANTS: Final = "no step leaves an invariant broken"


def done(place: Place, record: FailoverRun) -> None:
    """A run was called DONE: everything that its plan promised is so."""
    if record.status is not RunStatus.DONE:
        return
    spec = place.spec()
    if spec is None or record.started_at < spec.created_at:
        place.violated(EARLIER_LIFE, f"plan {record.plan} is DONE, by a run of an earlier mirror")
        return
    approval = next(
        (each for each in place.west.approvals if isinstance(each, Approval) and each.id == record.approval), None
    )
    if isinstance(approval, Approval) and approval.at < spec.created_at:
        place.violated(EARLIER_LIFE, f"plan {record.plan} ran on an approval of an earlier mirror")
    intent = ApprovedPlan.read(record.plan_json).intent
    for topic in intent.topics:
        for lacking in _lacking(place, spec, topic.topic, topic.promotion_epoch, intent.mode):
            place.violated(DONE_UNDONE, f"{topic.topic} {lacking}")
    _loss(place, spec, record)
    _invariants(place, spec, record)


def _invariants(place: Place, spec: MirrorSpec, record: FailoverRun) -> None:
    """The product's own check, of what is really there; what somebody with a console has changed is no step's work."""
    run = CommandContext(clock=place.clock, by=place.clock.deadline(60))
    observer = Observer(clusters=pointed.unpointed(place, spec), context=run)
    names = frozenset(ApprovedPlan.read(record.plan_json).intent.names)
    wanted = [topic for topic in observer.view().topics(DR) if topic.topic in names]
    for breach in check_invariants(observer.look(wanted, record.plan)):
        if breach.topic not in place.by_hand | place.excused:
            place.violated(INVARIANTS, str(breach))


def _lacking(place: Place, spec: MirrorSpec, topic: str, before: int, mode: Mode) -> Iterator[str]:
    view = place.view()
    wish = view.topic(DR, topic)
    if wish is not None and wish.promotion_epoch > before:
        return  # taken in again since
    if any(not place.sealed(spec, at) for at in PARTITIONS if at.topic == topic):
        yield "is not sealed"
    if view.promotions(DR, topic) <= before:
        yield "has no promotion counted"
    if not place.is_open(topic):
        yield "is not open at the destination"
    if topic in place.excused:
        return
    fence = place.fence(topic)
    owed = fence is not None and fence.status is FenceStatus.PENDING and mode is Mode.UNPLANNED
    if not owed and (fence is None or fence.status not in HELD):
        yield f"was never fenced at the source: on record it is {fence.status if fence else 'nothing'}"


def _loss(place: Place, spec: MirrorSpec, record: FailoverRun) -> None:
    """In both modes: what was acknowledged, and had been heard of. What nobody has seen is accepted by name."""
    approved = ApprovedPlan.read(record.plan_json)
    intent, planned = approved.intent, approved.intent.mode is Mode.PLANNED
    sealed = {at: place.sealed_at.get((int(spec.data_id), at)) for at in intent.partitions}
    known = {at: each for at, each in sealed.items() if each is not None}
    ends = {at: each.acknowledged if planned else each.told for at, each in known.items()}
    lost = {at: ends[at] - each.copied_until for at, each in known.items() if ends[at] > each.copied_until}
    if sum(lost.values()) > intent.loss_tolerance:
        named = ", ".join(f"{count} of {at}" for at, count in lost.items())
        place.violated("nothing acknowledged lost", f"{named} are missing, {intent.loss_tolerance} are tolerated")
    cut = {at: each.cut for at, each in known.items() if each.cut}
    if cut and "COPY_TRUNCATED" not in approved.limitations:
        named = ", ".join(f"{count} of {at}" for at, count in cut.items())
        place.violated("no damaged copy is promoted as a whole one", f"{named} were deleted from the copy, not a word")


# ── at rest ───────────────────────────────────────────────────────────────────────────────────────────────────────


def seen(place: Place) -> MirrorStatus | None:
    """What `tanist status` says; None: there is no such mirror."""
    if place.spec() is None:
        return None
    run = CommandContext(clock=place.clock, by=place.clock.deadline(60))
    reading = StatusContext(
        destination=place.west.side(),
        silence=Silence(place.clock),
        clusters=lambda spec: pointed.clusters(place, spec, "anybody"),
        context=run,
    )
    (found,) = observe(reading, DR)
    return found


def at_rest(place: Place) -> MirrorStatus | None:
    """Everybody is gone but a worker that lives; what status says then."""
    reported = seen(place)
    for topic in TOPICS:
        if not is_told(reported, topic):
            _two_sides(place, topic)
            _fence_is_known(place, topic)
    return reported


def is_told(told: MirrorStatus | None, topic: str) -> bool:
    """Whether `tanist status` FAILs because of `topic`, or of a run that is unfinished."""
    if told is None:
        return False
    bad = [each for each in told.status.checks if each.verdict is Verdict.FAIL]
    return any(each.name in {"runs", "fences"} and (topic in each.reason or each.name == "runs") for each in bad)


def _two_sides(place: Place, topic: str) -> None:
    if place.is_open(topic) and place.source_takes(topic) and topic not in place.excused:
        rule = "what a console undoes is told" if topic in place.by_hand else "never two writable sides"
        place.violated(rule, f"at rest {topic} takes records on both sides, and status is content")


def _fence_is_known(place: Place, topic: str) -> None:
    if topic not in place.put_up or place.source_takes(topic) or topic in place.abandoned:
        return
    if place.spec() is None:
        place.violated("a fence that stands is on record", f"{topic} is fenced, and no mirror is there to lift it")
        return
    held = place.fence(topic)
    if held is None or not may_stand(held):
        what = held.status if held else "nothing"
        place.violated(
            "a fence that stands is on record", f"{topic} is fenced, the record says {what}, status is content"
        )


def stray_fences(place: Place) -> list[str]:
    """Topics of the mirror that the product has fenced at a source that answers, and that have not taken over."""
    view, spec = place.view(), place.spec()
    if spec is None or place.east.dead:
        return []
    inside = {topic.topic for topic in view.topics(DR) if not view.promoted(DR, topic.topic)}
    return [topic for topic in sorted(place.put_up) if topic in inside and not place.source_takes(topic)]


def says_yes(told: MirrorStatus | None, mode: Mode) -> bool:
    """Whether status says that a failover can start now, perhaps with more to accept."""
    return told is not None and told.status.word(mode) in {Readiness.GO, Readiness.ACCEPT}
