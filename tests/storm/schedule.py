"""What goes wrong, and when: endless sequences of faults, each a pure function of the seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(StrEnum):
    KILL_WORKER, FREEZE_WORKER = "kill -9 of a worker", "freeze of a worker"
    KILL_SOURCE, KILL_DESTINATION = "kill -9 of a source broker", "kill -9 of a destination broker"
    MOVE_SOURCE, MOVE_DESTINATION = "move of source leaders", "move of destination leaders"
    FILL_SOURCE, FILL_DESTINATION = "full disk of a source broker", "full disk of a destination broker"
    CUT_SOURCE, CUT_DESTINATION = "connections to the source cut", "connections to the destination cut"
    DELAY_SOURCE, DELAY_DESTINATION = "delay to the source", "delay to the destination"
    SILENCE_SOURCE, SILENCE_DESTINATION = "silence of the source", "silence of the destination"
    KILL_COORDINATOR = "kill -9 of a coordinator"
    LOSE_REQUEST, LOSE_ANSWER = "request of a transaction lost", "answer in a transaction lost"
    DELAY_REQUEST = "request of a transaction late"


AT_SOURCE = frozenset(kind for kind in Kind if kind.name.endswith("_SOURCE"))


@dataclass(frozen=True, slots=True)
class Fault:
    """`pause`: seconds of peace before it; `lasts`: seconds until it is undone; `victim`: whom, modulo how many."""

    kind: Kind
    pause: float
    lasts: float
    victim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Faults that come one after the other; different tracks run beside each other. Never two brokers of a side."""

    name: str
    kinds: tuple[tuple[Kind, int], ...]
    """With weights."""
    pause: tuple[float, float]
    lasts: tuple[float, float]

    def faults(self, seed: int) -> Iterator[Fault]:
        """Endless, and the same for the same seed."""
        dice = Random(f"{seed}/{self.name}")
        kinds, weights = zip(*self.kinds, strict=True)
        while True:
            [kind] = dice.choices(kinds, weights)
            yield Fault(kind, dice.uniform(*self.pause), _skewed(dice, *self.lasts), dice.randrange(1000))


def _skewed(dice: Random, least: float, most: float) -> float:
    """Mostly short, now and then very long: some freezes outlive the session timeout."""
    return float(least * (most / least) ** dice.random())


TRACKS = (
    Track(
        name="workers",
        kinds=((Kind.KILL_WORKER, 2), (Kind.FREEZE_WORKER, 3)),
        pause=(0.5, 3.0),
        lasts=(0.5, 12.0),
    ),
    Track(
        name="more workers",
        kinds=((Kind.KILL_WORKER, 1), (Kind.FREEZE_WORKER, 4)),
        pause=(1.0, 6.0),
        lasts=(0.5, 12.0),
    ),
    Track(
        name="source",
        kinds=((Kind.KILL_SOURCE, 2), (Kind.MOVE_SOURCE, 3), (Kind.FILL_SOURCE, 1)),
        pause=(4.0, 10.0),
        lasts=(0.5, 4.0),
    ),
    Track(
        name="destination",
        kinds=((Kind.KILL_DESTINATION, 4), (Kind.MOVE_DESTINATION, 6), (Kind.FILL_DESTINATION, 1)),
        pause=(2.0, 7.0),
        lasts=(0.5, 4.0),
    ),
    Track(
        name="network to the source",
        kinds=((Kind.CUT_SOURCE, 3), (Kind.DELAY_SOURCE, 2), (Kind.SILENCE_SOURCE, 1)),
        pause=(0.3, 2.5),
        lasts=(0.2, 4.0),
    ),
    Track(
        name="network to the destination",
        kinds=((Kind.CUT_DESTINATION, 3), (Kind.DELAY_DESTINATION, 2), (Kind.SILENCE_DESTINATION, 1)),
        pause=(0.3, 2.5),
        lasts=(0.2, 4.0),
    ),
)

TRANSACTION_FAULTS = frozenset({Kind.KILL_COORDINATOR, Kind.LOSE_REQUEST, Kind.LOSE_ANSWER, Kind.DELAY_REQUEST})
"""What only mirrors with mapped offsets meet."""

MAPPED_TRACKS = (
    *(track for track in TRACKS if track.name != "destination"),
    Track(
        name="destination",
        kinds=(
            (Kind.KILL_COORDINATOR, 4),
            (Kind.KILL_DESTINATION, 2),
            (Kind.MOVE_DESTINATION, 6),
            (Kind.FILL_DESTINATION, 1),
        ),
        pause=(2.0, 7.0),
        lasts=(0.5, 4.0),
    ),
    *(
        Track(
            name=name,
            kinds=((Kind.LOSE_REQUEST, 2), (Kind.LOSE_ANSWER, 2), (Kind.DELAY_REQUEST, 1)),
            pause=(0.1, 1.0),
            lasts=(1.0, 12.0),
        )
        for name in ("transactions", "more transactions")
    ),
)
"""Of a storm over mapped offsets: the same, and each request of a transaction lost, late or unanswered."""

CIRCLE_TRACKS = (
    Track(
        name="workers",
        kinds=((Kind.KILL_WORKER, 2), (Kind.FREEZE_WORKER, 3)),
        pause=(2.0, 8.0),
        lasts=(0.5, 12.0),
    ),
    Track(
        name="source",
        kinds=((Kind.KILL_SOURCE, 2), (Kind.MOVE_SOURCE, 3)),
        pause=(8.0, 25.0),
        lasts=(0.5, 4.0),
    ),
    Track(
        name="destination",
        kinds=((Kind.KILL_DESTINATION, 2), (Kind.MOVE_DESTINATION, 3)),
        pause=(8.0, 25.0),
        lasts=(0.5, 4.0),
    ),
    Track(
        name="network to the source",
        kinds=((Kind.CUT_SOURCE, 3), (Kind.DELAY_SOURCE, 2), (Kind.SILENCE_SOURCE, 1)),
        pause=(4.0, 14.0),
        lasts=(0.2, 3.0),
    ),
    Track(
        name="network to the destination",
        kinds=((Kind.CUT_DESTINATION, 3), (Kind.DELAY_DESTINATION, 2), (Kind.SILENCE_DESTINATION, 1)),
        pause=(4.0, 14.0),
        lasts=(0.2, 3.0),
    ),
)
"""Of a storm in which both clusters are source and destination in turn; between two faults a command can end."""
