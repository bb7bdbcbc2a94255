"""A mirror that is deleted after a failover, done or aborted, and another one that is made under its name."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient

from tanist.domain.topic_configs import MAX_MESSAGE_BYTES
from tanist.kafka.wire.admin import ConfigKind, ConfigResource, alter_configs
from tanist.kafka.wire.router import Router
from tests.kafka.failover.conftest import take
from tests.storm.judging import SOON, kept_off, rules_of
from tests.storm.lifetime import Lifetime
from tests.storm.mishaps import Verb
from tests.storm.operators import ABANDON, QUICK, STEPS, Operator, Scene
from tests.storm.traffic import probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.storm.traffic import Clients

EMPTY_SECONDS: Final = 200.0
DELETED_SECONDS: Final = 60.0
ASLEEP_SECONDS: Final = 30.0
GONE_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 5.0
"""For so long nobody may be refused at the source of a new mirror: a worker that inherits a fence acts within that."""
_PLANS: Final = 3
_MEANWHILE_SECONDS: Final = 8.0


class Recreation:
    """Steps between the first mirror of a name and the second; what is wrong goes to the scene."""

    def __init__(self, first: Lifetime, dice: Random) -> None:
        self._first, self._dice = first, dice
        self._aborted = dice.random() < 0.5
        self._kept: dict[str, dict[tuple[int, int], bytes]] = {}
        """Of topics that took over and stay so: their records when the mirror was deleted."""

    # ── the end of the first ──────────────────────────────────────────────────────────────────────────────────────

    def empty(self) -> None:
        """All topics leave the mirror, by a failover; before that one is aborted, if the dice say so."""
        scene, ask = self._first.scene, self._first.asking
        scene.story.phase = "empties its mirror"
        by, aborted = time.monotonic() + EMPTY_SECONDS, False
        while left := sorted({row["topic"] for row in self._first.judge.rows() if row["state"] != "STOPPED"}):
            if time.monotonic() > by:
                raise TimeoutError(f"{left} cannot leave the mirror")
            for topic in left:  # each by itself: what is not paused refuses the whole command
                ask.command("mirrors", "resume", scene.mirror, "--topic", topic)
            if (plan := ask.approved(tuple(left))) is None:
                continue
            if self._aborted and not aborted:
                ask.command("failover", "run", scene.mirror, "--plan", plan.hash, *QUICK, "--until", "fence")
                aborted = bool(self._first.unfinished())
                scene.tally.add("figures", "failovers aborted before the mirror was deleted", aborted)
                ask.command("failover", "abort", scene.mirror, "--reason", "storm")
            else:
                ask.command("failover", "run", scene.mirror, "--plan", plan.hash, *QUICK)
            self._first.settle()
        scene.emptied = True

    def delete(self) -> None:
        """By one whose command is kept back, in half of the episodes, and then by another."""
        scene, ask = self._first.scene, self._first.asking
        scene.story.phase = "deletes its mirror"
        self._kept = {topic: self._first.judge.read(topic) for topic in sorted(self._first.judge.promoted)}
        if self._dice.random() < 0.5:
            deleter = Operator(scene, "deleter", Random(f"{self._dice.random()}"), 1, first=Verb.DELETE, sleeps=True)
            self._first.operators.append(deleter)
            asleep, by = scene.asleep, time.monotonic() + ASLEEP_SECONDS
            deleter.start()
            while deleter.is_alive() and scene.asleep == asleep and time.monotonic() < by:
                time.sleep(0.05)  # noqa: TID251
        by = time.monotonic() + DELETED_SECONDS
        while True:
            answer = ask.command("mirrors", "delete", scene.mirror, "--yes", *ABANDON)
            if answer is not None and (answer.code == 0 or "UNKNOWN_MIRROR" in answer.err):
                scene.tally.add("figures", "mirrors deleted", 1)
                return
            if time.monotonic() > by:
                raise TimeoutError(f"an empty mirror cannot be deleted: {answer}")
            time.sleep(1.0)  # noqa: TID251

    # ── the second ────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self) -> Lifetime:
        """The second mirror, of the same topics, of others, or of one of each."""
        old = self._first.scene
        fresh = tuple(f"{old.topics[0][:-1]}{letter}" for letter in "def")
        topics = self._dice.choice((old.topics, fresh[:2], (old.topics[0], fresh[0])))
        scene = Scene(
            story=old.story,
            pair=old.pair,
            proxy=old.proxy,
            tally=old.tally,
            mirror=old.mirror,
            topics=topics,
            extra=fresh[2],
            home=old.home / "again",
            earlier=dict(old.plans),
        )
        scene.home.mkdir(exist_ok=True)
        again = [topic for topic in topics if topic in old.topics]
        scene.tell(f"mirror {scene.mirror} is made again, of {list(topics)}, {len(again)} of them as before")
        for topic in again:
            self._wipe(topic)
            self._kept.pop(topic, None)
        # a group of its own: one that had been at the destination before is not moved unasked
        second = Lifetime(scene, f"{self._first.group}-again", self._dice)
        second.make_topics([topic for topic in second.everything if topic not in again])
        second.make(*(["--promoted"] if again else []))
        scene.tally.add("figures", "mirrors made again under their name", 1)
        return second

    def _wipe(self, topic: str) -> None:
        """The source as it was before its fence, and nothing of the topic at the destination: by hand, as docs say."""
        pair, before = self._first.scene.pair, self._first.judge.before[topic]
        if pair.east.cluster.spec.authorizer:
            assert isinstance(before, frozenset)
            take(pair.east.cluster, *(rules_of(pair.east, topic) - before))
            take(pair.west.cluster, *rules_of(pair.west, topic))
        else:
            with Router(pair.east.cluster.endpoint(), "tanist-storm") as router:
                alter_configs(router, ConfigResource(ConfigKind.TOPIC, topic), {MAX_MESSAGE_BYTES: None}, SOON(10))
        if (now := kept_off(pair.east, topic)) != before:
            raise RuntimeError(f"the source of {topic} could not be restored: {before} before, {now} now")
        admin = AdminClient(pair.west.client("admin"))
        admin.delete_topics([topic])[topic].result(20)
        by = time.monotonic() + GONE_SECONDS
        while topic in admin.list_topics(timeout=10).topics:
            if time.monotonic() > by:
                raise TimeoutError(f"{topic} is still at the destination")
            time.sleep(0.1)  # noqa: TID251

    def judge_new(self, second: Lifetime, clients: Clients) -> None:
        """While nobody else is at work, and what sleeps is asleep."""
        second.scene.story.phase = "is judged as new"
        for wrong in self._inherited(second):
            second.scene.violated(f"inherited: {wrong}")
        time.sleep(QUIET_SECONDS)  # noqa: TID251
        if clients.source.refused:
            second.scene.violated(f"inherited fence: {clients.source.refused} records refused by the source")

    def _inherited(self, second: Lifetime) -> Iterator[str]:
        scene, ask = second.scene, second.asking
        if found := {str(row["topic"]) for row in second.judge.rows()} ^ set(scene.topics):
            yield f"topics {sorted(found)}"
        for topic in scene.topics:
            if not (taken := probe(scene.pair.east, topic, "new")):
                yield f"the source fence of {topic}"
            second.judge.probes += taken
        plans = self._dice.sample(sorted(scene.earlier), min(_PLANS, len(scene.earlier)))
        for plan in plans:
            until = ("--until", self._dice.choice(STEPS))
            answer = ask.command("failover", "run", scene.mirror, "--plan", plan, *QUICK, *until)
            scene.tally.add("figures", "plans of an earlier mirror refused", answer is not None and answer.code == 1)
            if answer is None or answer.code != 1:
                yield f"plan {plan} was run: {answer}"
        for what in (("failover", "status"), ("fence", "show")):
            if shown := ask.question(*what, scene.mirror):
                yield f"{' '.join(what)} says {shown}"
        self._count_stored(second)

    def _count_stored(self, second: Lifetime) -> None:
        """How much of the earlier mirror is stored: nothing of it is read, but whoever writes late may leave some."""
        mirror = second.scene.mirror
        stored = {row["key"]: row["value"] or {} for row in second.asking.question("state", "dump")}
        present = stored[f"mirror/{mirror}"]["mirror_id"]
        late = [key for key, value in stored.items() if f"/{mirror}/" in f"{key}/" and _of_another(value, present)]
        second.scene.tally.add("figures", "records of an earlier mirror still stored", len(late))
        for key in late:
            second.scene.tell(f"still stored: {key}")

    def wake(self) -> None:
        """What slept in the first mirror does what it was about to."""
        if not self._first.scene.wake.is_set():
            self._first.scene.tally.add("figures", "commands of an earlier mirror woken", self._first.scene.asleep)
            self._first.scene.over.set()
            self._first.wake()

    def wake_meanwhile(self) -> None:
        """The same, while others are at work on the second."""
        time.sleep(self._dice.uniform(0.0, _MEANWHILE_SECONDS))  # noqa: TID251
        self.wake()

    def judge_old(self) -> None:
        """What took over from the first mirror, and is in no other, is as it was."""
        first = self._first
        first.scene.story.phase = "is judged for what had taken over before"
        if undone := first.scene.done - first.judge.done.keys():
            first.scene.violated(f"plans {sorted(undone)} of an earlier mirror say that they are DONE")
        for topic, kept in self._kept.items():
            for wrong in first.judge.open_here(topic):
                first.scene.violated(wrong)
            now = first.judge.read(topic)
            if gone := [place for place, value in kept.items() if now.get(place) != value]:
                first.scene.violated(
                    f"{topic}: {len(gone)} records from before the mirror was deleted are gone: {gone[0]}"
                )


def _of_another(value: dict[str, Any], mirror_id: str) -> bool:
    return bool(value.get("mirror_id", mirror_id) != mirror_id)
