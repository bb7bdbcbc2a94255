"""What must hold when nobody moves, looked at from outside: ordinary clients, ACLs, the log's own refusals."""

from __future__ import annotations

import json
import time
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from confluent_kafka.admin import AdminClient

from tanist.domain.broker_errors import InvalidProducerEpoch
from tanist.domain.names import MirrorPartition
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES
from tanist.kafka.wire import requests
from tanist.kafka.wire.admin import AccessFilter, ConfigKind, ConfigResource, describe_acls, describe_configs
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import Markers
from tanist.kafka.wire.router import Router
from tests.kafka.failover.conftest import TOPIC
from tests.storm.traffic import probe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.acls import AclBinding
    from tests.kafka.failover.conftest import KafkaSide
    from tests.storm.operators import Operator, Plan, Scene
    from tests.storm.traffic import Acknowledged, Clients, Reader, Watch

RECONCILED_SECONDS: Final = 15.0
"""What a worker lifts by itself, it mostly has lifted by then; what is left is lifted by hand."""
SAME_SECONDS: Final = 45.0
PUT_UP_SECONDS: Final = 45.0
"""Within that a fetcher puts a fence up again: it looks every 5 s, and storms kill and freeze it for 12 s at most.

A request that lifts a fence, and that a network has kept back, may land after the topic took over: Kafka has no
compare-and-set for rules and configurations. What must hold then: the fence is put up again within this time, and
`status` counts every record that the source took in it.
"""
_RETRIED_SECONDS: Final = 4.0
"""So much earlier a producer may have been given a record that it retries until then."""
FENCE_TAKES_SECONDS: Final = 1.0
"""An authorizer learns of a rule within that."""
FOREIGN_WRITE: Final = "FOREIGN_WRITE"
_MIRROR_EPOCHS: Final = frozenset({1, 32_767})
Records: TypeAlias = "Mapping[tuple[int, int], bytes]"
"""By partition and offset."""
SOON: Final = SystemClock().deadline


