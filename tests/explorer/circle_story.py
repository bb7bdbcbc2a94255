"""Stories that go all the way round, drawn from a seed: what people do once the old source is back."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.explorer.product import Mode
from tests.explorer.rows import row_point
from tests.explorer.stage import AT_LAST, Effect, Order
from tests.explorer.story import Deed, Role, Story

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS: Final = (
    "recreate", "take_back", "deny", "closed", "configure", "remember", "ready", "lift", "admit", "settle",
    "release", "forget", "leave", "arrive", "undo lift", "undo configure", "undo deny", "undo take_back",
)  # fmt: skip
CHECKPOINTS: Final = (
    "reverse:moving", "reverse:denied", "reverse:configured", "reverse:lifting", "reverse:lifted", "reverse:ready",
    "reverse:settling", "reverse:settling", "reverse:state", "reverse:forgotten", "reverse:left", "reverse:deleted",
    "reverse:withdrawing", "reverse:fenced", "reverse:undone", "withdraw:withdrawing", "withdraw:fenced",
    "withdraw:undone", "rescue:created", "rescue:prepared", "rescue:appended", "rescue:copied", "replay:decided",
    "replay:stored", "replay:appended", "replay:done",
)  # fmt: skip
CALLS: Final = (
    "fencing.lift", "fencing.apply", "opening.close", "opening.undeny", "opening.take_back", "topics.alter_configs",
    "quarantine.append", "replays.append", "deletion.delete", "transactions.abort", "state.open", "state.append",
)  # fmt: skip
"""What Kafka does not fence by itself, or what does the fencing."""
_LONG: Final = (3.0, 9.0, 25.0, 25.0, 60.0, AT_LAST, AT_LAST)
_LOST: Final = (0, 1, 3, 5)
_BACK_SECONDS: Final = 15.0
"""Until workers have set the fences that are owed."""


def drawn_circle(seed: int) -> Story:
    """The same story for the same seed."""
    draw = random.Random(seed)
    kind: Callable[[random.Random], list[Role]] = draw.choice(
        (_one, _two, _two, _withdrawn, _withdrawn, _late_replay, _disasters)
    )
    roles = [*kind(draw), *_console(draw)]
    names = [role.name for role in roles if role.name != "console"]
    orders = {_order(draw, names) for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3)))}
    orders |= _EXTRA.get(kind, _nothing)(draw)
    return Story(
        seed=seed,
        authorizer=draw.random() < 0.8,
        writing=draw.random() < 0.8,
        roles=tuple(roles),
        orders=tuple(sorted(orders)),
        circle=True,
    )


def _order(draw: random.Random, names: Sequence[str]) -> Order:
    effect = draw.choices((Effect.FREEZE, Effect.KILL, Effect.LOSE), weights=(6, 4, 1))[0]
    at = draw.choice(
        (
            row_point("a reversal", draw.choice(ROWS)),
            draw.choice(CHECKPOINTS),
            draw.choice(CHECKPOINTS),
            draw.choice(CALLS),
        )
    )
    if effect is Effect.LOSE:
        at = draw.choice(CALLS)
    nth = draw.randint(1, {"state.append": 40, "state.open": 12}.get(at, 2))
    return Order(draw.choice(names), at, nth, effect, draw.choice(_LONG) if effect is Effect.FREEZE else 0.0)


def _nothing(_draw: random.Random) -> set[Order]:
    return set()


def _stopped(draw: random.Random) -> set[Order]:
    """Ann begins a reversal, and stops before it is settled; sometimes who withdraws it stops as well."""
    at = draw.choice(
        (
            *(row_point("a reversal", each) for each in ROWS[1 : ROWS.index("settle")]),
            "reverse:lifting",
            "reverse:settling",
            "fencing.lift",
        )
    )
    effect = draw.choice((Effect.FREEZE, Effect.KILL))
    stopped = {Order("ann", at, 1, effect, draw.choice(_LONG) if effect is Effect.FREEZE else 0.0)}
    if draw.random() < 0.3:
        undoing = draw.choice(("fencing.apply", "fencing.apply", "topics.alter_configs", "opening.undeny"))
        stopped.add(Order("bob", undoing, 1, draw.choice((Effect.LOSE, Effect.KILL))))
    return stopped


def _late(draw: random.Random) -> set[Order]:
    """Somebody is about to append, and does it when others have."""
    at = draw.choice(("replays.append", "replays.append", "quarantine.append"))
    return {Order("ann", at, draw.randint(1, 3), Effect.FREEZE, draw.choice((25.0, 60.0, AT_LAST)))}


# ── what people do ────────────────────────────────────────────────────────────────────────────────────────────────


def _failed_over(draw: random.Random) -> tuple[Deed, ...]:
    """East is lost with records that only it has, west takes over, and east returns."""
    hidden = draw.random() < 0.3
    begun = (Deed("begins_transaction"),) if draw.random() < 0.15 else ()
    lost = (*begun, Deed("loses", (draw.choice(_LOST), hidden)), Deed("failover", (Mode.UNPLANNED, ".*")))
    more = (Deed("overflows"),) if hidden and draw.random() < 0.3 else ()
    away = Deed("rest", (draw.choice((0.5, 4.0, 30.0 if hidden else 4.0)),))
    ended = (Deed("insists", ("abort_transactions",)),) if begun else ()
    return (*lost, *more, away, Deed("everybody_returns"), Deed("rest", (_BACK_SECONDS,)), *ended)


def _tails(draw: random.Random) -> tuple[Deed, ...]:
    what = draw.choice(("replay", "replay", "drop", "safe"))
    if draw.random() < 0.4:
        return (Deed("way_back", (what,)),)
    undecided = draw.random() < 0.3
    told = (
        Deed("insists", ("rescue",)),
        *(() if undecided else (Deed("insists", ("decide", what)), Deed("insists", ("replay",)))),
    )
    surveyed = (Deed("survey"), Deed("rest", (draw.choice((0.0, 5.0, 10.0)),))) if draw.random() < 0.5 else ()
    left = () if undecided and draw.random() < 0.5 else told
    return (*surveyed, *left, Deed("insists", ("reverse", "TAIL_UNDECIDED" if undecided else "")))


def _back(draw: random.Random) -> tuple[Deed, ...]:
    """The failover back."""
    return (
        Deed("rest", (draw.choice((8.0, 20.0)),)),
        Deed("planned"),
        *([Deed("way_back", ("drop",))] if draw.random() < 0.3 else []),
    )


def _any(draw: random.Random) -> Deed:
    return draw.choice((
        Deed("survey"), Deed("rescue"), Deed("decide", (draw.choice(("replay", "drop")),)), Deed("replay"),
        Deed("reverse"), Deed("reverse"), Deed("reverse", ("TAIL_UNDECIDED",)), Deed("withdraw"), Deed("withdraw"),
        Deed("planned"), Deed("go_on"), Deed("abort"), Deed("way_back", ("safe",)), Deed("rest", (8.0,)),
    ))  # fmt: skip


def _one(draw: random.Random) -> list[Role]:
    return [Role("ann", 0.0, (*_failed_over(draw), *_tails(draw), *_back(draw)))]


def _two(draw: random.Random) -> list[Role]:
    """Somebody else comes at any time, and does what status recommends, or anything."""
    after = draw.choice((18.0, 24.0, 26.0, 28.0, 30.0, 45.0, 70.0))
    bob = (*(_any(draw) for _ in range(draw.randint(1, 3))), *(_tails(draw) if draw.random() < 0.5 else ()))
    return [*_one(draw), Role("bob", after, bob)]


def _withdrawn(draw: random.Random) -> list[Role]:
    """A reversal that stops is withdrawn, or completed, and begun again."""
    ann = Role("ann", 0.0, (*_failed_over(draw), *_tails(draw), *_back(draw)))
    first = draw.choice((Deed("insists", ("withdraw",)), Deed("insists", ("withdraw",)), Deed("insists", ("reverse",))))
    again = (Deed("rest", (draw.choice((1.0, 9.0)),)), Deed("way_back", ("replay",)))
    return [ann, Role("bob", draw.choice((28.0, 33.0, 45.0)), (first, *(again if draw.random() < 0.7 else ())))]


def _late_replay(draw: random.Random) -> list[Role]:
    """Two rescue and replay at the same time."""
    first = (Deed("insists", ("rescue",)), Deed("insists", ("decide", "replay")), Deed("insists", ("replay",)))
    ann = Role("ann", 0.0, (*_failed_over(draw), *first, Deed("insists", ("reverse",)), *_back(draw)))
    bob = (
        Deed("insists", ("rescue",)),
        Deed("insists", ("replay",)),
        Deed("way_back", (draw.choice(("replay", "safe")),)),
    )
    return [ann, Role("bob", draw.choice((38.0, 45.0, 60.0)), bob)]


def _disasters(draw: random.Random) -> list[Role]:
    """The new primary is lost as well, at any time."""
    when = draw.choice((26.0, 30.0, 34.0, 40.0, 60.0))
    lost = (Deed("loses", (draw.choice(_LOST), False)), Deed("rest", (2.0,)), Deed("failover", (Mode.UNPLANNED, ".*")))
    back = (Deed("rest", (draw.choice((5.0, 30.0)),)), Deed("everybody_returns"), Deed("rest", (_BACK_SECONDS,)))
    undecided = (Deed("insists", ("rescue",)), Deed("insists", ("reverse", "TAIL_UNDECIDED")))
    tails = undecided if draw.random() < 0.5 else _tails(draw)
    ann = Role("ann", 0.0, (*_failed_over(draw), *tails, *_back(draw)))
    return [ann, Role("eve", when, (*lost, *back, *_tails(draw)))]


def _console(draw: random.Random) -> list[Role]:
    if draw.random() < 0.5:
        return []
    deed = draw.choice((Deed("retention_runs"), Deed("retention_runs"), Deed("grants")))
    return [Role("console", draw.choice((10.0, 16.0, 22.0, 26.0, 28.0, 31.0, 40.0, 60.0)), (deed,))]


_EXTRA: Final[dict[Callable[[random.Random], list[Role]], Callable[[random.Random], set[Order]]]] = {
    _withdrawn: _stopped,
    _late_replay: _late,
}
