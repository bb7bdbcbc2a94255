"""The checks of `tanist status` about what follows the source: duties of workers, and groups set back there."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict, named, worst
from tanist.domain.duties import Duty, duties_of, interval_seconds, pause_ms
from tanist.domain.filled import exact_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.duties import DutyRun
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView

_MISSED: Final = 3
"""So many intervals without a run that left nothing undone are noticed."""


def periodic_checks(spec: MirrorSpec, view: StateView, now: EpochMs) -> tuple[Check, ...]:
    """Only those that mean something for the mirror: none of one that leaves all of this to a schedule."""
    runs = {each.duty: each for each in view.duty_runs(spec.mirror)}
    duties = _duties(spec, duties_of(spec, left=view.has_been_left(spec.mirror)), runs, now)
    found = (duties, _rewinds(spec, rewound_groups(view, spec.mirror)), _drift(spec, view))
    return tuple(check for check in found if check is not None)


def rewound_groups(view: StateView, mirror: MirrorName) -> tuple[str, ...]:
    """The groups that were set back at the source, and of which a person decides whether they follow."""
    synced = view.groups_synced(mirror)
    return () if synced is None or view.has_been_left(mirror) else synced.rewound


def _duties(spec: MirrorSpec, wanted: Mapping[Duty, int], runs: Mapping[Duty, DutyRun], now: EpochMs) -> Check | None:
    """Whether workers have done what is `wanted`, all of it, within three intervals, or wait for the mirror's lock."""
    if not wanted:
        return None
    verdicts, late = [], []
    for duty, every in wanted.items():
        run = runs.get(duty)
        if run is not None and (_is_done(run, every, now) or _waits(run, every, now)):
            verdicts.append(Verdict.PASS)
            continue
        verdicts.append(Verdict.UNKNOWN if run is None or run.error is None or run.waits else Verdict.FAIL)
        late.append(_why_late(spec, duty, run))
    ages = [now - runs[duty].done_at for duty in wanted if duty in runs and runs[duty].done_at]
    return Check(
        name="duties",
        verdict=worst(verdicts),
        observed="; ".join(f"{duty}: {said(runs.get(duty), now)}" for duty in wanted),
        limit=f"done within {_MISSED} intervals: "
        + ", ".join(f"{duty} {_MISSED * every} s" for duty, every in wanted.items()),
        age_ms=max(0, *ages) if len(ages) == len(wanted) else None,
        reason="; ".join(late),
    )


def _is_done(run: DutyRun, every: int, now: EpochMs) -> bool:
    return bool(run.done_at) and now - run.done_at <= _MISSED * 1000 * every


def _waits(run: DutyRun, every: int, now: EpochMs) -> bool:
    """Whether its worker still tries to get the lock of the mirror, which a failover or a command holds."""
    return run.waits and now - run.at <= _MISSED * pause_ms(every, run)


def _why_late(spec: MirrorSpec, duty: Duty, run: DutyRun | None) -> str:
    command = shlex.join((*duty.command.split(), spec.mirror, "--destination", spec.destination))
    if run is None or run.error is None or run.waits:
        return f"no worker of this version has done it: start one with `tanist fetcher run`, or type `{command}`"
    return f"{run.error}: {run.reason}: `{command}` shows every row"


def said(run: DutyRun | None, now: EpochMs) -> str:
    """What a run has come to, in words."""
    if run is None:
        return "never done"
    age = f"{max(0, now - run.at) // 1000} s ago by {run.worker}"
    if run.error is None:
        return f"{run.summary}, {age}"
    if run.waits:
        return f"waits for the lock of the mirror, {age}: {run.reason}"
    return f"{run.error}, {age}, {run.failures} in a row: {run.reason}"


def _rewinds(spec: MirrorSpec, groups: tuple[str, ...]) -> Check | None:
    """Groups that were set back at the source, and did not follow: a person decides."""
    if not groups:
        return None
    options = exact_options("--group", groups)
    command = shlex.join(("tanist", "groups", "sync", spec.mirror, "--destination", spec.destination, *options))
    return Check(
        name="rewinds",
        verdict=Verdict.FAIL,
        observed=f"{len(groups)} group(s) set back at the source: {named(groups, ', ')}",
        limit="none that has not followed, or stays",
        age_ms=None,
        reason=f"`{command} --backwards` sets them back here, too; `tanist mirrors alter {spec.mirror} --destination "
        f"{spec.destination} --on-rewind hold` leaves all where they are",
    )


def _drift(spec: MirrorSpec, view: StateView) -> Check | None:
    """Configs that somebody has set on mirror topics alone: they are meant, as far as anybody knows."""
    names = [f"{topic.topic}:{name}" for topic in view.mirrored(spec.mirror) for name in topic.drifted_configs]
    if not names:
        return None
    command = shlex.join(("tanist", "metadata", "sync", spec.mirror, "--destination", spec.destination, "--reset"))
    return Check(
        name="drift",
        verdict=Verdict.PASS,
        observed=f"{len(names)} config(s) set at the destination alone: {named(names, ', ')}",
        limit="any, as seen by the last sync of metadata",
        reason=f"`{command}` removes them",
    )


def duty_lines(spec: MirrorSpec, runs: tuple[DutyRun, ...], now: EpochMs) -> Iterator[str]:
    """For people, one line for each duty that the spec leaves to workers."""
    last = {each.duty: each for each in runs}
    for duty in Duty:
        if every := interval_seconds(spec, duty):
            yield f"mirror {spec.mirror}: {duty} every {every} s: {said(last.get(duty), now)}"
