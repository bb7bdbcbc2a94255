"""One reading of many mirrors while several sources hang. In memory a barrier stands for sockets that never answer."""

from __future__ import annotations

import socket
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from threading import Barrier
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.kafka.adapters.replicas import KafkaReplicas
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.command import SOURCE_SECONDS, CommandContext
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.status import observe as status
from tanist.usecases.status.observe import StatusContext
from tests.builders import a_command
from tests.fakes.failover import GuardedCluster, MemoryReplicas
from tests.ports import over
from tests.unit.usecases.readings import clusters, reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.logs import ClusterSeen, Replicas
    from tanist.usecases.mirror import OpenMirror

HUNG, MIRRORS_EACH = 3, 2


class Sources:
    """East answers, the others hang until all of them are asked."""

    def __init__(self) -> None:
        self.east, self.west = GuardedCluster("east"), GuardedCluster("west")
        self.east.with_topic("orders", 1, 10)
        create(CreateRequest(mirror="m", include=("orders",)), self.east.side(), self.west.side(), a_command())
        spec = self.west.view(STATE_TOPIC).mirror(MirrorName("m"))
        assert spec
        self.hung = {f"hung-{n}": GuardedCluster(f"hung-{n}") for n in range(HUNG)}
        for name in self.hung:
            for n in range(MIRRORS_EACH):
                mirror = MirrorName(f"{name}-{n}")
                self.west.write(STATE_TOPIC, replace(spec, mirror=mirror, mirror_id=mirror, source=name))
        self.asked, self.together = Counter[str](), Barrier(HUNG)

        self.replicas: dict[str, Replicas] = {name: Hangs(each, self) for name, each in self.hung.items()}

    def mirrors(self) -> set[str]:
        """Whose source hangs."""
        return {f"{name}-{n}" for name in self.hung for n in range(MIRRORS_EACH)}

    def of(self, spec: MirrorSpec) -> OpenMirror:
        if spec.source == "east":
            return clusters(spec, self.east, self.west)
        found = clusters(spec, self.hung[spec.source], self.west)
        assert not isinstance(found.source, TanistError)
        return replace(found, source=replace(found.source, replicas=self.replicas[spec.source]))

    def down(self, context: CommandContext | None = None) -> set[str]:
        """The mirrors whose source is said to be silent."""
        one = reading(self.east, self.west, context)
        found = status.observe(
            StatusContext(destination=one.destination, silence=one.silence, clusters=self.of, context=one.context), None
        )
        assert len(found) == 1 + HUNG * MIRRORS_EACH
        return {
            each.spec.mirror
            for each in found
            if "SOURCE_DOWN" in {one.name for one in each.status.limitations[Mode.PLANNED]}
        }


class Hangs(MemoryReplicas):
    """Of a source that hangs."""

    def __init__(self, cluster: GuardedCluster, sources: Sources) -> None:
        super().__init__(cluster)
        self._name, self._sources = cluster.name, sources

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        self._sources.asked[self._name] += 1
        self._sources.together.wait(5)
        raise TimedOut(f"{self._name} does not answer")


def test_several_sources_that_hang_are_asked_side_by_side_and_once_by_all_their_mirrors() -> None:
    """One after another they took 4 s each; the page waits for 6 s, and then knew nothing of any mirror."""
    sources = Sources()
    assert sources.down() == sources.mirrors()
    assert sources.asked == dict.fromkeys(sources.hung, 1)


def test_sockets_that_never_answer_take_the_time_of_one_of_them() -> None:
    """The source's own port against three listeners that accept nothing."""
    sources, clock = Sources(), SystemClock()
    with ExitStack() as stack:
        for name in sources.hung:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            there = Endpoint(name=name, bootstrap=(Address("127.0.0.1", listener.getsockname()[1]),))
            sources.replicas[name] = stack.enter_context(over(KafkaReplicas, there))
        began = time.monotonic()
        assert sources.down(CommandContext(clock=clock, by=clock.deadline(20))) == sources.mirrors()
        assert SOURCE_SECONDS - 1 < time.monotonic() - began < 2 * SOURCE_SECONDS, "the page waits for 6 s"