class Judge:
    """Of one episode. Each `_...` yields what it has found wrong."""

    def __init__(self, scene: Scene, asking: Operator) -> None:
        self.before: Mapping[str, object] = {}
        """Of each topic what kept producers off it at the source when the mirror was made."""
        self.probes: list[Acknowledged] = []
        """What was acknowledged to us, at the source."""
        self.late: list[Acknowledged] = []
        """Taken by the source after a takeover, because a lift came late."""
        self._stopped: set[tuple[str, int]] = set()
        self.status_looks = 0
        self._scene, self._ask = scene, asking
        self.done: dict[str, Plan] = {}

    def judge(self) -> None:
        """Everything; what is wrong goes to the scene."""
        for wrong in self._everything():
            self._scene.violated(wrong)

    @property
    def promoted(self) -> frozenset[str]:
        return frozenset(topic for plan in self.done.values() for topic in plan.topics)

    def _everything(self) -> Iterator[str]:
        yield from self._runs()
        for topic in (*self._scene.topics, self._scene.extra):
            yield from self._taken_over(topic) if topic in self.promoted else self._at_home(topic)

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _runs(self) -> Iterator[str]:
        reported = self._ask.question("failover", "status", self._scene.mirror)
        status = {run["plan_hash"]: run["status"] for run in reported}
        for plan in {*self.done, *self._scene.done}:
            if status.get(plan) != "DONE":
                yield f"DONE undone: plan {plan} was DONE and is {status.get(plan, 'not on record any more')}"
        strangers = {plan for plan, found in status.items() if found == "DONE"} - self._scene.plans.keys()
        if strangers:
            yield f"plans {strangers} are DONE, and nobody knows that they were approved"
        self.done |= {
            plan: self._scene.plans[plan] for plan in status.keys() & self._scene.plans.keys() if status[plan] == "DONE"
        }

    # ── topics that took over ─────────────────────────────────────────────────────────────────────────────────────

    def _taken_over(self, topic: str) -> Iterator[str]:
        pair = self._scene.pair
        if taken := probe(pair.east, topic, "judge"):
            self.probes += taken
            if not self._put_up_again(topic):
                yield f"two writable sides: {topic} took over, and the source takes records"
        yield from self.open_here(topic)
        states = {str(row["state"]) for row in self.rows() if row["topic"] == topic}
        if states - {"STOPPED"}:
            yield f"DONE undone: {topic} took over, and its partitions are {sorted(states)}"

    def _put_up_again(self, topic: str) -> bool:
        """Whether a lift came late, and the fence is there again in time."""
        began = time.monotonic()
        while self._scene.story.late_lifts and time.monotonic() < began + PUT_UP_SECONDS:
            time.sleep(0.5)  # noqa: TID251
            taken = probe(self._scene.pair.east, topic, "judge")
            self.probes += taken
            if not taken:
                self._scene.tell(f"judge: the fence of {topic} is there again after {time.monotonic() - began:.1f} s")
                return True
        return False

    def open_here(self, topic: str) -> Iterator[str]:
        """The destination takes records of a topic that took over, and none of the mirror's."""
        west = self._scene.pair.west
        if not probe(west, topic, "west-judge"):
            yield f"DONE undone: {topic} took over, and takes no records"
        if west.cluster.spec.authorizer and west.writes(topic, range(1), user="mirror", partitions=1):
            yield f"DONE undone: {topic} took over, and the mirror's login can write to it"
        yield from self._unsealed(topic)

    def rows(self) -> list[dict[str, Any]]:
        """The partitions of the mirror."""
        return self._ask.question("mirrors", "describe", self._scene.mirror)

    def _unsealed(self, topic: str) -> Iterator[str]:
        """Each producer of the mirror's is refused by the leader itself, one epoch below the one that was barred."""
        with Router(self._scene.pair.west.cluster.endpoint(), "tanist-storm") as router:
            places = [MirrorPartition(topic, n) for n in range(partitions(self._scene.pair.west, topic))]
            for at, producers in requests.describe_producers(router, places, SOON(10)).items():
                if isinstance(producers, Exception):
                    yield f"{at}: nobody tells its producers: {producers}"
                    continue
                barred = [each for each in producers if each.producer_epoch in _MIRROR_EPOCHS]
                if not barred:
                    yield f"DONE undone: {at} took over, and no producer is barred"
                for each in barred:
                    wanted = {at: Markers(each.producer_id, each.producer_epoch - 1, (0,))}
                    answer = requests.write_markers(router, wanted, SOON(10))[at]
                    if not isinstance(answer, InvalidProducerEpoch):
                        yield f"DONE undone: {at} takes a marker of producer {each.producer_id}: {answer}"

    # ── topics that did not ───────────────────────────────────────────────────────────────────────────────────────

    def _at_home(self, topic: str) -> Iterator[str]:
        """The source takes records, at the latest once a worker has looked; status says so until then."""
        pair = self._scene.pair
        by = time.monotonic() + RECONCILED_SECONDS
        while not (taken := probe(pair.east, topic, "judge")) and time.monotonic() < by:
            if self._go() and not (taken := probe(pair.east, topic, "judge")):
                yield f"GO with a fence: {topic} is fenced, no failover of it is on record, and status says GO"
                break
        self.probes += taken
        if not taken:
            yield from self._liftable(topic)
        if pair.west.cluster.spec.authorizer and probe(pair.west, topic, "west-judge"):
            yield f"two writable sides: {topic} did not take over, and takes records"
        if (now := kept_off(pair.east, topic)) != self.before[topic]:
            yield f"{topic} is not as it was: {self.before[topic]} before, {now} now"

    def _go(self) -> bool:
        self.status_looks += 1
        found = self._ask.question("status", self._scene.mirror)
        return any(each["planned"] == "GO" for each in found)  # an unplanned one needs its source to be fenced

    def _liftable(self, topic: str) -> Iterator[str]:
        shown = self._ask.question("fence", "show", self._scene.mirror)
        if not any(row["topic"] == topic and row["stands"] for row in shown):
            yield f"a fence that nobody has on record: {topic}, {shown}"
        by = time.monotonic() + RECONCILED_SECONDS  # for a moment a fetcher may hold the lock, and says: wait for it
        while not (taken := self._after_lift(topic)) and time.monotonic() < by:
            time.sleep(0.5)  # noqa: TID251
        if not taken:
            yield f"a fence that nobody can lift: {topic}"
        self.probes += taken

    def _after_lift(self, topic: str) -> list[Acknowledged]:
        self._ask.command("fence", "lift", self._scene.mirror, "--unrecorded")
        return probe(self._scene.pair.east, topic, "judge")

    # ── records and positions ─────────────────────────────────────────────────────────────────────────────────────

    def compare(self, clients: Clients) -> None:
        """Every record, once nobody writes any more. What is wrong goes to the scene."""
        source, west = [*clients.source.taken, *self.probes], clients.destination.taken
        mirrored = {str(row["topic"]) for row in self.rows()} | self.promoted  # these have left the mirror
        if missing := {*self._scene.topics} - mirrored:
            self._scene.violated(f"topics that were in the mirror are in no answer of it: {sorted(missing)}")
        for topic in sorted(mirrored):
            ours = [each for each in source if each.topic == topic]
            self._scene.tally.add("figures", "of these looked for at the destination", len(ours))
            if topic in self.promoted:
                wrong = self._of_promoted(topic, ours, [each for each in west if each.topic == topic])
            else:
                wrong = self._of_mirrored(topic, ours)
            for each in wrong:
                self._scene.violated(each)
        for each in self._unnamed():
            self._scene.violated(each)
        self._scene.tally.add("figures", "partitions that a late barrier stopped, by name", len(self._stopped))
        for each in (*clients.watch.backwards, *_ahead(clients.reader, clients.watch)):
            self._scene.violated(f"group moved: {each}")

    def read(self, topic: str) -> dict[tuple[int, int], bytes]:
        """All records at the destination, counted."""
        found = values(self._scene.pair.west, topic)
        self._scene.tally.add("figures", "records read at the destination and compared", len(found))
        return found

    def _of_promoted(self, topic: str, source: Sequence[Acknowledged], west: Sequence[Acknowledged]) -> Iterator[str]:
        log = self.read(topic)
        accepted = max(plan.tolerance for plan in self.done.values() if topic in plan.topics)
        lacking = [each for each in source if log.get((each.partition, each.offset)) != each.value]
        lost = [each for each in lacking if not self._lifted_late(each)]
        self.late += [each for each in lacking if self._lifted_late(each)]
        opened = min((each.since for each in west), default=None)
        if opened is not None and self._was_owed(topic):
            self.late += [each for each in lost if each.since > opened]
            lost = [each for each in lost if each.since <= opened]
        self._scene.tally.add("figures", "records lost within what was accepted", len(lost) if accepted else 0)
        if len(lost) > accepted:
            yield f"{topic}: {len(lost)} of {len(source)} acknowledged records lost, {accepted} accepted; {lost[0]}"
        gone = [each for each in west if log.get((each.partition, each.offset)) != each.value]
        if gone:
            yield f"{topic}: {len(gone)} records that the destination acknowledged are gone: {gone[0]}"
        yield from _twice(topic, log)
        if opened is not None and not self._was_owed(topic):
            after = [e for e in source if e.since > opened + FENCE_TAKES_SECONDS and not self._lifted_late(e)]
            if after:
                yield f"two writable sides: {topic}: {len(after)} records of the source are later than west's first"

    def _lifted_late(self, record: Acknowledged) -> bool:
        """Whether the source took it because a lift came late, and before a fetcher could put the fence up again."""
        return any(-_RETRIED_SECONDS <= record.since - lift <= PUT_UP_SECONDS for lift in self._scene.story.late_lifts)

    def _was_owed(self, topic: str) -> bool:
        """Whether an unplanned failover has said that clients moved while the source fence was owed yet.

        It waits for no source. What the source takes until it is fenced is named by `status` (`_unnamed`).
        """
        plans = [plan for plan in self.done.values() if topic in plan.topics and plan.mode == "unplanned"]
        books = (file for plan in plans for file in self._scene.home.rglob(f"{plan.hash}/evidence.json"))
        steps = (event for file in books for event in json.loads(file.read_text())["events"])
        return any(topic in event["detail"].get("fences_owed", ()) for event in steps if event["step"] == "movers")

    def _unnamed(self) -> Iterator[str]:
        """Records that a late fence or a late lift let in, and that `status` does not count."""
        if not self.late:
            return
        self._scene.tally.add("figures", "records that a late fence or lift let in, named by status", len(self.late))
        (status,) = self._ask.question("status", self._scene.mirror)
        (check,) = [each for each in status["checks"] if each["name"] == "left_behind"]
        if check["verdict"] != "FAIL" or int(str(check["observed"]).split()[0]) < len(self.late):
            yield f"{len(self.late)} records that a late fence or lift let in, and status says: {check}"

    def _of_mirrored(self, topic: str, source: Sequence[Acknowledged]) -> Iterator[str]:
        """Equal to the source, at every offset; paused ones go on first."""
        self._ask.command("mirrors", "resume", self._scene.mirror, "--topic", topic)
        by = time.monotonic() + SAME_SECONDS
        here = values(self._scene.pair.east, topic)
        while self._unlike(topic, here, there := values(self._scene.pair.west, topic)) and time.monotonic() < by:
            time.sleep(0.5)  # noqa: TID251
        self._scene.tally.add("figures", "records read at the destination and compared", len(there))
        if unlike := self._unlike(topic, here, there):
            yield f"{topic}: {unlike} records differ, {len(here)} at the source"
        if lost := [each for each in source if here.get((each.partition, each.offset)) != each.value]:
            yield f"{topic}: the source itself has lost {len(lost)} records: {lost[0]}"

    def _unlike(self, topic: str, here: Records, there: Records) -> int:
        """Records that differ. Of a partition that a late barrier stopped: those that are not the source's first.

        Markers are written to topics by name. One of a mirror that was deleted, and that a network has kept back, lands
        in the topic that was created again, and no client can prevent it. The partition must stop and say so.
        """
        stopped = self._stopped_by_a_stranger(topic) if here != there and self._scene.story.late_markers else set()
        unlike = {place for place in here.keys() | there.keys() if here.get(place) != there.get(place)}
        return sum(place[0] not in stopped for place in unlike) + sum(
            bool(copied != first) for at in stopped for copied, first in zip_longest(*_in_order(at, there, here))
        )

    def _stopped_by_a_stranger(self, topic: str) -> set[int]:
        found = {row["partition"] for row in self.rows() if row["topic"] == topic and row["error"] == FOREIGN_WRITE}
        self._stopped |= {(topic, at) for at in found}
        return found


