"""One play, drawn from a seed: who does what when, and what happens to whom."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.explorer.product import Mode
from tests.explorer.stage import AT_LAST, Effect, Order

if TYPE_CHECKING:
    from collections.abc import Iterator


class Deed(NamedTuple):
    name: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Role:
    """An operator or a console: `deeds` one after the other, from `after` seconds on."""

    name: str
    after: float
    deeds: tuple[Deed, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """`circle`: it goes all the way round, and is played on `Circle`; else it is about failovers only.

    `mapped`: of a mirror with mapped offsets, on `MappedPlace`.
    """

    seed: int
    authorizer: bool
    writing: bool
    roles: tuple[Role, ...]
    orders: tuple[Order, ...]
    circle: bool = False
    mapped: bool = False

    @property
    def size(self) -> int:
        return len(self.orders) + sum(len(role.deeds) for role in self.roles)

    def shorter(self) -> Iterator[Story]:
        """With one thing left out, big things first."""
        for n in range(len(self.roles)):
            yield replace(self, roles=(*self.roles[:n], *self.roles[n + 1 :]))
        for n in range(len(self.orders)):
            yield replace(self, orders=(*self.orders[:n], *self.orders[n + 1 :]))
        for n, role in enumerate(self.roles):
            for m in range(len(role.deeds)):
                fewer = replace(role, deeds=(*role.deeds[:m], *role.deeds[m + 1 :]))
                if fewer.deeds:
                    yield replace(self, roles=(*self.roles[:n], fewer, *self.roles[n + 1 :]))

    def lines(self) -> list[str]:
        """As it was played, for people."""
        kind = "access rules" if self.authorizer else "no authorizer"
        way = "all the way round; " if self.circle else "mapped offsets; " if self.mapped else ""
        said = [f"{way}{kind}; an application {'writes' if self.writing else 'does not write'} at the source"]
        said += [f"{role.name} from {role.after:g} s: {', '.join(map(str, role.deeds))}" for role in self.roles]
        return said + [str(order) for order in self.orders]


LABELS: Final = (
    "state.open", "state.open", "state.append", "state.append", "state.catch_up", "fencing.snapshot", "fencing.apply",
    "fencing.apply", "fencing.lift", "producer_fencing.fence_producers", "opening.open", "opening.canary",
    "positions.take_over",
    "groups:before-pending", "groups:before-end", "approvals.all", "approvals.append", "logs.ends", "clock.wait",
    "topics.create", "*", "*", "*",
)  # fmt: skip
UNGUARDED: Final = (
    "fencing.apply", "fencing.apply", "fencing.lift", "fencing.lift", "opening.open",
    "producer_fencing.fence_producers",
    "topics.alter_configs", "groups:before-end", "groups:before-pending", "topics.create", "state.open",
)  # fmt: skip
"""What Kafka does not fence by itself, or what does the fencing."""
_MOST: Final = {
    "*": 200,
    "state.append": 25,
    "state.catch_up": 60,
    "logs.ends": 30,
    "clock.wait": 30,
    "fencing.apply": 1,
}
_LONG: Final = (0.3, 3.0, 9.0, 9.0, 25.0, 60.0, AT_LAST, AT_LAST)
_TOPICS: Final = ("orders", "payments")
_CHOICES: Final = (".*", ".*", "orders", "payments")


def drawn(seed: int) -> Story:
    draw = random.Random(seed)
    kind = draw.choice((_free, _free, _two_plans, _late, _late, _recreated, _quiet))
    roles = kind(draw)
    names = [role.name for role in roles if role.name != "console"]
    orders = [_order(draw, names) for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
    if kind is _two_plans:
        at = draw.choice(("state.open", "state.open", "state.append", "fencing.apply", "positions.commit"))
        orders.append(Order("bob", at, 1, Effect.FREEZE, draw.choice(_LONG)))
    elif kind is _late:
        who = draw.choice(("ann", "ann", "ann", "worker's debts"))
        orders.append(Order(who, draw.choice(UNGUARDED), 1, Effect.FREEZE, draw.choice((9.0, 25.0, 60.0, AT_LAST))))
    return Story(
        seed=seed,
        authorizer=draw.random() < 0.85,
        writing=draw.random() < 0.7,
        roles=tuple(roles),
        orders=tuple(sorted(set(orders))),
    )


def _order(draw: random.Random, names: list[str]) -> Order:
    effect = draw.choices(list(Effect), weights=(12, 4, 2, 1, 1))[0]
    label = draw.choice(LABELS)
    nth = draw.randint(1, _MOST.get(label, 3))
    who = draw.choice([*names, *names, *names, "worker", "worker's debts"])
    return Order(who, label, nth, effect, draw.choice(_LONG) if effect is Effect.FREEZE else 0.0)


# ── what people do ────────────────────────────────────────────────────────────────────────────────────────────────


def _failover(draw: random.Random) -> Deed:
    return Deed(
        draw.choice(("failover", "failover", "failover", "steps")),
        (draw.choice((Mode.PLANNED, Mode.PLANNED, Mode.UNPLANNED)), draw.choice(_CHOICES)),
    )


def _deed(draw: random.Random) -> Deed:
    topic = draw.choice(_TOPICS)
    others = (
        Deed("go_on"), Deed("go_on"), Deed("abort"), Deed("abort"), Deed("lift", (False,)), Deed("lift", (True,)),
        Deed("pause", (topic,)), Deed("resume", (topic,)), Deed("alter"), Deed("add", (topic,)), Deed("delete"),
        Deed("delete", ("for good",)), Deed("sync_metadata"), Deed("sync_groups"), Deed("sync_groups"),
        Deed("rest", (draw.choice((3.0, 10.0)),)),
    )  # fmt: skip
    return _failover(draw) if draw.random() < 0.4 else draw.choice(others)


def _free(draw: random.Random) -> list[Role]:
    """Anything by anybody."""
    found = [
        Role(name, draw.choice((0.0, 0.0, 0.5, 2.0, 8.0)), tuple(_deed(draw) for _ in range(draw.randint(1, 3))))
        for name in ("ann", "bob", "eve")[: draw.choice((1, 2, 2, 3))]
    ]
    return found + _console(draw)


def _two_plans(draw: random.Random) -> list[Role]:
    """Two want to fail over the same mirror at once, and somebody does what status recommends."""
    ann = Role("ann", 0.0, (_failover(draw), *([Deed("go_on")] if draw.random() < 0.5 else [])))
    approved = (
        Deed("approves", _failover(draw).args),
        Deed("rest", (draw.choice((0.5, 2.0, 4.0, 9.0)),)),
        Deed("go_on"),
    )
    theirs = approved if draw.random() < 0.5 else (_failover(draw),)
    bob = Role("bob", draw.choice((0.0, 0.0, 0.05, 0.3, 3.0)), theirs)
    eve = Role(
        "eve", draw.choice((1.0, 6.0, 20.0, 60.0)), (draw.choice((Deed("abort"), Deed("abort"), Deed("go_on"))),)
    )
    return [ann, bob, eve][: draw.choice((2, 3, 3, 3))] + (_console(draw) if draw.random() < 0.3 else [])


def _late(draw: random.Random) -> list[Role]:
    """Somebody is about to do what Kafka does not fence, and does it late: others have gone on meanwhile."""
    ann = Role("ann", 0.0, (draw.choice((_failover(draw), _failover(draw), Deed("sync_groups"), _deed(draw))),))
    lost = [Deed("source_dies"), Deed("rest", (draw.choice((3.0, 20.0)),)), Deed("source_returns")]
    others = (Deed("abort"), Deed("abort"), Deed("lift", (True,)), Deed("recreate"), _failover(draw), _failover(draw))
    after = [
        draw.choice((*others, Deed("go_on"), Deed("go_on"), Deed("go_on"))),
        *(_deed(draw) for _ in range(draw.randint(0, 2))),
    ]
    bob = Role("bob", draw.choice((1.0, 6.0, 14.0, 14.0)), tuple(after))
    console = [Role("console", draw.choice((0.0, 2.0)), tuple(lost))] if draw.random() < 0.3 else []
    return [ann, bob, *console]


def _recreated(draw: random.Random) -> list[Role]:
    """A failover, the mirror deleted and made again under its name, and another one."""
    first = _failover(draw)
    lost = [Deed("source_dies"), Deed("rest", (1.0,))] if draw.random() < 0.5 else []
    again = first if draw.random() < 0.7 else _failover(draw)
    ann = Role("ann", 0.0, (*lost, first, Deed("recreate"), *lost, again))
    if draw.random() < 0.5:
        return [ann]
    bob = Role("bob", draw.choice((0.0, 1.0, 10.0, 40.0)), tuple(_deed(draw) for _ in range(draw.randint(1, 2))))
    return [ann, bob]


def _quiet(draw: random.Random) -> list[Role]:
    """One failover, while somebody with a console is about."""
    ann = [_deed(draw)] if draw.random() < 0.5 else []
    return [Role("ann", draw.choice((0.0, 3.0)), (*ann, _failover(draw))), *_console(draw)]


def _console(draw: random.Random) -> list[Role]:
    if draw.random() < 0.4:
        return []
    topic = draw.choice(_TOPICS)
    hands = (
        (Deed("source_dies"),),
        (Deed("source_dies"), Deed("rest", (draw.choice((2.0, 15.0, 40.0)),)), Deed("source_returns")),
        (Deed("produces", (topic,)),),
        (Deed("lifts_by_hand", (topic,)),),
        (Deed("truncates", (topic,)),),
        (Deed("adds_partitions", (topic,)),),
    )
    return [Role("console", draw.choice((0.0, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0)), draw.choice(hands))]
