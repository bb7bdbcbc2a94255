"""Stories of failovers of a mirror with mapped offsets, run by many people who are each stopped after another row."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.explorer.product import Mode
from tests.explorer.rows import row_point, tables
from tests.explorer.stage import AT_LAST, Effect, Order
from tests.explorer.story import Deed, Role, Story
from tests.explorer.table_story import Relay, Way, again, relays_of

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILOVER: Final = "a failover"
WAYS: Final = (
    Way(
        before=(Deed("rest", (3.0,)), Deed("source_dies")),
        first=Deed("failover", (Mode.UNPLANNED, ".*")),
        does=again("go_on"),
    ),
    Way(
        first=Deed("failover", (Mode.PLANNED, ".*")),
        does=again("go_on"),
        undoes=again("abort"),
        idle=frozenset({"drain"}),
    ),
)
WORKER_POINTS: Final = {"worker.begin": 3, "worker.state": 3, "worker.append": 12, "worker.commit": 12}
"""Where it falls asleep, and at the latest the how manyth time: it takes over again only if it is fenced."""


def mapped_relays() -> tuple[Relay, ...]:
    """So that somebody is stopped after each row, and after each undo."""
    return tuple(relay for way in WAYS for relay in relays_of(FAILOVER, way, whole=way is WAYS[0]))


def drawn_mapped(seed: int) -> Story:
    """The first stories kill everybody once; in the following ones some are frozen, and so is the worker."""
    draw, relays = random.Random(seed), mapped_relays()
    relay, plain = relays[(seed - 1) % len(relays)], seed <= len(relays)
    names = ["ann", *(f"no. {n}" for n in range(2, len(relay.stops) + 1)), "last one"]
    deeds = [deed for deed, _ in relay.stops]
    roles = [Role(names[0], 0.0, (*relay.before, deeds[0]))]
    for after, name, deed in zip(names, names[1:], (*deeds[1:], relay.last), strict=False):
        roles.append(Role(name, 0.1, (Deed("follows", (after,)), deed)))
    freezes = [not plain and draw.random() < 0.3 for _ in relay.stops]
    stopped = (
        Order(name, point, 1, Effect.FREEZE if frozen else Effect.KILL, AT_LAST if frozen else 0.0)
        for name, (_, point), frozen in zip(names, relay.stops, freezes, strict=False)
    )
    return Story(
        seed=seed,
        authorizer=plain or draw.random() < 0.8,
        writing=plain or draw.random() < 0.8,
        roles=tuple(roles),
        orders=(*stopped, *(() if plain else _of_worker(draw))),
        mapped=True,
    )


def _of_worker(draw: random.Random) -> Iterator[Order]:
    """It sleeps in its transactions while a failover goes on."""
    for _ in range(draw.randrange(1, 4)):
        point, seconds = draw.choice(sorted(WORKER_POINTS)), draw.choice([2.0, 10.0, 40.0, 90.0])
        yield Order("worker", point, draw.randint(1, WORKER_POINTS[point]), Effect.FREEZE, seconds)


def points() -> frozenset[str]:
    """Where somebody is to be stopped: rows that have something to do, and undos."""
    table = tables()[FAILOVER]
    undos = (f"undo {row.id}" for row in table.rows if row.undo is not None)
    return frozenset(row_point(FAILOVER, each) for each in (*table.ids, *undos))
