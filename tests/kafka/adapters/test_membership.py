"""A worker that was frozen past its session must not believe that it still owns anything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tanist.kafka.adapters.membership import SESSION_SECONDS, GroupMembership
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.topics import NewTopic
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist_testkit.sandbox.cluster import SandboxCluster

CLOCK = SystemClock()
SLICES = 6


class Frozen:
    """A member in a process of its own."""

    def __init__(self, endpoint: Endpoint, topic: str) -> None:
        script = str(Path(__file__).with_name("member.py"))
        include = str(Path(__file__).parents[3] / "include")
        self._process = subprocess.Popen(
            [sys.executable, script, str(endpoint.bootstrap[0]), topic],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": include},
        )
        self.looks: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self.looks.append(json.loads(line))


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    deadline = CLOCK.deadline(seconds)
    while not done():
        assert deadline.left(CLOCK.monotonic()), "it did not come"
        CLOCK.wait(0.02)


def test_a_worker_frozen_past_its_session_has_no_lease(clusters: Mapping[str, SandboxCluster], topic_name: str) -> None:
    endpoint = clusters["west"].endpoint()
    with over(KafkaTopics, endpoint) as topics:
        topics.create([NewTopic(name=topic_name, partitions=SLICES, replication_factor=1)], CLOCK.deadline(20))
    frozen = Frozen(endpoint, topic_name)
    heir = GroupMembership(endpoint, topic_name, group=topic_name)
    try:
        wait_until(lambda: len(heir.poll(CLOCK.deadline(0.2)).state_partitions) == SLICES // 2)
        began, lines = CLOCK.monotonic(), len(frozen.looks)
        frozen.freeze()
        wait_until(lambda: len(heir.poll(CLOCK.deadline(0.2)).state_partitions) == SLICES)
        assert CLOCK.monotonic() - began > SESSION_SECONDS - 2, "given up one session after its last sign of life"
        frozen.thaw()

        def late(look: dict[str, Any]) -> bool:
            return bool(look["at"] > began + SESSION_SECONDS - 2)

        wait_until(lambda: any(late(look) for look in frozen.looks[lines:]))
        first = next(look for look in frozen.looks[lines:] if late(look))
        assert not (first["slices"] and first["holds"]), "what it owned before is over, and it knows"
        assert not first["held_before"]
    finally:
        frozen.close()
        heir.leave()
