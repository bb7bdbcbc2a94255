"""A Kafka Streams application whose state is a compacted topic goes on at the destination, and every count is exact."""

from __future__ import annotations

import json
import signal
from collections import Counter
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tanist.domain.names import MirrorPartition
from tanist.spark_submit.jars import java
from tanist_testkit.sandbox.jars import STREAMS_EXAMPLES, class_path
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian, Process
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide
    from tests.kafka.fetcher.logs import Row

pytestmark = pytest.mark.long
APPLICATION: Final = "streams-wordcount"
INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
PARTITIONS: Final = 2
WORDS: Final = [f"word{number}" for number in range(40)]
CLEANER: Final = {"log.cleaner.backoff.ms": "200"}
MAIN: Final = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
LOG4J2: Final = """\
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n%throwable
rootLogger.level=warn
rootLogger.appenderRef.out.ref=OUT
"""


@pytest.fixture
def pair(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("streams")
    east = ClusterSpec(name="east", heap_mb=384, properties=CLEANER)
    with running(guardian, client_config, home, source=east, authorizer=False, properties=CLEANER) as pair:
        yield pair


def application(pair: Pair, side: KafkaSide, state: Path, protocol: str = "classic") -> Process:
    """WordCountDemo as it is published, exactly once, with its state in the folder `state`."""
    config, logging = state.with_suffix(".properties"), state.with_suffix(".log4j2.properties")
    logging.write_text(LOG4J2)
    settings = {
        "bootstrap.servers": side.cluster.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": state,
        "group.protocol": protocol,
        "commit.interval.ms": 100,
        "num.stream.threads": 1,
        "topic.segment.ms": 1_000,
        "topic.min.cleanable.dirty.ratio": 0,
    }
    if protocol == "classic":
        settings |= {"consumer.session.timeout.ms": 6_000, "consumer.heartbeat.interval.ms": 1_000}
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={logging}")
    argv = [java(), "-cp", class_path(STREAMS_EXAMPLES), *options, MAIN, str(config)]
    return pair.guardian.spawn(argv, state.with_suffix(".log"))


class Writer:
    """Lines of words; `counts` of all that were ever acknowledged."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self._rng = Random(1)

    def write(self, side: KafkaSide, lines: int) -> None:
        producer = Producer(side.client(linger_ms="5", enable_idempotence="true"))
        for number in range(lines):
            words = self._rng.choices(WORDS, k=5)
            producer.produce(INPUT, " ".join(words).encode(), partition=number % PARTITIONS)
            self.counts.update(word.encode() for word in words)
        assert producer.flush(30) == 0


def rows(side: KafkaSide, topic: str) -> Sequence[Row]:
    """The committed records of a topic, one partition after the other."""
    at = [MirrorPartition(topic, number) for number in range(PARTITIONS)]
    return [row for each in read(side.cluster.bootstrap_servers, at, "read_committed").values() for row in each]


def counted(side: KafkaSide) -> dict[bytes, list[int]]:
    """All counts of each word that the application has put out, in their order."""
    found: dict[bytes, list[int]] = {}
    for row in rows(side, OUTPUT):
        assert row.key is not None
        found.setdefault(row.key, []).append(int.from_bytes(row.value or b"", "big"))
    return found


def has_counted(side: KafkaSide, writer: Writer) -> bool:
    return {word: counts[-1] for word, counts in counted(side).items()} == dict(writer.counts)


def internal_topics(side: KafkaSide) -> set[str]:
    """The topics that the application has created: a changelog and a repartition topic."""
    topics = AdminClient(side.client()).list_topics(timeout=20).topics
    return {name for name in topics if name.startswith(APPLICATION) and name != OUTPUT}


def has_holes(side: KafkaSide, changelog: str) -> bool:
    """Whether a cleaner has taken most of the changelog in every partition."""
    at = [MirrorPartition(changelog, number) for number in range(PARTITIONS)]
    logs = read(side.cluster.bootstrap_servers, at, "read_committed")
    return all(rows and 2 * len(rows) < rows[-1].offset for rows in logs.values())


def test_an_application_goes_on_with_its_counts_from_an_empty_state_directory(pair: Pair, tmp_path: Path) -> None:
    """It is killed while it works. Its changelog has holes, made by the source's cleaner before the mirror was."""
    writer = Writer()
    for topic in (INPUT, OUTPUT):
        pair.east.topic(topic, PARTITIONS)
    running_app = application(pair, pair.east, tmp_path / "east")
    writer.write(pair.east, 400)
    until(lambda: has_counted(pair.east, writer), 60)
    changelog, repartition = sorted(internal_topics(pair.east))
    assert (changelog[-10:], repartition[-12:]) == ("-changelog", "-repartition")

    def cleaned() -> bool:
        writer.write(pair.east, 50)
        return has_holes(pair.east, changelog)

    until(cleaned, 90)
    pair.worker()
    pair.tanist("mirrors", "create", "m", "--source", "east", "--topic", "streams-.*")
    pair.tanist("mirrors", "wait", "m", "--for", "lag=0", "--timeout", "200s")
    pair.worker().send(signal.SIGKILL)
    writer.write(pair.east, 200)
    pair.worker("w2")
    writer.write(pair.east, 600)
    running_app.send(signal.SIGKILL)
    pair.tanist("mirrors", "wait", "m", "--for", "lag=0", "--timeout", "200s")
    pair.tanist("failover", "run", "m", "--plan", pair.approved("m"))
    assert pair.tanist("failover", "status", "m", "--json").item["status"] == "DONE"

    assert internal_topics(pair.west) == {changelog, repartition}
    application(pair, pair.west, tmp_path / "west")
    until(lambda: has_counted(pair.west, writer), 90)
    writer.write(pair.west, 300)
    until(lambda: has_counted(pair.west, writer), 60)
    for word, counts in counted(pair.west).items():
        assert counts == list(range(1, writer.counts[word] + 1)), word


def test_a_streams_group_is_named_as_one_and_goes_on_at_the_destination_where_it_stood(
    pair: Pair, tmp_path: Path
) -> None:
    """KIP-1071: no request for the members of other groups tells of its members, so their number is unknown."""
    writer = Writer()
    for topic in (INPUT, OUTPUT):
        pair.east.topic(topic, PARTITIONS)
    running_app = application(pair, pair.east, tmp_path / "east", "streams")
    writer.write(pair.east, 400)
    until(lambda: has_counted(pair.east, writer), 60)
    pair.worker()
    pair.tanist("mirrors", "create", "m", "--source", "east", "--topic", "streams-.*")
    pair.tanist("mirrors", "wait", "m", "--for", "lag=0", "--timeout", "200s")
    group = pair.tanist("groups", "list", "m", "--json").item
    assert [group[name] for name in ("group", "kind", "state", "members")] == [APPLICATION, "streams", "Stable", None]
    rows = json.loads(pair.tanist("groups", "sync", "m", "--json").out)["items"]
    assert {(each["topic"] == INPUT, each["partition"]) for each in rows} == set(product((True, False), range(2)))
    assert all(each["precision"] == "exact" and each["committed"] for each in rows), rows
    writer.write(pair.east, 100)
    until(lambda: has_counted(pair.east, writer), 60)
    running_app.send(signal.SIGKILL)
    pair.tanist("mirrors", "wait", "m", "--for", "lag=0", "--timeout", "200s")
    pair.tanist("failover", "run", "m", "--plan", pair.approved("m"))
    assert pair.tanist("failover", "status", "m", "--json").item["status"] == "DONE"
    application(pair, pair.west, tmp_path / "west", "streams")
    writer.write(pair.west, 300)
    until(lambda: has_counted(pair.west, writer), 90)
    for word, counts in counted(pair.west).items():
        assert counts == list(range(1, writer.counts[word] + 1)), word
