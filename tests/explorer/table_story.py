"""Stories in which a table of rows is run by many people, each of them stopped after another row.

The tables are found in the code; here is only how people come to run each of them. The first stories kill everybody
once, and are the same whatever the seed draws; in the following ones some are frozen instead, until all others are
done, and then go on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from tests.explorer.product import Mode
from tests.explorer.rows import row_point, tables
from tests.explorer.stage import AT_LAST, Effect, Order
from tests.explorer.story import Deed, Role, Story

if TYPE_CHECKING:
    from collections.abc import Iterator

BEHIND: Final = "payments"
"""What a reversal with `--exclude` leaves behind, with a tail that nobody has decided about."""


def again(deed: str, *args: str) -> Deed:
    """For a while, as somebody may hold the lock."""
    return Deed("insists", (deed, *args))


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a table comes to be run. `before`: what ann does first; `first`: how she runs it, if not as the others.

    `does`: what everybody after her does, `undoes`: what puts the rows back. `idle`: rows with nothing left to do.
    """

    before: tuple[Deed, ...] = ()
    does: Deed
    first: Deed | None = None
    undoes: Deed | None = None
    idle: frozenset[str] = frozenset()


def _lost(records: int = 3, *, hidden: bool = False, more: tuple[Deed, ...] = ()) -> tuple[Deed, ...]:
    """East is lost with records that only it has, west takes over, and east returns."""
    return (
        Deed("loses", (records, hidden)), Deed("failover", (Mode.UNPLANNED, ".*")), *more, Deed("rest", (4.0,)),
        Deed("everybody_returns"), Deed("rest", (15.0,)),
    )  # fmt: skip


_DECIDED: Final = (again("rescue"), again("decide", "replay"))
_TAILS: Final = (*_DECIDED, again("replay"))
WAYS: Final = {
    "a failover": (
        Way(
            before=(Deed("loses", (3, False)),),
            first=Deed("failover", (Mode.UNPLANNED, ".*")),
            does=again("go_on"),
        ),
        Way(first=Deed("planned"), does=again("go_on"), undoes=again("abort"), idle=frozenset({"drain"})),
    ),
    "a reversal": (
        Way(before=(*_lost(), *_TAILS), does=again("reverse"), undoes=again("withdraw")),
        Way(
            before=(*_lost(), again("rescue")),
            does=again("reverse", "TAIL_UNDECIDED", BEHIND),
            undoes=again("withdraw"),
        ),
    ),
    "a recreation": (Way(before=(*_lost(hidden=True, more=(Deed("overflows"),)), *_TAILS), does=again("reverse")),),
    "a replay": (Way(before=(*_lost(), *_DECIDED), does=again("replay")),),
    "an abort of transactions": (
        Way(before=(Deed("begins_transaction"), *_lost()), does=again("abort_transactions")),
    ),
    "a deletion of ACLs": (Way(before=(again("outlives_an_acl"),), does=again("delete_acls")),),
}  # fmt: skip
"""By table. One that is missing here is not played, and `test_tables.py` says so."""


@dataclass(frozen=True, slots=True)
class Relay:
    """Of a table. `stops`: what everybody does in turn, and where it stops. `last`: what whoever comes last does."""

    table: str
    before: tuple[Deed, ...]
    stops: tuple[tuple[Deed, str], ...]
    last: Deed


@cache
def relays() -> tuple[Relay, ...]:
    """Of all tables, so that somebody is stopped after each row and each undo."""
    return tuple(
        relay
        for table in tables()
        for way in WAYS.get(table, ())
        for relay in relays_of(table, way, whole=way is WAYS[table][0])
    )


def relays_of(table: str, way: Way, *, whole: bool) -> Iterator[Relay]:
    """All rows but the last; the last by itself, as a command finds nothing to run after the last but one.

    `whole`: with that one.
    """
    ids, first = tables()[table].ids, way.first or way.does
    busy = tuple(each for each in ids if each not in way.idle)
    for rows in (busy[:-1], busy[-1:]) if whole else (busy[:-1],):
        deeds = (first, *(way.does for _ in rows[1:]))
        yield Relay(
            table, way.before, tuple(zip(deeds, (row_point(table, each) for each in rows), strict=True)), way.does
        )
    if way.undoes is not None:
        before_return = ids[ids.index(tables()[table].no_return) - 1]
        undos = [f"undo {row.id}" for row in reversed(tables()[table].rows) if row.undo is not None]
        put_back = ((way.undoes, row_point(table, each)) for each in undos)
        yield Relay(table, way.before, ((first, row_point(table, before_return)), *put_back), way.undoes)


def seed_of(table: str, nth: int = 0) -> int:
    """Of the plain story that plays the nth relay of a table."""
    return 1 + [n for n, each in enumerate(relays()) if each.table == table][nth]


def drawn_rows(seed: int) -> Story:
    """The same story for the same seed, as long as the tables are the same."""
    draw, number = random.Random(seed), (seed - 1) % len(relays())
    relay, plain = relays()[number], seed <= len(relays())
    names = ["ann", *(f"no. {n}" for n in range(2, len(relay.stops) + 1)), "last one"]
    deeds = [deed for deed, _ in relay.stops]
    roles = [Role(names[0], 0.0, (*relay.before, deeds[0]))]
    for after, name, deed in zip(names, names[1:], (*deeds[1:], relay.last), strict=False):
        roles.append(Role(name, 0.1, (Deed("follows", (after,)), deed)))
    freezes = [not plain and draw.random() < 0.3 for _ in relay.stops]
    return Story(
        seed=seed,
        authorizer=plain or draw.random() < 0.8,
        writing=plain or draw.random() < 0.8,
        roles=tuple(roles),
        orders=tuple(
            Order(name, point, 1, Effect.FREEZE if frozen else Effect.KILL, AT_LAST if frozen else 0.0)
            for name, (_, point), frozen in zip(names, relay.stops, freezes, strict=False)
        ),
        circle=True,
    )
