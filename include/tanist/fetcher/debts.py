"""What a failover leaves to do: owed fences, and barriers that would expire with the brokers' memory of our ids."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.anchoring import Writers
from tanist.domain.errors import Stopped, TanistError
from tanist.domain.fences import FencedTopic, FenceStatus
from tanist.domain.generations import counted, untold
from tanist.domain.names import TopicPartition
from tanist.domain.records import RunStatus, fences_with
from tanist.domain.slices import slice_of
from tanist.domain.states import Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import Generation, MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.fencing import Fencing
    from tanist.ports.sealing import Sealing
    from tanist.ports.state import StateStore

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 5.0
SEAL_AGAIN_SECONDS: Final = 900.0
"""Far below a quarter of the shortest time for which brokers usually remember a producer id (a day)."""
ANSWER_SECONDS: Final = 1.5
"""The coordination thread waits so long at most; it has heartbeats to send."""


class SourceStates(Protocol):
    """The state topics of sources, by the source's name. May be used from any thread."""

    def read(self, source: str, by: Deadline) -> StateView:
        """As it is now; empty where the source has none."""
        ...

    def tell(self, source: str, promotions: Sequence[Generation], by: Deadline) -> None:
        """Write them there; the topic is made if need be."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """`fencing` opens what fences the topics of a source, by its name; `sealing` is the destination's."""

    fencing: Callable[[str], Fencing]
    sealing: Sealing
    sources: SourceStates


class Debts:
    """Owned by the coordination thread. One worker settles the debts of a mirror: who owns the slice of its name."""

    def __init__(self, guards: Guards, state: StateStore, slices: int, clock: Clock) -> None:
        self._guards = guards
        self._state = state
        self._slices = slices
        self._clock = clock
        self._fencing: dict[MirrorName, Fencing] = {}
        self._told: frozenset[Generation] = frozenset()
        """Promotions that their source knows of, as far as we have looked."""
        self._looked_at = self._sealed_at = float("-inf")

    def settle(self, view: StateView, owned: frozenset[int]) -> None:
        """Try again what is owed, every few seconds. A source that does not answer is no trouble of ours."""
        now = self._clock.monotonic()
        if now - self._looked_at < EVERY_SECONDS:
            return
        self._looked_at = now
        for spec in view.mirrors():
            if slice_of(spec.mirror, TopicPartition("", 0), self._slices) not in owned:
                continue
            if _owed(view, spec):
                self._try(spec)
            elif not _under_way(view, spec):
                self._tell(spec, counted(view, spec.mirror) - self._told)
        self._seal_again(view, owned)

    def close(self) -> None:
        self._guards.sealing.close()
        self._guards.sources.close()
        for fencing in self._fencing.values():
            fencing.close()

    def _seal_again(self, view: StateView, owned: frozenset[int]) -> None:
        """A barrier lasts as long as brokers remember our ids; what stands already gets nothing more."""
        now = self._clock.monotonic()
        if now - self._sealed_at < SEAL_AGAIN_SECONDS:
            return
        self._sealed_at = now
        for spec in view.mirrors():
            writers = Writers(spec.data_id, spec.filler_id, spec.start_id)
            taken = {
                at: writers
                for topic in view.topics(spec.mirror)
                if topic.wish is Wish.REMOVED
                for at in topic.all_partitions()
                if slice_of(spec.mirror, at, self._slices) in owned
            }
            if taken:
                self._seal(spec, taken)

    def _seal(self, spec: MirrorSpec, taken: Mapping[TopicPartition, Writers]) -> None:
        try:
            answers = self._guards.sealing.seal(taken, self._clock.deadline(ANSWER_SECONDS))
            failed = [f"{at}: {why}" for at, why in answers.items() if isinstance(why, TanistError)]
        except Stopped:
            raise
        except TanistError as why:
            failed = [why.reason]
        if failed:
            log.warning("barriers could not be proved", extra={"mirror": spec.mirror, "reason": failed[0]})

    def _tell(self, spec: MirrorSpec, promotions: frozenset[Generation]) -> None:
        """A source that was down learns who took over from it; one that was told at once is only looked at."""
        if not promotions:
            return
        sources = self._guards.sources
        try:
            told = sources.read(spec.source, self._clock.deadline(ANSWER_SECONDS))
            if missing := sorted(untold(told, promotions), key=lambda each: each.key):
                sources.tell(spec.source, missing, self._clock.deadline(ANSWER_SECONDS))
                log.warning("told a source that it was replaced", extra={"mirror": spec.mirror, "topics": len(missing)})
        except Stopped:
            raise
        except TanistError as why:
            log.info("a source is still to be told", extra={"mirror": spec.mirror, "reason": why.reason})
        else:
            self._told |= promotions

    def _try(self, spec: MirrorSpec) -> None:
        try:
            by = self._clock.deadline(ANSWER_SECONDS)
            view = self._state.catch_up(by)
            for owed in _owed(view, spec):
                self._settle(spec, owed, by)
        except Stopped:
            raise
        except TanistError as why:
            log.info("still owing a fence", extra={"mirror": spec.mirror, "reason": why.reason})

    def _settle(self, spec: MirrorSpec, owed: FencedTopic, by: Deadline) -> None:
        if spec.mirror not in self._fencing:
            self._fencing[spec.mirror] = self._guards.fencing(spec.source)
        fencing = self._fencing[spec.mirror]
        done = self._lift(fencing, owed, by) if owed.status is FenceStatus.LIFT_OWED else self._apply(spec, owed, by)
        log.warning("settled a fence", extra={"mirror": spec.mirror, "topic": done.topic, "status": done.status})
        self._store(spec, done, by)

    def _lift(self, fencing: Fencing, owed: FencedTopic, by: Deadline) -> FencedTopic:
        if owed.before is not None:
            _raise(fencing.lift([owed.before], by)[owed.topic])
        return replace(owed, status=FenceStatus.LIFTED, reason="")

    def _apply(self, spec: MirrorSpec, owed: FencedTopic, by: Deadline) -> FencedTopic:
        """What was there before is stored before anything is changed."""
        fencing = self._fencing[spec.mirror]
        if owed.before is None:
            found = fencing.snapshot([owed.topic], by)[owed.topic]
            if isinstance(found, TanistError):
                raise found
            owed = replace(owed, before=found)
            self._store(spec, owed, by)
        if owed.before is not None:
            _raise(fencing.apply([owed.before], by)[owed.topic])
        return replace(owed, status=FenceStatus.STANDING, reason="")

    def _store(self, spec: MirrorSpec, entry: FencedTopic, by: Deadline) -> None:
        if changed := fences_with(
            self._state.catch_up(by).source_fences(spec.mirror), [entry], spec, self._clock.now()
        ):
            self._state.append([changed], by)


def _owed(view: StateView, spec: MirrorSpec) -> tuple[FencedTopic, ...]:
    """Nothing while a run is under way: it fences and lifts by itself, until its end."""
    if _under_way(view, spec):
        return ()
    owing = {FenceStatus.OWED, FenceStatus.LIFT_OWED}
    return tuple(each for each in view.source_fences(spec.mirror) if each.status in owing)


def _under_way(view: StateView, spec: MirrorSpec) -> bool:
    return any(run.status is RunStatus.RUNNING for run in view.failovers(spec.mirror))


def _raise(error: TanistError | None) -> None:
    if error is not None:
        raise error
