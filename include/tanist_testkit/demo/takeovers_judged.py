"""What was seen of the failovers, held against what was promised. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist_testkit.demo.promises import Promise, none_of, the_same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.demo.outcomes import AbortedRun, Moved, UnplannedResult

_ENDS: Final = (
    "kafka-get-offsets.sh --bootstrap-server $EAST (then $WEST) --topic invoices"
    "   (west has a barrier and what was written later behind it); tanist failover status m2 -d west"
)
_CONFIGS: Final = "kafka-configs.sh --bootstrap-server $EAST --describe --entity-type topics --entity-name refunds"
_RULES: Final = "kafka-acls.sh --bootstrap-server $EAST --list --topic refunds --resource-pattern-type match"
_FENCE: Final = "tanist fence show m3 -d west"
_LOSS: Final = "DIR/evidence has the ends of both sides; diff of kcat from $EAST and $WEST as above: a tail, no holes"
_GROUP: Final = (
    "kafka-consumer-groups.sh --bootstrap-server $WEST --describe --group shipping; DIR/evidence has what was safe"
)
_OPEN: Final = "kcat -C -b $WEST -t orders -p 0 -o -5 -e"


def judge_takeovers(planned: Moved, undone: AbortedRun, rescued: UnplannedResult) -> tuple[Promise, ...]:
    """Every promise of the second act."""
    return (*_planned(planned), *_undone(undone), *_loss(rescued), *_groups(rescued))


def _planned(seen: Moved) -> Iterator[Promise]:
    known = f"{seen.acknowledged:,} acknowledged records"
    yield none_of("A planned failover loses nothing that a producer was told is safe", seen.absent, known, _ENDS)
    yield Promise(
        promise="Its fence stops the producers, and afterwards the destination takes their records",
        expected="some refused, then some taken",
        observed=f"{seen.refused:,} refused, then {seen.afterwards:,} taken",
        ok=seen.refused > 0 and seen.afterwards > 0,
        by_hand=_ENDS,
    )


def _undone(seen: AbortedRun) -> Iterator[Promise]:
    changed = sorted(name for name in {**seen.before, **seen.after} if seen.before.get(name) != seen.after.get(name))
    settings = f"{len(seen.before)} settings"
    yield the_same(
        "An aborted failover leaves the source's topic exactly as it was",
        f"0 of {settings} changed, fence lifted",
        f"{len(changed)} of {settings} changed, fence {', '.join(seen.fences)}",
        _CONFIGS,
    )
    yield the_same(
        "An aborted failover leaves the source's ACLs exactly as they were", seen.rules_before, seen.rules_after, _RULES
    )
    yield Promise(
        promise="After the abort its producers write on, and the mirror copies on",
        expected="some refused, then some taken; 0 absent",
        observed=f"{seen.refused:,} refused, then {seen.afterwards:,} taken; {seen.absent:,} absent",
        ok=seen.refused > 0 and seen.afterwards > 0 and not seen.absent,
        by_hand=_FENCE,
    )


def _loss(seen: UnplannedResult) -> Iterator[Promise]:
    moved = seen.moved
    since = f"what came in the {moved.age_seconds:.1f} s since, at the rate of before"
    yield Promise(
        promise="The source is killed: acknowledged records that are lost lie inside the forecast",
        expected=f"up to the estimate of {moved.estimate}: {moved.at_risk} seen at risk, and {since}",
        observed=f"{moved.absent:,} of {moved.acknowledged:,} absent",
        ok=moved.estimate is not None and moved.absent <= moved.estimate,
        by_hand=_LOSS,
    )
    yield none_of(
        "What is lost is the very end, never a record before a copied one",
        seen.scattered,
        f"{seen.moved.absent:,} lost ones",
        _LOSS,
    )
    yield Promise(
        promise="Producers go on at the destination",
        expected="some taken",
        observed=f"{moved.afterwards:,} taken",
        ok=moved.afterwards > 0,
        by_hand=_OPEN,
    )


def _groups(seen: UnplannedResult) -> Iterator[Promise]:
    yield the_same(
        "The consumer group goes on at exactly the next record after its last safe commit",
        f"{len(seen.reached)} partitions",
        f"{seen.exactly_next} partitions",
        _GROUP,
    )
