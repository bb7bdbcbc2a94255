"""The way back, deliberately broken: a row is left out, or an undo, or something is released too early.

Each entry says which rule sees it, and in which story.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from tests.explorer.around import TO_THE_END
from tests.explorer.circle import AS_IT_WAS
from tests.explorer.circle_judge import EXACTLY_ONE, FENCE_KNOWN, LISTED, ONCE, ONE_RECORD, ONE_SIDE
from tests.explorer.product import (
    FenceStatus,
    MemoryReplays,
    MirrorPartition,
    TailStage,
    TopicDesired,
    TopicTails,
    deciding,
    moving_state,
    old_source,
    recording,
    reversal,
    reversal_route,
    reverse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Patch = tuple[Any, str, Any]


class Break(NamedTuple):
    """`rule`: what sees it. `seed`: of the story that shows it."""

    rule: str
    patches: Callable[[], list[Patch]]
    seed: int


def _nothing(*_asked: Any, **_named: Any) -> None:
    """A row that is left out."""


def _rows(*, acts: tuple[str, ...] = (), undos: tuple[str, ...] = ()) -> Callable[[], list[Patch]]:
    def patches() -> list[Patch]:
        def without(rows: tuple[Any, ...]) -> tuple[Any, ...]:
            left = [replace(row, act=_nothing) if row.id in acts else row for row in rows]
            return tuple(replace(row, undo=None) if row.id in undos else row for row in left)

        table: Any = vars(reverse)["REVERSAL"]
        broken = replace(table, rows=without(table.rows))
        return [(module, "REVERSAL", broken) for module in (reverse, reversal_route)]

    return patches


def _release_of_everything() -> list[Patch]:
    real: Any = vars(recording)["release"]

    def release(clusters: Any, _topics: Any, locked: Any) -> Any:
        return real(clusters, list(locked.view().retention_held(clusters.spec.mirror)), locked)

    return [(recording, "release", release)]


def _settled(change: Callable[[Any], Any]) -> Callable[[], list[Patch]]:
    """`change`: of each record that goes to the new home; None: it does not."""

    def patches() -> list[Patch]:
        real: Any = moving_state._records

        def records(*asked: Any) -> list[Any]:
            return [new for each in real(*asked) if (new := change(each)) is not None]

        return [(moving_state, "_records", records)]

    return patches


def _unasked() -> list[Patch]:
    """Where copying begins is not compared with what was surveyed."""

    def starts(topics: Any, _before: Any, old: Any, by: Any) -> Any:
        return old.logs.true_ends(
            [MirrorPartition(each.topic, n) for each in topics for n in range(len(each.free_from))], by
        )

    return [(moving_state, "copy_starts", starts)]


def _set_before_it_is_on_record() -> list[Patch]:
    real: Any = old_source.record_fences

    def record(of: Any, fences: Any, status: Any) -> None:
        if status is not FenceStatus.PENDING:
            real(of, fences, status)

    return [(old_source, "record_fences", record)]


def _any_sequence() -> list[Patch]:
    real: Any = MemoryReplays.append

    def append(self: Any, tail: Any, records: Any, producer_id: int, _sequence: int, by: Any) -> None:
        real(self, tail, records, producer_id, len(self._written_by(tail.source, 0, producer_id)), by)

    return [(MemoryReplays, "append", append)]


def _overlaps_return() -> list[Patch]:
    return [(reversal, "problems", lambda *_: []), (reversal, "cannot_continue", lambda _: False), *_unasked()]


def _every_rescued_tail() -> list[Patch]:
    """As it was: a decision had to fit tails, too, that an earlier reversal had left undecided."""

    def tails(view: Any, mirror: Any) -> list[Any]:
        return [each for each in view.tails(mirror) if each.stage is TailStage.RESCUED]

    return [(deciding, "rescued_tails", tails)]


BREAKS: Final = {
    "others are not denied": Break(ONE_SIDE, _rows(acts=("deny", "closed")), 1),
    "a withdrawal does not set the fence again": Break(ONE_SIDE, _rows(undos=("lift",)), 34),
    "a withdrawal leaves the configs": Break(AS_IT_WAS, _rows(undos=("configure",)), 5),
    "a withdrawal leaves the ACLs": Break(AS_IT_WAS, _rows(undos=("deny",)), 17),
    "a fence is set before that is on record": Break(FENCE_KNOWN, _set_before_it_is_on_record, 64),
    "retention is released before tails are decided": Break(LISTED, _release_of_everything, 24),
    "tails stay at the old home": Break(
        LISTED, _settled(lambda each: None if isinstance(each, TopicTails) else each), 5
    ),
    "nobody asks what producers have written meanwhile": Break(LISTED, _unasked, 5),
    "a late batch of a replay is taken": Break(ONCE, _any_sequence, 20),
    "a log beyond the reserve returns": Break(ONE_RECORD, _overlaps_return, 10),
    "who was denied is forgotten": Break(
        EXACTLY_ONE, _settled(lambda each: replace(each, denied=()) if isinstance(each, TopicDesired) else each), 10
    ),
    "tails that were left undecided must fit": Break(TO_THE_END, _every_rescued_tail, 111),
    "the source fence is not lifted": Break(TO_THE_END, _rows(acts=("lift",)), 1),
}


@contextmanager
def broken_row(name: str) -> Iterator[None]:
    """The product with that break."""
    with ExitStack() as stack:
        for owner, attribute, instead in BREAKS[name].patches():
            stack.enter_context(patch.object(owner, attribute, instead))
        yield
