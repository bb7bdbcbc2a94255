"""`tanist failback replay`: carries out an approved decision. Rescued records are appended to their topics, each once.

Before each batch its range is stored, and the batch names how many records the same producer id has written before it.
So a command that was killed learns from the log whether its last batch is there, and a late batch of it is refused.
A record is classified directly before it is appended, because the new primary goes on writing; whether it has expired
is judged by the time of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.broker_errors import OutOfOrderSequence, TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.failback.decision import (
    DecisionPlan,
    TailAction,
    TailClass,
)
from tanist.domain.names import EpochMs
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.tails import ReplayProgress, TailDecision, TailStage, quarantine_topic
from tanist.usecases.failback.deciding import ReplayDenied, permitted
from tanist.usecases.failback.recording import release
from tanist.usecases.failback.rescued import KeyWatch, records_from, replay_of, rules_of, watch_keys
from tanist.usecases.lock import LockedMirror, changing
from tanist.usecases.runs.runner import UNREPORTED, RowRunner, RunRow, RunTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, TopicTails
    from tanist.ports.tails import RescuedRecord
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import Rehearsal
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.usecases.runs.runner import Reporting

REPLAY_COLUMNS = ("topic", "partition", "records", "replayed", "dropped", "restated", "done")
_MOST_RECORDS: Final = 1_000
BATCH_BYTES = 500_000
"""Of keys, values and headers, before they are compressed; less where the topic takes less."""
_SHARE: Final = 0.8
_PAUSE: Final = 0.2


class ReplayUnknown(CouldNotTell):
    name, retriable = "REPLAY_UNKNOWN", False
    operator_action = (
        "the topic no longer has the replayed records (retention, or it was deleted or re-created): compare it with "
        "quarantine, and copy what is missing by hand; `tanist mirrors reverse NAME --accept TAIL_UNDECIDED --reason "
        "TEXT` accepts that this decision stays unfinished"
    )


def _nothing(*_said: object) -> None:
    """The default of hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTools:
    """`manifest`: is given the counts at the end. `report` hears of progress; `checkpoint`: tests stop it there.

    `waiting` hears why a partition cannot go on for the moment, such as a broker that is away; each reason once. `to`:
    where the rows are reported.
    """

    manifest: Callable[[Mapping[str, Any]], None]
    to: Reporting = UNREPORTED
    report: Callable[[MirrorPartition, ReplayProgress], None] = field(default=_nothing)
    waiting: Callable[[MirrorPartition, TanistError], None] = field(default=_nothing)
    checkpoint: Callable[[str], None] = field(default=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """`progress`: of every partition of the plan. `not_released`: topics whose retention is still held, and why."""

    decision: TailDecision
    plan: DecisionPlan
    progress: tuple[ReplayProgress, ...]
    not_released: Mapping[str, TanistError]


def replay(
    plan: str, clusters: ReturnedMirror, tools: ReplayTools, command: CommandContext, request: str | None = None
) -> ReplayOutcome:
    """Carry out an approved plan to its end, or go on with one that was cut short. `request`: as in `permit`.

    Raises:
        NotApproved, ApprovalUsed, NotPermitted, NoApproverTopic, DecisionUnfinished: nothing was changed.
        ReplayUnknown. CouldNotTell, BrokerError: partial, run it again.
    """
    seen = clusters.destination.state(STATE_TOPIC, command.by)
    held = seen.decision(clusters.spec.mirror, plan)
    if held is not None and held.status is RunStatus.DONE:
        return _released(held, seen, clusters, command)

    def check(view: StateView) -> object:
        return permitted(plan, view, clusters, command, request)

    with changing(
        clusters.destination, clusters.spec.mirror, f"failback replay {plan}", command, check, patient=True
    ) as locked:
        view = locked.view()
        decision = permitted(plan, view, clusters, command, request)
        if not isinstance(locked, LockedMirror):
            return _outcome(decision, view, {})
        return _Replay(clusters, tools, locked, decision, DecisionPlan.read(decision.plan_json), view).run()


def _released(done: TailDecision, seen: StateView, clusters: ReturnedMirror, command: CommandContext) -> ReplayOutcome:
    """Of a plan that is carried out: put back the retention that a replay killed at its end has left held."""
    decided = {each.topic for each in seen.tails(done.mirror) if each.stage is TailStage.DONE}
    held = decided & seen.retention_held(done.mirror).keys() & set(DecisionPlan.read(done.plan_json).topics)
    if not held:
        return _outcome(done, seen, {})
    with changing(clusters.destination, done.mirror, f"failback replay {done.plan}", command, patient=True) as locked:
        return _outcome(done, seen, _put_back(clusters, sorted(held), locked))


def _put_back(
    clusters: ReturnedMirror, topics: Sequence[str], locked: LockedMirror | Rehearsal
) -> Mapping[str, TanistError]:
    """What could not be put back; the old source may be silent by now."""
    try:
        return release(clusters, topics, locked)
    except TanistError as silent:
        return dict.fromkeys(topics, silent)


@dataclass(slots=True)
class _Replay:
    clusters: ReturnedMirror
    tools: ReplayTools
    locked: LockedMirror
    decision: TailDecision
    plan: DecisionPlan
    view: StateView
    tails: list[TopicTails] = field(init=False)
    not_released: Mapping[str, TanistError] = field(init=False)

    def __post_init__(self) -> None:
        epochs = {(each.topic, each.promotion_epoch) for each in self.plan.tails}
        tails = self.view.tails(self.clusters.spec.mirror)
        self.tails = [each for each in tails if (each.topic, each.promotion_epoch) in epochs]

    def run(self) -> ReplayOutcome:
        RowRunner.of(self.decision, self.tools.to, self.locked.command.clock).do(REPLAY, self)
        outcome = _outcome(self.decision, self.view, self.not_released)
        self.tools.manifest({"schema_version": 1, **replay_item(outcome)})
        return outcome

    def decide(self) -> None:
        if any(each.stage is not TailStage.DECIDED for each in self.tails):
            self.tails = [replace(each, stage=TailStage.DECIDED, decision=self.decision.plan) for each in self.tails]
            self.locked.append([self.decision, *self.tails])
        self.tools.checkpoint("decided")

    def append(self) -> None:
        for of in self.tails:
            for tail in of.with_records():
                self._partition(of, tail)

    def finish(self) -> None:
        now = self.locked.command.clock.now()
        self.decision = replace(self.decision, status=RunStatus.DONE, at=now)
        tails = (replace(each, stage=TailStage.DONE, at=now) for each in self.tails)
        self.view = self.locked.append([self.decision, *tails])
        self.tools.checkpoint("done")

    def release(self) -> None:
        self.not_released = _put_back(self.clusters, self.plan.topics, self.locked)

    def _partition(self, tails: TopicTails, tail: PartitionTail) -> None:
        clock, by, said = self.locked.command.clock, self.locked.command.by, ""
        while True:
            try:
                _Partition(self, tails, tail).run()
            except TanistError as why:
                passing = why.retriable or isinstance(why, OutOfOrderSequence)
                if not passing or by.left(clock.monotonic()) <= _PAUSE:
                    raise
                if said != (said := str(why)):
                    self.tools.waiting(tails.partition_of(tail), why)
                clock.wait(_PAUSE)
            else:
                return


REPLAY: Final[RunTable[_Replay, _Replay, None]] = RunTable(
    "a replay",
    (
        RunRow("decide", "the tails are marked as decided", _Replay.decide),
        RunRow("append", "what was chosen is appended to its topics (the point of no return)", _Replay.append),
        RunRow("finish", "the decision and its tails are recorded as done", _Replay.finish),
        RunRow("release", "the topics have the retention of before the survey", _Replay.release),
    ),
    no_return="append",
)
"""Nothing of it can be put back."""


class _Partition:
    """The records of one partition, from where an earlier call has stopped."""

    def __init__(self, owner: _Replay, tails: TopicTails, tail: PartitionTail) -> None:
        self._owner, self._tails, self._tail = owner, tails, tail
        self._clusters, self._locked = owner.clusters, owner.locked
        self._at = tails.partition_of(tail)
        self._now = owner.locked.command.clock.now
        self._expired_at = EpochMs(owner.decision.expired_at)

    def run(self) -> None:
        progress = self._progress()
        if progress.done:
            return
        progress = self._settled(progress)
        watch = self._watch()
        limit = min(BATCH_BYTES, int(watch.rules.max_message_bytes * _SHARE))
        chunk: list[RescuedRecord] = []
        size = 0
        for record in records_from(watch, progress.end, self._locked.command):
            if chunk and (size + len(record.rest) > limit or len(chunk) >= _MOST_RECORDS):
                progress = self._write(progress, watch, chunk)
                chunk, size = [], 0
            chunk.append(record)
            size += len(record.rest)
        if chunk:
            progress = self._write(progress, watch, chunk)
        self._store(replace(progress, begin=progress.end, end=self._tail.end, done=True))

    def _progress(self) -> ReplayProgress:
        found = replay_of(self._locked.view(), self._tails, self._tail)
        if found is not None and found.plan == self._owner.decision.plan:
            return found
        by, replays = self._locked.command.by, self._clusters.destination.replays
        begin = found.end if found is not None else self._tail.common_end
        progress = ReplayProgress(
            mirror=self._clusters.spec.mirror,
            mirror_id=self._clusters.spec.mirror_id,
            partition=self._at,
            promotion_epoch=self._tails.promotion_epoch,
            plan=self._owner.decision.plan,
            producer_id=replays.new_producer_id(by),
            start=replays.end(self._at, by),
            begin=begin,
            end=begin,
            former=tuple(sorted(found.producer_ids)) if found is not None else (),
            earlier=found.earlier + found.replayed + found.dropped if found is not None else 0,
            at=self._now(),
        )
        self._store(progress)
        return progress

    def _settled(self, progress: ReplayProgress) -> ReplayProgress:
        """Without a batch of which it is not known whether it was appended.

        Raises:
            ReplayUnknown: neither the log nor its leader tells.
        """
        if not progress.count:
            return progress
        by = self._locked.command.by
        found = self._clusters.destination.replays.replayed(self._at, progress.start, progress.producer_id, by)
        sequence = 0 if found.sequence is None and not progress.sequence else found.sequence
        last = -1 if found.offset is None else found.offset
        if sequence == progress.sequence + progress.count or last >= progress.begin:
            return replace(progress, sequence=progress.sequence + progress.count, count=0, batch=(0, 0, 0))
        if sequence != progress.sequence:
            raise ReplayUnknown(f"{self._at}: {progress.sequence} records were replayed, its log has {found.sequence}")
        replayed, dropped, restated = progress.batch
        return replace(
            progress,
            end=progress.begin,
            count=0,
            replayed=progress.replayed - replayed,
            dropped=progress.dropped - dropped,
            restated=progress.restated - restated,
            batch=(0, 0, 0),
        )

    def _watch(self) -> KeyWatch:
        """Raises ReplayUnknown: the topic is gone. QuarantineChanged."""
        by, topic = self._locked.command.by, self._at.topic
        described = self._clusters.destination.topics.describe([topic], by)[topic]
        if isinstance(described, UnknownTopicOrPartition):
            raise ReplayUnknown(f"topic {topic} does not exist any more at {self._clusters.spec.destination!r}")
        rules = rules_of(described)
        return watch_keys(self._clusters, self._tails, self._tail, rules, self._locked.view(), by)

    def _write(self, progress: ReplayProgress, watch: KeyWatch, chunk: Sequence[RescuedRecord]) -> ReplayProgress:
        """Decide about the records of `chunk`, and append what is to be appended as one batch."""
        watch.look(self._locked.command.by)
        outgoing: list[RescuedRecord] = []
        replayed = restated = 0
        for record in chunk:
            action = self._owner.plan.actions[watch.classify(record, self._expired_at)]
            if action is TailAction.REPLAY:
                outgoing.append(record)
                replayed += 1
            elif _to_restate(record, watch):
                outgoing.append(
                    self._clusters.destination.replays.current(record, watch.last.get(record.key or b""), self._now())
                )
                restated += 1
        batch = (replayed, len(chunk) - replayed, restated)
        progress = replace(
            progress,
            begin=progress.end,
            end=chunk[-1].offset + 1,
            count=len(outgoing),
            replayed=progress.replayed + batch[0],
            dropped=progress.dropped + batch[1],
            restated=progress.restated + batch[2],
            batch=batch,
        )
        if outgoing:
            self._store(progress)
            self._owner.tools.checkpoint("stored")
            self._append(watch, outgoing, progress)
            self._owner.tools.checkpoint("appended")
        self._owner.tools.report(self._at, progress)
        return replace(progress, sequence=progress.sequence + len(outgoing), count=0, batch=(0, 0, 0))

    def _append(self, watch: KeyWatch, outgoing: Sequence[RescuedRecord], progress: ReplayProgress) -> None:
        until = self._locked.confirm_action()
        try:
            self._clusters.destination.replays.append(
                watch.copy, outgoing, progress.producer_id, progress.sequence, until
            )
        except TopicAuthorizationFailed as why:
            raise ReplayDenied(f"{self._at}: {why.reason}") from why

    def _store(self, progress: ReplayProgress) -> None:
        self._locked.append([replace(progress, at=self._now())])


def _to_restate(record: RescuedRecord, watch: KeyWatch) -> bool:
    """Whether a compacted topic needs the new primary's value once more, because the tail's stays at the old source.

    A newer record of the key will be copied there anyway, and only the last record of a key counts.
    """
    key = record.key
    return (
        watch.rules.compacted
        and key is not None
        and not watch.is_newer(key)
        and watch.last_offsets[key] == record.offset
    )


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def _outcome(decision: TailDecision, view: StateView, failed: Mapping[str, TanistError]) -> ReplayOutcome:
    plan = DecisionPlan.read(decision.plan_json)
    progress = tuple(each for each in view.replays(decision.mirror) if each.plan == decision.plan)
    return ReplayOutcome(decision=decision, plan=plan, progress=progress, not_released=failed)


def replay_item(found: ReplayOutcome) -> dict[str, Any]:
    """A decision, and how far each partition of it is."""
    by_partition = {(each.partition.topic, each.partition.partition): each for each in found.progress}
    return {
        "mirror": found.decision.mirror,
        "plan_hash": found.decision.plan,
        "status": found.decision.status,
        "approver": found.decision.approver,
        "actions": {str(each): str(found.plan.actions[each]) for each in TailClass},
        "held": sorted(found.not_released),
        "quarantine": [quarantine_topic(each) for each in found.plan.topics],
        "tails": [
            _tail_item(each.topic, each.partition, each.records, by_partition.get((each.topic, each.partition)))
            for each in found.plan.tails
        ],
    }


def _tail_item(topic: str, partition: int, records: int, progress: ReplayProgress | None) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "records": records,
        "replayed": progress.replayed if progress else 0,
        "dropped": progress.dropped if progress else 0,
        "restated": progress.restated if progress else 0,
        "done": progress.done if progress else False,
    }
