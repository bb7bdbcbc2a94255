"""What operators do, and what befalls their commands: drawn from dice, so that a seed names a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.storm import proxy as api

if TYPE_CHECKING:
    from random import Random


class Verb(StrEnum):
    """One thing that an operator sets out to do."""

    RUN, AGAIN, ABORT = "plan, approve, run", "run again", "abort"
    PAUSE, RESUME, ADD, ALTER = "pause", "resume", "add", "alter"
    METADATA, GROUPS, LIFT, STATUS = "metadata sync", "groups sync", "fence lift", "status"
    DELETE = "delete"


class Way(StrEnum):
    KILL, STOP = "kill -9", "SIGSTOP"
    LATE_REQUEST = "request kept back"
    FROZEN = "request kept back, SIGSTOP"
    ORPHANED = "request kept back, kill -9"


HELD: Final = frozenset({Way.LATE_REQUEST, Way.FROZEN, Way.ORPHANED})
EAST, WEST = "east", "west"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mishap:
    """`after`: seconds until it, for what is not a request. `lasts`: seconds until it is over.

    `sleeps`: not before everybody else has ended and everything was compared. `request`: of which side and API key, and
    how many others of that key pass before.
    """

    way: Way
    after: float = 0.0
    lasts: float = 0.0
    sleeps: bool = False
    request: tuple[str, int, int] = ("", -1, 0)

    def __str__(self) -> str:
        side, key, skip = self.request
        which = f" ({api.NAMES[key]} {skip + 1} at {side})" if self.way in HELD else f" after {self.after:.1f} s"
        until = "" if self.way is Way.KILL else ", wakes late" if self.sleeps else f" for {self.lasts:.1f} s"
        return f"{self.way}{which}{until}"


VERBS: Final = {
    Verb.RUN: 3,
    Verb.AGAIN: 9,
    Verb.ABORT: 4,
    Verb.PAUSE: 1,
    Verb.RESUME: 1,
    Verb.ADD: 1,
    Verb.ALTER: 1,
    Verb.METADATA: 2,
    Verb.GROUPS: 3,
    Verb.LIFT: 1,
    Verb.STATUS: 1,
    Verb.DELETE: 1,
}
_STATE: Final = ((WEST, api.INIT_PRODUCER_ID, 1), (WEST, api.PRODUCE, 2), (WEST, api.END_TXN, 2))
"""What every change of a mirror's state asks for; the numbers: at most so many of them pass before."""
_RUN: Final = (
    *((WEST, key, 6) for key in (api.PRODUCE, api.END_TXN)),
    (WEST, api.INIT_PRODUCER_ID, 0),
    (WEST, api.INIT_PRODUCER_ID, 2),
    (WEST, api.WRITE_TXN_MARKERS, 3),
    (WEST, api.ADD_OFFSETS_TO_TXN, 0),
    (WEST, api.TXN_OFFSET_COMMIT, 0),
    (WEST, api.OFFSET_COMMIT, 0),
    (WEST, api.INCREMENTAL_ALTER_CONFIGS, 1),
    (WEST, api.CREATE_ACLS, 1),
    (WEST, api.DELETE_ACLS, 0),
    *((EAST, key, 0) for key in (api.CREATE_ACLS, api.INCREMENTAL_ALTER_CONFIGS) * 2),
)
_GROUPS: Final = tuple(
    (WEST, key, 0) for key in (api.OFFSET_COMMIT, api.ADD_OFFSETS_TO_TXN, api.TXN_OFFSET_COMMIT, api.END_TXN)
)
LIFTING: Final = ((EAST, api.DELETE_ACLS, 0), (EAST, api.INCREMENTAL_ALTER_CONFIGS, 0))
"""By which a source fence is lifted."""
REQUESTS: Final = {
    Verb.RUN: _RUN,
    Verb.AGAIN: _RUN,
    Verb.ABORT: (*_STATE, *LIFTING),
    Verb.LIFT: (*_STATE, *LIFTING),
    Verb.GROUPS: (*_GROUPS, (WEST, api.INIT_PRODUCER_ID, 0)),
    Verb.METADATA: (*_STATE, (WEST, api.INCREMENTAL_ALTER_CONFIGS, 0)),
}
BEFORE_DELETION: Final = (
    *(Verb.AGAIN, Verb.ABORT, Verb.PAUSE, Verb.RESUME, Verb.ADD, Verb.ALTER, Verb.METADATA, Verb.GROUPS, Verb.LIFT),
)
"""What is at work on a mirror and sleeps until another one has its name."""
_FIRST: Final = (
    (WEST, api.INIT_PRODUCER_ID, 0),
    (WEST, api.WRITE_TXN_MARKERS, 1),
    (WEST, api.END_TXN, 6),
    (WEST, api.PRODUCE, 6),
    (WEST, api.TXN_OFFSET_COMMIT, 0),
    (WEST, api.OFFSET_COMMIT, 0),
    *((EAST, key, 0) for key in (api.CREATE_ACLS, api.INCREMENTAL_ALTER_CONFIGS)),
    *((EAST, key, 0) for key in (api.CREATE_ACLS, api.INCREMENTAL_ALTER_CONFIGS)),
)
"""Of the run that is certain to be frozen: between any two of its steps, and around its source fence."""
_ACLS: Final = frozenset({api.CREATE_ACLS, api.DELETE_ACLS})
_LIKELY: Final = 0.65
_SLEEPS: Final = 0.25
LEAST_SECONDS, ACTED_SECONDS, MOST_SECONDS = 0.4, 4.0, 25.0
"""Some outlive the ten seconds for which a heartbeat is fresh."""


def verb(dice: Random) -> Verb:
    return dice.choices(list(VERBS), list(VERBS.values()))[0]


def mishap(dice: Random, of: Verb, *, authorizer: bool, certain: bool = False, sleeps: bool = False) -> Mishap | None:
    """What befalls a command of `of`; None: nothing does. `authorizer`: whether clusters have one.

    `certain`: a request of it is kept back, if it comes that far; where it also `sleeps`, then surely until all was
    compared, and it does not say meanwhile that it lives.
    """
    if not certain and dice.random() > _LIKELY:
        return None
    weights = (0, 0, 0, 5, 3) if certain and sleeps else (0, 0, 3, 5, 3) if certain else (2, 2, 3, 5, 3)
    way = dice.choices(list(Way), weights)[0]
    wanted = _FIRST if certain and of in {Verb.RUN, Verb.AGAIN} else REQUESTS.get(of, _STATE)
    side, key, most = dice.choice([each for each in wanted if _was_asked(each, authorizer=authorizer)])
    least = ACTED_SECONDS if certain else LEAST_SECONDS
    return Mishap(
        way=way,
        after=dice.uniform(0.2, 5.0),
        lasts=least * (MOST_SECONDS / least) ** dice.random(),
        sleeps=sleeps or (way is not Way.KILL and dice.random() < _SLEEPS),
        request=(side, key, min(dice.randint(0, most), dice.randint(0, most))),
    )


def _was_asked(request: tuple[str, int, int], *, authorizer: bool) -> bool:
    """A source is fenced by rules where it has an authorizer, else by its topics' configurations."""
    side, key, _most = request
    if key in _ACLS:
        return authorizer
    return side == WEST or not authorizer
