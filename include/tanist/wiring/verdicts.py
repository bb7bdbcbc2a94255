"""The thread that asks for the verdicts of the mirrors that a worker looks after, for its metrics."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import Stopped, TanistError
from tanist.domain.lag import KnownLag
from tanist.fetcher.metrics import MirrorVerdicts
from tanist.fetcher.rounds import RoundThread
from tanist.usecases.command import CommandContext, Silence
from tanist.usecases.status import observe as status
from tanist.usecases.status.observe import StatusContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Clock
    from tanist.wiring.registry import ClusterRegistry

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 30.0
SHARE: Final = 20
"""The rest after a look is so many times the processor's time for it, which it takes from copying; waits take none."""
MOST_SECONDS: Final = 180.0
"""The longest rest: a verdict that is five minutes old pages somebody."""
LOOK_SECONDS: Final = 60.0


class Verdicts(RoundThread):
    """`start` it, `stop` it; `seen` is replaced whole, as soon as the verdicts of one more mirror are known.

    Where a look fails, the verdicts are UNKNOWN, and as old as those before.
    """

    def __init__(
        self, registry: ClusterRegistry, destination: str, held: Callable[[], frozenset[MirrorName]], clock: Clock
    ) -> None:
        """`held`: the mirrors that this worker looks after now."""
        super().__init__("verdicts")
        self.seen: Mapping[MirrorName, MirrorVerdicts] = {}
        self._registry, self._destination, self._held, self._clock = registry.again(), destination, held, clock
        self._rest = 1.0

    def _round(self) -> None:
        if self._stopping.wait(self._rest):
            return
        began, held = self._clock.worked(), self._held()
        silence = Silence(self._clock, math.inf)  # a source that does not answer delays the first of its mirrors only
        self.seen = {mirror: found for mirror, found in self.seen.items() if mirror in held}
        for mirror in sorted(held):
            self.seen = {**self.seen, mirror: self._look(mirror, silence)}
        self._rest = min(MOST_SECONDS, max(EVERY_SECONDS, SHARE * (self._clock.worked() - began)))

    def _close(self) -> None:
        self._registry.close()

    def _look(self, mirror: MirrorName, silence: Silence) -> MirrorVerdicts:
        try:
            return self._verdicts(mirror, silence)
        except Stopped:
            raise
        except TanistError as why:
            log.info("no verdict", extra={"mirror": mirror, "error": why.name, "reason": why.reason})
            before = self.seen.get(mirror)
            unknown = dict.fromkeys(Mode, Readiness.UNKNOWN)
            return replace(before, words=unknown) if before else MirrorVerdicts(words=unknown, at=None)

    def _verdicts(self, mirror: MirrorName, silence: Silence) -> MirrorVerdicts:
        destination, clock, at = self._registry.connect(self._destination), self._clock, self._clock.now()
        reading = StatusContext(
            destination=destination,
            silence=silence,
            clusters=lambda spec: self._registry.mirror(spec, destination),
            context=CommandContext(clock=clock, by=clock.deadline(LOOK_SECONDS)),
        )
        (seen,) = status.observe(reading, mirror)
        lags = {row.partition: KnownLag(row.lag, row.source) for row in seen.rows}
        return MirrorVerdicts(words={mode: seen.status.word(mode) for mode in Mode}, at=at, lags=lags)
