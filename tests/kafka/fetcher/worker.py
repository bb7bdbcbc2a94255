"""A copier in a process of its own, to be killed: `python -m tests.kafka.fetcher.worker JSON`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tanist.domain.compaction import Holes
from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.names import MirrorPartition
from tanist.domain.records import MirrorSpec
from tanist.kafka.protocol.stored import decode, encode
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.copier import Copier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.kafka.fetcher.rig import Rig

ROOT = Path(__file__).parents[3]


@contextmanager
def process(
    rig: Rig, partitions: Sequence[MirrorPartition], store: Path, name: str = "w1", holes: Holes = Holes.REFUSE
) -> Iterator[Any]:
    """A running worker; SIGKILL at the end, if not before."""
    key, value = encode(rig.spec)
    reported = {
        "spec": [key.decode(), (value or b"").decode()],
        "source": rig.source.servers,
        "destination": rig.destination.servers,
        "partitions": [[at.topic, at.partition] for at in partitions],
        "store": str(store),
        "name": name,
        "holes": holes,
    }
    running = subprocess.Popen([sys.executable, "-m", "tests.kafka.fetcher.worker", json.dumps(reported)], cwd=ROOT)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def _endpoint(name: str, servers: str) -> Endpoint:
    pairs = (server.rsplit(":", 1) for server in servers.split(","))
    return Endpoint(name=name, bootstrap=tuple(Address(host, int(port)) for host, port in pairs))


def main(told: dict[str, Any]) -> None:
    """Copy until killed."""
    key, value = told["spec"]
    spec = decode(key.encode(), value.encode())
    assert isinstance(spec, MirrorSpec)
    copier = Copier(
        spec=spec,
        source=_endpoint("source", told["source"]),
        destination=_endpoint("destination", told["destination"]),
        store=worker_store(Path(told["store"])),
        partitions=tuple(MirrorPartition(topic, number) for topic, number in told["partitions"]),
        name=told["name"],
        holes=Holes(told["holes"]),
    )
    with copier:
        signal.pause()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
