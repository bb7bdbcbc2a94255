"""Topics of a source: the leaders of their partitions, which decide who copies them, and which topics were deleted."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from zlib import crc32

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.deletion import Absence, deleted
from tanist.domain.errors import AnotherCluster, Stopped, TanistError
from tanist.domain.names import BrokerId, SourcePartition, topic_id_of
from tanist.domain.states import Finding
from tanist.fetcher.assignment import FetcherThreadKey, Report
from tanist.fetcher.planning import recreated
from tanist.fetcher.source_ends import Contact, is_silence
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.topics import missing_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.assignment import Assigned, Assignment, PartitionKey
    from tanist.fetcher.planning import Owned
    from tanist.kafka.wire.router import TopicInfo
    from tanist.ports.clock import Clock, Deadline


log = logging.getLogger(__name__)

_T = TypeVar("_T")

DELETIONS_EVERY_SECONDS: Final = 2.0


ALL_BROKERS: Final = BrokerId(-1)


class SourceDeletions:
    """Of one mirror's source. Owned by the coordination thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._absences: dict[str, Absence] = {}
        self._deleted: dict[str, Absence] = {}
        self._looked_at = float("-inf")

    def looks(self, topic: str) -> int:
        """How many looks have shown that `topic` was deleted; 0: it was not, as far as is known."""
        found = self._deleted.get(topic)
        return found.looks if found is not None else 0

    def forget(self, topics: Collection[str]) -> None:
        """What was seen so far was about other topics of these names."""
        for name in topics:
            self._absences.pop(name, None)
            self._deleted.pop(name, None)

    def settled(self) -> Collection[str] | None:
        """The topics of which another look would learn nothing; None: it is too early for another one."""
        too_early = self._clock.monotonic() - self._looked_at < DELETIONS_EVERY_SECONDS
        return None if too_early else frozenset(self._deleted)

    def take(self, seen: Absent, asked_at: float) -> None:
        """Count another look, which was begun at `asked_at` (monotonic) and may have been answered long ago."""
        for known in (self._absences, self._deleted):
            for name in known.keys() - seen.missing:
                del known[name]
        if not seen.unsure:
            return
        now = self._looked_at = self._clock.monotonic()
        if seen.gone is None:
            return
        for name in seen.unsure - seen.gone:
            self._absences.pop(name, None)
        for name in seen.gone:
            before = self._absences.get(name)
            found = self._absences[name] = before.again() if before is not None else Absence(now)
            if found.is_deleted(asked_at):
                self._deleted[name] = self._absences.pop(name)


class Absent(NamedTuple):
    """`missing`: the topics of which one broker says that they do not exist.

    `unsure`: those of which all brokers were asked then; `gone`: those of which all said the same, None: some did not
    answer.
    """

    missing: frozenset[str]
    unsure: frozenset[str] = frozenset()
    gone: frozenset[str] | None = None


class Metadata(NamedTuple):
    """What a source has answered. `asked_at`: ms, before it was asked."""

    asked_at: EpochMs
    topics: Mapping[str, TopicInfo]
    absent: Absent


def read(router: Router, topics: Sequence[str], known_deleted: Collection[str] | None, clock: Clock) -> Metadata:
    """Ask a source. `known_deleted`: see `SourceDeletions.settled`. Raises what `Router.refresh` raises."""
    asked_at, by = clock.now(), clock.deadline(ANSWER_SECONDS)
    router.refresh(topics, by)
    found = dict(router.topics())
    missing = frozenset(name for name in topics if isinstance(found[name].error, UnknownTopicOrPartition))
    unsure = frozenset[str]() if known_deleted is None else missing.difference(known_deleted)
    return Metadata(asked_at, found, Absent(missing, unsure, _gone(router, unsure, by) if unsure else None))


def _gone(router: Router, unsure: frozenset[str], by: Deadline) -> frozenset[str] | None:
    try:
        return frozenset(missing_topics(router, unsure, by))
    except Stopped:
        raise
    except TanistError as why:
        log.info("source does not tell whether topics were deleted", extra={"reason": why.reason})
        return None


LOOK_EVERY_SECONDS: Final = 15.0
LOOK_AGAIN_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 5.0


class SourceTopic(NamedTuple):
    """What a mirror expects of a topic of its source. `topic_id`: of the one that was added, empty: not known."""

    partitions: int
    topic_id: str = ""


