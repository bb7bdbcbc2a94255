"""What happened, in a chain: each event names the hash of the one before, so that none can be changed or taken out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.failover.plan import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import EpochMs

START: Final = "0" * 64
SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`detail` is JSON; `seconds`: how long it took, `waited`: the part of it that only waited for a proof."""

    number: int
    at: EpochMs
    step: str
    what: str
    seconds: float
    waited: float
    detail: str
    before: str

    @property
    def hash(self) -> str:
        words = [self.number, self.at, self.step, self.what, self.seconds, self.waited, self.detail, self.before]
        return hashlib.sha256(canonical(words).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One run as it is told later. `head` is JSON: plan, approval, forecast and facts as they were at the start."""

    head: str
    events: tuple[Event, ...] = ()

    @property
    def approval(self) -> str | None:
        """The id of the approval that the run is on; None: the book does not say."""
        said = json.loads(self.head).get("approval", {}).get("id")
        return None if said is None else str(said)

    @property
    def tip(self) -> str:
        return self.events[-1].hash if self.events else hashlib.sha256((START + self.head).encode()).hexdigest()

    def adding(
        self, at: EpochMs, step: str, what: str, detail: Mapping[str, Any], *, seconds: float = 0, waited: float = 0
    ) -> Evidence:
        """This evidence and one event more."""
        event = Event(
            number=len(self.events) + 1,
            at=at,
            step=step,
            what=what,
            seconds=round(seconds, 3),
            waited=round(waited, 3),
            detail=canonical(detail),
            before=self.tip,
        )
        return replace(self, events=(*self.events, event))

    def found(self, step: str) -> Mapping[str, Any]:
        """What `step` has found when it was last done; empty: it was not."""
        details = [event.detail for event in self.events if event.step == step and event.what == "done"]
        return dict(json.loads(details[-1])) if details else {}

    def broken_at(self) -> int | None:
        """The number of the first event that does not fit the one before; None: the chain holds."""
        before = Evidence(head=self.head).tip
        for event in self.events:
            if event.before != before:
                return event.number
            before = event.hash
        return None

    def seconds(self) -> tuple[float, float]:
        """(work, waiting for proofs) of all steps."""
        return sum(e.seconds - e.waited for e in self.events), sum(e.waited for e in self.events)
