"""Two full-speed clusters of one broker each, and what every side of the comparison needs of them."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.kafka.protocol.client_config import client_config
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.fleet import toml_section
from tanist_testkit.sandbox.forks import COMMANDS, Command
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify import clients
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.ports.clock import Clock
    from tanist_testkit.sandbox.forks import CommandResult
    from tanist_testkit.sandbox.processes import Process

SOURCE: Final = "source"
DESTINATION: Final = "destination"
TOPIC_SECONDS: Final = 30.0
_HEAP_MB: Final = 1024
_END_SECONDS: Final = 20.0
_PROPERTIES: Final = {
    "log.segment.delete.delay.ms": "1000",  # what a round has written leaves the disk before the next one
    "log.retention.ms": "-1",
}
_AGAIN_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Pair:
    """Both clusters run. Everything started through `guardian` ends with this process, however it ends."""

    source: SandboxCluster
    destination: SandboxCluster
    home: Path
    guardian: Guardian
    clock: Clock

    @property
    def config(self) -> Path:
        """The tanist.toml that names them."""
        return self.home / "tanist.toml"

    def tanist(self, words: Sequence[str], seconds: float) -> CommandResult:
        """The command line, typed in the folder of both clusters, with as much time."""
        environment = {**os.environ, "TANIST_CONFIG": str(self.config)}
        return Command(COMMANDS, words, environment, self.home).wait(seconds)

    def end(self, process: Process) -> None:
        """SIGTERM; SIGKILL where that does not help within 20 s."""
        process.send(signal.SIGTERM)
        if not process.wait(self.clock.deadline(_END_SECONDS)):
            process.send(signal.SIGKILL)
            process.wait(self.clock.deadline(_END_SECONDS))


@contextmanager
def running(clock: Clock, *, tls: bool = False) -> Iterator[Pair]:
    """Both clusters, started; gone with all their data afterwards. `tls`: of all their listeners.

    Raises:
        TanistError: as `Cluster.start` says.
    """
    with ExitStack() as stack:
        guardian = stack.enter_context(Guardian())
        home = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tanist-bench-", ignore_cleanup_errors=True))
        )
        guardian.remove_at_end(home)
        source, destination = (
            SandboxCluster.new(_spec(name, tls), home / name, guardian=guardian) for name in (SOURCE, DESTINATION)
        )
        for cluster in (source, destination):
            stack.callback(cluster.close)
            cluster.launch()
        for cluster in (source, destination):
            cluster.start()
        pair = Pair(source, destination, home, guardian, clock)
        pair.config.write_text("\n".join(map(toml_section, (source, destination))), encoding="utf-8")
        yield pair


def _spec(name: str, tls: bool) -> ClusterSpec:  # noqa: FBT001 -- of one caller
    return ClusterSpec(name=name, heap_mb=_HEAP_MB, full_speed=True, tls=tls, properties=_PROPERTIES)


def client(cluster: SandboxCluster, **more: Any) -> dict[str, Any]:
    """What a client of librdkafka connects with; keys of `more` have '_' for '.'."""
    found = client_config(cluster.endpoint())
    return clients.settings(found.pop("bootstrap.servers"), **found, **more)


# ── topics ────────────────────────────────────────────────────────────────────────────────────────────────────────


def create_topic(cluster: SandboxCluster, name: str, partitions: int, config: Mapping[str, str], clock: Clock) -> None:
    """A new topic; returns when all of it has leaders.

    Raises:
        KafkaException: it was refused. TimedOut: not within 30 s.
    """
    from confluent_kafka.cimpl import NewTopic

    topic = NewTopic(name, partitions, 1, config=dict(config))
    secured = client_config(cluster.endpoint())
    servers = secured.pop("bootstrap.servers")
    clients.create_topics(servers, [topic], clock.deadline(TOPIC_SECONDS), clock, **secured)


def delete_topics(cluster: SandboxCluster, keep: tuple[str, ...], clock: Clock) -> None:
    """Every topic but those of `keep` and Kafka's own; returns when they are gone.

    Raises:
        KafkaException: it was refused. TimedOut: they were still there after 30 s.
    """
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(client(cluster))
    kept = {*keep, "__consumer_offsets", "__transaction_state"}

    def gone() -> bool:
        wanted = [name for name in admin.list_topics(timeout=TOPIC_SECONDS).topics if name not in kept]
        for future in admin.delete_topics(wanted).values() if wanted else ():
            future.exception(TOPIC_SECONDS)  # gone already: the next look tells
        return not wanted

    by = clock.deadline(TOPIC_SECONDS)
    until(gone, by, clock, lambda: f"topics of {cluster.name} cannot be deleted", _AGAIN_SECONDS)