class SourceLeaders:
    """The leaders of one mirror's source. Owned by the coordination thread; `interrupt` from any.

    Each look has a thread of its own, which waits for the source: one that does not answer holds up nobody else's
    partitions, nor the end of the process.
    """

    def __init__(
        self,
        resolve: Callable[[], Endpoint],
        client_id: str,
        clock: Clock,
        failed: Callable[[], None] = lambda: None,
        mirror_id: str = "",
    ) -> None:
        """`failed` is called after each look that has failed."""
        self.mirror_id = mirror_id
        self._failed = failed
        self.error: TanistError | None = None
        self.failing_since: float | None = None
        self.looks = 0
        """How often the source was looked at: what this says changes with a look alone."""
        self._resolve = resolve
        self._client_id = client_id
        self._router: Router | None = None
        self._turn = threading.Lock()
        self._answer: Future[Metadata] | None = None
        """Of the look that has not been taken yet."""
        self._known: Mapping[str, TopicInfo] = {}
        """As the last look has it."""
        self._clock = clock
        self._looked_at = float("-inf")
        self._deletions = SourceDeletions(clock)
        self._led: Mapping[str, int] = {}
        """Topics whose partitions all had a leader, with their numbers of partitions."""
        self._asked_at = 0.0
        """When the last look was begun, monotonic seconds."""
        self._topic_ids: Mapping[str, str] = {}
        """Those that the topics had when they were last looked for, also of topics that have left the mirror since."""
        self._contact = Contact()
        self._leaderless: dict[SourcePartition, Contact] = {}
        self._reports: dict[tuple[str, str], Report | None] = {}
        """Since the last look, by topic and by the id that it should have."""

    def look(self, spec: MirrorSpec, topics: Mapping[str, SourceTopic], by: Deadline, *, stale: bool) -> None:
        """Refresh if necessary: a leader moved, topics are new or without leader, or the last refresh is too old.

        Until the source has answered, all stays as the look before has it. It is waited for until `by`, if its last
        answer was none of the errors; the answer of one that takes longer is taken by a later call.

        A topic that has grown counts as without leader. What was seen of a topic that has since been replaced in the
        mirror by another one of its name is forgotten.
        """
        self._forget_replaced({name: topic.topic_id for name, topic in topics.items()})
        if self._answer is None:
            if not self._is_due(topics, stale=stale):
                return
            try:
                self._answer = self._ask(spec, sorted(topics))
            except TanistError as why:
                self._take_error(why)
                return
            if self.error is None:
                wait([self._answer], by.left(self._clock.monotonic()))
        if self._answer.done():
            answer, self._answer = self._answer, None
            try:
                self._take(answer.result())
            except Stopped:
                raise
            except TanistError as why:
                self._take_error(why)

    @property
    def is_waiting(self) -> bool:
        """Whether the source has not answered the last look yet."""
        return self._answer is not None

    def _is_due(self, topics: Mapping[str, SourceTopic], *, stale: bool) -> bool:
        unled = any(
            self._led.get(name, 0) < topic.partitions and not self._deletions.looks(name)
            for name, topic in topics.items()
        )
        hurry = stale or self.error is not None or unled
        return self._clock.monotonic() - self._looked_at >= (LOOK_AGAIN_SECONDS if hurry else LOOK_EVERY_SECONDS)

    def _ask(self, spec: MirrorSpec, topics: Sequence[str]) -> Future[Metadata]:
        self._asked_at = self._clock.monotonic()
        if self._router is None:
            self._router = Router(self._resolve(), self._client_id, spec.source_cluster_id or None)
        ask = partial(read, self._router, topics, self._deletions.settled(), self._clock)
        return self._in_turn(ask)

    def _in_turn(self, act: Callable[[], _T]) -> Future[_T]:
        """`act` in a thread of its own: one thread at a time has the router, in whichever order."""
        answer = Future[_T]()

        def run() -> None:
            with self._turn:
                try:
                    answer.set_result(act())
                except Exception as why:  # noqa: BLE001 -- raised where the answer is taken
                    answer.set_exception(why)

        threading.Thread(target=run, name=f"{self._client_id}-leaders", daemon=True).start()
        return answer

    def _take(self, found: Metadata) -> None:
        self.error = self.failing_since = None
        self._deletions.take(found.absent, self._asked_at)
        self._known = found.topics
        self._leaderless = self._without_leader(found.topics, found.asked_at)
        self._contact = Contact(found.asked_at)
        self._led = {name: len(info.partitions) for name, info in found.topics.items() if _led(info)}
        self._looked()

    def _take_error(self, why: TanistError) -> None:
        self.failing_since = self._asked_at if self.error is None else self.failing_since
        self.error = why
        self._failed()
        vain = (self._contact.silent_since or self._clock.now()) if is_silence(why) else None
        self._contact = self._contact._replace(silent_since=vain)
        self._looked()

    def _looked(self) -> None:
        self._reports.clear()
        self.looks += 1
        self._looked_at = self._clock.monotonic()

    def _without_leader(self, found: Mapping[str, TopicInfo], now: EpochMs) -> dict[SourcePartition, Contact]:
        """The partitions that have none, each with when it still had one and when it was first seen without."""
        at = (
            SourcePartition(name, part.partition)
            for name, info in found.items()
            for part in info.partitions
            if part.leader is None
        )
        return {each: self._leaderless.get(each, Contact(self._contact.led_at, now)) for each in at}

    def contact(self, partition: SourcePartition) -> Contact:
        """What the source's metadata say about a partition."""
        return self._leaderless.get(partition, self._contact)

    def _forget_replaced(self, topic_ids: Mapping[str, str]) -> None:
        replaced = {name for name, topic_id in topic_ids.items() if self._topic_ids.get(name, topic_id) != topic_id}
        self._topic_ids = {**self._topic_ids, **topic_ids}
        if replaced:
            self._known = {name: info for name, info in self._known.items() if name not in replaced}
            self._led = {name: number for name, number in self._led.items() if name not in replaced}
            self.looks += 1
            self._reports.clear()
            self._deletions.forget(replaced)
            self._looked_at = float("-inf")
            self._answer = None  # the source may have been asked about the topics before

    def thread_key(self, spec: MirrorSpec, partition: SourcePartition) -> FetcherThreadKey | None:
        """The fetcher thread for a partition by its last known leader; None: no leader is known."""
        if self._router is None or isinstance(self.error, AnotherCluster):
            return None
        if spec.is_mapped:  # a transactional id has partitions of all brokers, and one thread
            return FetcherThreadKey(spec.mirror, ALL_BROKERS, 0)
        leader = _leader(self._known.get(partition.topic), partition.partition)
        return None if leader is None else FetcherThreadKey(spec.mirror, leader, _number(spec, partition))

    def report(self, mine: Owned) -> Report | None:
        """A report that no fetcher thread can give: a source that does not answer, a topic that was re-created."""
        topic = mine.at_source.topic, mine.topic.source_topic_id
        if topic not in self._reports:
            self._reports[topic] = self._report(mine)
        return self._reports[topic]

    def _report(self, mine: Owned) -> Report | None:
        if self.error is not None:
            return Report(error=self.error, failing_since=self.failing_since)
        info = self._known.get(mine.at_source.topic)
        if info is None:
            return None
        if broken := recreated(mine.at_source.topic, topic_id_of(mine.topic.source_topic_id), info.topic_id):
            return Report(finding=Finding.BROKEN, error=broken)
        if looks := self._deletions.looks(mine.at_source.topic):
            return Report(finding=Finding.DELETED, error=deleted(mine.at_source.topic, mine.spec.mirror, looks))
        if info.error is not None:
            return Report(error=info.error, failing_since=self._looked_at - LOOK_EVERY_SECONDS)
        return None

    def interrupt(self) -> None:
        if self._router is not None:
            self._router.interrupt()

    def close(self) -> None:
        """Nothing is looked at any more. Connections are closed once the thread that uses them has ended."""
        self.interrupt()
        if self._router is not None:
            self._in_turn(self._router.close)


