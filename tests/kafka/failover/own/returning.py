"""An old source that has died with records that nobody copied, and returns; and commands that kill themselves."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.names import mirror_name
from tanist.domain.selection import EVERY_TOPIC
from tanist.kafka.adapters import quarantine
from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.topics import TopicFacts
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.failback import replay
from tanist.usecases.failback.rescue import RescueTools, rescue
from tanist.wiring.failover import Folder, is_process_dead, runner
from tanist.wiring.registry import ClusterRegistry
from tanist_testkit.sandbox import forks
from tests.kafka.failover.conftest import COMMAND_SECONDS

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

KILLED: Final = "tests.kafka.failover.own.returning:main"


def main() -> None:
    """POINT NUMBER EVIDENCE MIRROR [PLAN]: a rescue, or a replay of PLAN, that kills itself.

    It does so the NUMBERth time that it reaches POINT.
    """
    point, number, evidence, mirror, *plan = sys.argv[1:]
    quarantine.BATCH_BYTES = replay.BATCH_BYTES = 2_000
    reached: list[str] = []

    def checkpoint(name: str) -> None:
        reached.append(name)
        if name == point and reached.count(name) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    clock = SystemClock()
    command = CommandContext(clock=clock, by=clock.deadline(60), holder=runner(), is_process_dead=is_process_dead)
    write = Folder(Path(evidence)).write_manifest
    with ClusterRegistry(load(None, os.environ)) as world:
        clusters = world.open_mirror(world.connect("west"), mirror_name(mirror), command).returned()
        if plan:
            replay.replay(plan[0], clusters, replay.ReplayTools(manifest=write, checkpoint=checkpoint), command)
        else:
            rescue(clusters, EVERY_TOPIC, RescueTools(manifest=write, checkpoint=checkpoint), command)


def killed(pair: Pair, point: str, number: int, mirror: str, *plan: str) -> int:
    """The exit code of a rescue or replay that kills itself; 0: it came to its end before."""
    asked = (point, str(number), str(pair.home / "evidence"), mirror, *plan)
    done = forks.Command(KILLED, asked, pair.environment(), pair.home).wait(COMMAND_SECONDS)
    assert done.code in {0, -9}, done.err
    return done.code


def messages(client: dict[str, Any], topic: str, partition: int) -> list[Any]:
    """All messages of a partition."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition  # noqa: PLC0415

    consumer = Consumer(client)
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if (error := message.error()) is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
        else:
            assert error.retriable(), error


def configs(pair: Pair, topic: str) -> dict[str, str]:
    """The configs in effect of a topic of the source."""
    cluster = KafkaCluster(pair.east.cluster.endpoint())
    found = cluster.topics.describe([topic], SystemClock().deadline(20))[topic]
    cluster.close()
    assert isinstance(found, TopicFacts)
    return dict(found.effective)