def _in_order(partition: int, there: Records, here: Records) -> tuple[list[bytes], list[bytes]]:
    """The records of the copy, and as many of the source's first."""
    copied, source = ([log[at] for at in sorted(log) if at[0] == partition] for log in (there, here))
    return copied, source[: len(copied)]


def _twice(topic: str, log: Mapping[tuple[int, int], bytes]) -> Iterator[str]:
    seen: dict[bytes, tuple[int, int]] = {}
    for place, value in log.items():
        if value in seen:
            yield f"{topic}: the record of {seen[value]} is there again at {place}"
            return
        seen[value] = place


def _ahead(reader: Reader, watch: Watch) -> Iterator[str]:
    """What a failover commits first is no further than the group had come at the source."""
    for place, offset in watch.first.items():
        if offset > (had := reader.furthest.get(place, 0)):
            yield f"{place} begins at {offset} at the destination, and the group had {had} at the source"


def values(side: KafkaSide, topic: str) -> dict[tuple[int, int], bytes]:
    """Everything that any reader sees, by partition and offset."""
    return {(at, offset): value or b"" for at, offset, value in side.read(topic, partitions(side, topic))}


def partitions(side: KafkaSide, topic: str) -> int:
    return len(AdminClient(side.client("admin")).list_topics(topic, timeout=10).topics[topic].partitions)


def rules_of(side: KafkaSide, topic: str) -> frozenset[AclBinding]:
    with Router(side.cluster.endpoint(), "tanist-storm") as router:
        return frozenset(describe_acls(router, AccessFilter(TOPIC, topic), SOON(10)))


def kept_off(side: KafkaSide, topic: str) -> object:
    """What a fence changes: the rules of a topic, or its own limit of a message's size."""
    if side.cluster.spec.authorizer:
        return rules_of(side, topic)
    with Router(side.cluster.endpoint(), "tanist-storm") as router:
        found = describe_configs(router, ConfigResource(ConfigKind.TOPIC, topic), [MAX_MESSAGE_BYTES], SOON(10))
        return found[MAX_MESSAGE_BYTES]
