"""The thread that asks for the verdicts of the mirrors that a worker looks after, for its metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import Stopped, TanistError
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
"""A look that takes long is followed by a rest of so many times as long: it takes time from copying."""
LOOK_SECONDS: Final = 60.0


class Verdicts(RoundThread):
    """`start` it, `stop` it; `seen` is replaced whole.

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
        began = self._clock.monotonic()
        self.seen = {mirror: self._look(mirror) for mirror in sorted(self._held())}
        self._rest = max(EVERY_SECONDS, SHARE * (self._clock.monotonic() - began))

    def _close(self) -> None:
        self._registry.close()

    def _look(self, mirror: MirrorName) -> MirrorVerdicts:
        try:
            return self._verdicts(mirror)
        except Stopped:
            raise
        except TanistError as why:
            log.info("no verdict", extra={"mirror": mirror, "error": why.name, "reason": why.reason})
            before = self.seen.get(mirror)
            return MirrorVerdicts(words=dict.fromkeys(Mode, Readiness.UNKNOWN), at=before.at if before else None)

    def _verdicts(self, mirror: MirrorName) -> MirrorVerdicts:
        destination, clock, at = self._registry.connect(self._destination), self._clock, self._clock.now()
        reading = StatusContext(
            destination=destination,
            silence=Silence(clock),
            clusters=lambda spec: self._registry.mirror(spec, destination),
            context=CommandContext(clock=clock, by=clock.deadline(LOOK_SECONDS)),
        )
        (seen,) = status.observe(reading, mirror)
        return MirrorVerdicts(words={mode: seen.status.word(mode) for mode in Mode}, at=at)
