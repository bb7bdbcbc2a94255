"""What happened, in a chain: each event names the hash of the one before, so that none can be changed or taken out."""

from __future__ import annotations

import hashlib
import html
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from string import Template
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.words import canonical
from tanist.domain.names import EpochMs, iso_time

if TYPE_CHECKING:
    from collections.abc import Mapping


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


_PAGE: Final = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title><style>
body{font:15px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
code,pre{font:13px ui-monospace,monospace}pre{white-space:pre-wrap;margin:0}
th{white-space:nowrap}.n{text-align:right}
</style></head><body>
<h1>$title</h1>
<table>$head</table>
<h2>Steps</h2>
<table><tr><th>#</th><th>Time (UTC)</th><th>Step</th><th>What</th>
<th class="n">Work s</th><th class="n">Proof s</th><th>Seen</th></tr>
$rows</table>
<p>Work $work s, waiting for proofs $waited s. Last link of the chain: <code>$tip</code></p>
</body></html>
""")


def as_json(evidence: Evidence) -> str:
    """Canonical: the same evidence is the same bytes."""
    events = [_event(each) for each in evidence.events]
    whole = {"v": SCHEMA_VERSION, "head": json.loads(evidence.head), "events": events, "tip": evidence.tip}
    return canonical(whole) + "\n"


def from_json(text: str) -> Evidence:
    """What `as_json` wrote, so that a continued run adds to it. Raises ValueError, KeyError, TypeError."""
    whole = json.loads(text)
    events = tuple(_read(each) for each in whole["events"])
    found = Evidence(head=canonical(whole["head"]), events=events)
    if found.broken_at() is not None or found.tip != whole["tip"]:
        raise ValueError("the chain of this evidence is broken")
    return found


def as_page(evidence: Evidence) -> str:
    """One self-contained page."""
    head: Mapping[str, Any] = json.loads(evidence.head)
    work, waited = evidence.seconds()
    return _PAGE.substitute(
        title=html.escape(f"{_title(head)} of {head.get('mirror', '')}, plan {head.get('plan_hash', '')}"),
        head=_head(evidence.head),
        rows="\n".join(_row(event) for event in evidence.events),
        work=f"{work:.1f}",
        waited=f"{waited:.1f}",
        tip=evidence.tip,
    )


def _title(head: Mapping[str, Any]) -> str:
    return str(head.get("run", "failover")).capitalize()


def _event(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "at": event.at,
        "step": event.step,
        "what": event.what,
        "seconds": event.seconds,
        "waited": event.waited,
        "detail": json.loads(event.detail),
        "before": event.before,
        "hash": event.hash,
    }


def _read(each: Mapping[str, Any]) -> Event:
    return Event(
        number=each["number"],
        at=EpochMs(each["at"]),
        step=each["step"],
        what=each["what"],
        seconds=each["seconds"],
        waited=each["waited"],
        detail=canonical(each["detail"]),
        before=each["before"],
    )


@lru_cache(maxsize=4)
def _head(head: str) -> str:
    return "\n".join(_pair(name, value) for name, value in json.loads(head).items())


def _pair(name: str, value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
    return f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td><pre>{html.escape(shown)}</pre></td></tr>"


@lru_cache(maxsize=256)
def _row(event: Event) -> str:
    """The page is written again with each event, and what there was before stays as it is."""
    numbers = f'<td class="n">{event.seconds - event.waited:.2f}</td><td class="n">{event.waited:.2f}</td>'
    seen = html.escape(json.dumps(json.loads(event.detail), ensure_ascii=False))
    what = f"<td>{html.escape(event.step)}</td><td>{html.escape(event.what)}</td>"
    return f"<tr><td>{event.number}</td><td>{iso_time(event.at)}</td>{what}{numbers}<td><pre>{seen}</pre></td></tr>"
