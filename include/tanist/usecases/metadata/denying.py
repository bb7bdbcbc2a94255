"""Other writers of mirror topics in a metadata sync: who got an ACL since the last one is denied WRITE by name, too.

All ACLs of the destination are read at once, and only topics that change are written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.detached import detached_here
from tanist.domain.errors import TanistError
from tanist.domain.metadata import Change, Kind, MetadataRow, Outcome
from tanist.domain.states import DesiredState
from tanist.domain.write_access import denial_rows
from tanist.usecases import rights
from tanist.usecases.mirrors import writers
from tanist.usecases.mirrors.detach import copies_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tanist.domain.acl_entries import Denial
    from tanist.domain.metadata import Decision
    from tanist.domain.names import MirrorName
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.snapshot import DestinationSnapshot

_RIGHT = "ALTER on Cluster kafka-cluster"


def denied_writers(
    decisions: Sequence[Decision], view: StateView, mirror: MirrorName, destination: DestinationSnapshot, by: Deadline
) -> list[Decision]:
    """`decisions` with whom to deny WRITE, of topics that the mirror has, paused or not, and of those it takes in.

    Detached ones stay closed as well; where their copy was deleted, another topic of that name is left alone.
    """
    topics = {name: topic for each in decisions if (topic := _mirrored(each, view, mirror)) for name in (each.topic,)}
    try:
        gone = _copies_gone(topics, view, mirror, destination.cluster, by)
        topics = {name: each for name, each in topics.items() if name not in gone}
        found = writers.denials(tuple(topics.values()), view, destination, by)
    except TanistError as error:
        return [_unknown(each, error) if each.topic in topics else each for each in decisions]
    return [_with(each, found[each.topic]) if each.topic in found else each for each in decisions]


def _mirrored(decision: Decision, view: StateView, mirror: MirrorName) -> TopicDesired | None:
    topic = _on_record(view, mirror, decision.topic)
    if topic is None or topic.desired is DesiredState.REMOVED:
        return decision.wanted
    return None if view.promoted(mirror, decision.topic) else topic


def _on_record(view: StateView, mirror: MirrorName, name: str) -> TopicDesired | None:
    """The topic, or what is kept of it while it is detached and its copy is here."""
    spec = view.mirror(mirror)
    apart = detached_here(view, spec).get(name) if spec is not None else None
    return view.topic(mirror, name) if apart is None else apart.kept


def _copies_gone(
    names: Collection[str], view: StateView, mirror: MirrorName, destination: Cluster, by: Deadline
) -> frozenset[str]:
    """Those of `names` that are detached, and of which the destination has no copy any more."""
    spec = view.mirror(mirror)
    apart = {} if spec is None else {n: e for n, e in detached_here(view, spec).items() if n in names}
    return frozenset(apart) - {*copies_at(destination, apart.values(), by)}


def _with(decision: Decision, denial: Denial) -> Decision:
    wanted = decision.wanted
    if wanted is not None and decision.before is None:  # a new topic is stored with them
        wanted = replace(wanted, denied=denial.before(wanted.denied))
    rows = (*decision.rows, *denial_rows(decision.topic, denial))
    return replace(decision, rows=rows, denial=denial, wanted=wanted)


def _unknown(decision: Decision, error: TanistError) -> Decision:
    row = MetadataRow(
        topic=decision.topic,
        kind=Kind.ACL,
        name=f"{decision.topic}:WRITE",
        change=Change.DENY,
        verdict=Outcome.UNKNOWN,
        reason=str(error),
    )
    return replace(decision, rows=(*decision.rows, row))


# ── carrying it out ───────────────────────────────────────────────────────────────────────────────────────────────


def deny(
    decided: Mapping[str, Denial], destination: Cluster, lock: LockedMirror
) -> Mapping[tuple[Change, str], TanistError]:
    """Store whom each topic denies, then create and delete the ACLs. Returns the errors by change and topic.

    A topic that is not in the mirror, because it could not be taken in, is left alone.
    """
    mirror, view = lock.spec.mirror, lock.view()
    topics = {name: topic for name in decided if (topic := _on_record(view, mirror, name)) is not None}
    try:
        _store({name: decided[name].before(topic.denied) for name, topic in topics.items()}, topics, lock)
        answers = dict(_denied({name: decided[name].deny for name in topics}, destination, lock))
        allowed = {name: decided[name].allow for name in topics if decided[name].allow}
        again = destination.opening.undeny(allowed, lock.confirm_action()) if allowed else {}
        done = {name: topics[name] for name in allowed if again[name] is None}
        _store({name: decided[name].after(topic.denied) for name, topic in done.items()}, done, lock)
    except TanistError as error:
        return {(change, name): error for name in topics for change in (Change.DENY, Change.ALLOW)}
    answers |= {(Change.ALLOW, name): why for name, why in again.items()}
    return {what: rights.named(why, destination, _RIGHT) for what, why in answers.items() if why is not None}


def _denied(
    wanted: Mapping[str, Sequence[str]], destination: Cluster, lock: LockedMirror
) -> Iterator[tuple[tuple[Change, str], TanistError | None]]:
    if due := {name: who for name, who in wanted.items() if who}:
        for name, why in destination.opening.deny(due, lock.confirm_action()).items():
            yield (Change.DENY, name), why


def _store(denied: Mapping[str, tuple[str, ...]], topics: Mapping[str, TopicDesired], lock: LockedMirror) -> None:
    now, apart = lock.command.clock.now(), detached_here(lock.view(), lock.spec)
    changed = [
        replace(topics[name], denied=who, changed_at=now) for name, who in denied.items() if topics[name].denied != who
    ]
    if changed:
        lock.append([replace(apart[e.topic], kept=e) if e.topic in apart else e for e in changed])
