"""`tanist metadata sync`: change the destination, then the state. After a crash the next run completes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.metadata import Change, Outcome
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.metadata.compare import comparing
from tanist.usecases.metadata.denying import deny
from tanist.usecases.metadata.synced import SYNCED, Destination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.domain.metadata import Decision, MetadataRow
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.metadata.compare import MetadataRequest

_ON_RECORD: Final = frozenset({Change.ADD, Change.CREATE, Change.GROW, Change.REMEMBER})
"""Changes that take effect only once they are also in the state topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSyncResult:
    """One row for each difference, with its result."""

    spec: MirrorSpec
    rows: tuple[MetadataRow, ...]

    def having(self, *verdicts: Outcome) -> tuple[MetadataRow, ...]:
        """The rows with one of `verdicts`."""
        return tuple(row for row in self.rows if row.verdict in verdicts)


@dataclass(frozen=True, slots=True)
class _Done:
    """A decision that was carried out, except for the changes (change, name) in `errors`."""

    decision: Decision
    errors: dict[tuple[Change, str], TanistError]

    def rows(self) -> Iterator[MetadataRow]:
        for row in self.decision.rows:
            if row.verdict is not Outcome.DIFFERS:
                yield row
            elif error := self.errors.get((row.change, row.name)):
                yield replace(row, verdict=Outcome.FAILED, reason=str(error))
            else:
                yield replace(row, verdict=Outcome.CHANGED)

    def failed(self, row: MetadataRow) -> bool:
        return (row.change, row.name) in self.errors


def sync(
    request: MetadataRequest, destination: Cluster, connect: Callable[[str], Cluster], context: CommandContext
) -> MetadataSyncResult:
    """Make topics, partitions and configs of a mirror match the source. Idempotent; an error of one topic is a row.

    With `dry_run` nothing is changed, and the rows to change stay DIFFERS. Raises as `compare.diff`.
    """
    compare = comparing(request, destination, connect, context)
    compared = compare(None)
    spec, due = compared.spec, compared.due
    context.announce([name for name, decision in due.items() if decision.differs])
    if context.dry_run or not due:
        return MetadataSyncResult(spec=spec, rows=compared.rows)
    purpose = Purpose(operation="metadata sync", preemptible=True)
    with mirror_lock(destination, spec.mirror, purpose, context) as lock:
        now = compare(due)  # a whole failover may have been between the first look and the lock
        at = Destination(cluster=destination, lock=lock, by=context.by)
        done = {name: _act(each, at) for name, each in now.due.items()}
        _record(list(done.values()), lock)
        _deny(done, destination, lock)
    last = {each.topic: each for each in compared.decisions} | {each.topic: each for each in now.decisions}
    rows = [done[name].rows() if name in done else iter(last[name].rows) for name in sorted(last)]
    return MetadataSyncResult(spec=spec, rows=tuple(row for some in rows for row in some))


def _act(decision: Decision, at: Destination) -> _Done:
    """Change the destination. A failover or an outage that began meanwhile is an error of this topic."""
    done = _Done(decision, {})
    try:
        _change(done, at)
    except TanistError as error:
        for row in decision.rows:
            done.errors.setdefault((row.change, row.name), error)
    return done


def _change(done: _Done, at: Destination) -> None:
    for synced in SYNCED:
        change = done.decision.changes.get(synced.kind)
        if synced.apply is not None and change is not None:
            done.errors.update(synced.apply(done.decision.topic, change, at))


# ── the record ────────────────────────────────────────────────────────────────────────────────────────────────────


def _record(done: Sequence[_Done], lock: LockedMirror) -> None:
    """Record the new partitions after they were created: workers copy what is recorded."""
    if not any(_news(each) for each in done):
        return
    try:
        view, now = lock.view(), lock.command.clock.now()
        lock.append([record for each in done if (record := _recorded(each, view, now))])
    except TanistError as error:
        for each in done:
            for row in each.decision.rows:
                if row.change in _ON_RECORD:
                    each.errors.setdefault((row.change, row.name), error)


def _deny(done: Mapping[str, _Done], destination: Cluster, lock: LockedMirror) -> None:
    """After topics were taken in: only of topics on record it is known whom they deny."""
    due = {name: each.decision.denial for name, each in done.items() if each.decision.denial is not None}
    if not due:
        return
    for (change, topic), error in deny(due, destination, lock).items():
        done[topic].errors.setdefault((change, f"{topic}:WRITE"), error)


def _news(done: _Done) -> bool:
    changed = any(row.change in _ON_RECORD and row.verdict is Outcome.CHANGED for row in done.rows())
    return changed or done.decision.unrecorded


def _recorded(done: _Done, view: StateView, now: EpochMs) -> TopicDesired | None:
    """The desired state of the topic with this change; other changes made meanwhile are kept."""
    wanted = done.decision.wanted
    if wanted is None or not _news(done):
        return None
    if done.decision.before is None:
        return replace(wanted, changed_at=now)
    found = view.topic(wanted.mirror, wanted.topic)
    if found is None or view.promoted(wanted.mirror, wanted.topic):
        return None
    failed = {row.kind for row in done.decision.rows if row.change in _ON_RECORD and done.failed(row)}
    fields = (each for kind, each in done.decision.recorded.items() if kind not in failed)
    changed = replace(found, **{name: value for each in fields for name, value in each.items()})
    return replace(changed, changed_at=now) if changed != found else None