def _leader(topic: TopicInfo | None, partition: int) -> BrokerId | None:
    """As the router tells it: None while there is none, or none is known."""
    if topic is None or topic.error is not None or partition >= len(topic.partitions):
        return None
    return topic.partitions[partition].leader


def _number(spec: MirrorSpec, partition: SourcePartition) -> int:
    """Which of the threads for its leader has a partition: the partitions of a topic take turns."""
    return (crc32(partition.topic.encode()) + partition.partition) % spec.threads if spec.threads > 1 else 0


def _led(info: TopicInfo) -> bool:
    return info.error is None and all(part.leader is not None for part in info.partitions)


def by_lane(assigned: Mapping[PartitionKey, Assigned], leaders: Mapping[MirrorName, SourceLeaders]) -> Assignment:
    """The assignment of each fetcher thread."""
    lanes: Assignment = {}
    for copied, each in assigned.items():
        key = leaders[copied.mirror].thread_key(each.spec, each.at_source)
        if key is not None:
            lanes.setdefault(key, {})[copied] = each
    return lanes


def topics_by_mirror(mine: Iterable[Owned]) -> dict[MirrorName, tuple[MirrorSpec, Mapping[str, SourceTopic]]]:
    """The mirrors with assigned partitions, each with what it expects of its source's topics."""
    found: dict[MirrorName, tuple[MirrorSpec, dict[str, SourceTopic]]] = {}
    for each in mine:
        topic = SourceTopic(each.topic.partitions, each.topic.source_topic_id)
        found.setdefault(each.spec.mirror, (each.spec, {}))[1][each.at_source.topic] = topic
    return dict(found)
