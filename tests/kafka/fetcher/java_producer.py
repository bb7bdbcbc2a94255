"""Apache Kafka's own Java producer, driven by a test, which keeps what the brokers have acknowledged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tanist.kafka.wire.clock import SystemClock
from tanist.spark_submit.jars import java
from tanist_testkit.sandbox.jars import class_path
from tanist_testkit.sandbox.node_command import SHORT_RUN
from tanist_testkit.verify.traces import Place, Trace, Traces, digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import MirrorPartition

SEND_SECONDS: Final = 30
_BYTES: Final = "org.apache.kafka.common.serialization.ByteArraySerializer"
_BASE: Final = {
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "delivery.timeout.ms": "20000",
    "request.timeout.ms": "10000",
    "max.block.ms": "20000",
    "linger.ms": "0",
}


class JavaProducer:
    """One KafkaProducer with `linger.ms=0`. `close` it."""

    def __init__(self, gateway: JavaGateway, settings: dict[str, str]) -> None:
        self._gateway = gateway
        config = gateway.jvm.java.util.Properties()
        for name, value in (_BASE | settings).items():
            config.setProperty(name, value)
        self.client: Any = gateway.jvm.org.apache.kafka.clients.producer.KafkaProducer(config)
        self.acknowledged: Traces = {}
        self._time = SystemClock().now()  # what is older than retention.ms may go at any time
        self._sent: list[tuple[Place, int, Any]] = []

    def send(self, at: MirrorPartition, number: int) -> None:
        """One record with key, value, header and time; every tenth without a key."""
        key = None if number % 10 == 0 else b"k%d" % (number % 7)
        value, time = b"value %d" % number, self._time + number
        headers = self._gateway.jvm.org.apache.kafka.common.header.internals.RecordHeaders()
        headers.add("n", b"%d" % number)
        kind = self._gateway.jvm.org.apache.kafka.clients.producer.ProducerRecord
        future = self.client.send(kind(at.topic, at.partition, time, key, value, headers))
        self._sent.append((Place(at.topic, at.partition), digest(key, value, [("n", b"%d" % number)], time), future))

    def keep(self) -> None:
        """Wait until all that was sent is acknowledged, and keep it."""
        seconds = self._gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
        for place, what, future in self._sent:
            self.acknowledged.setdefault(place, Trace()).add(future.get(SEND_SECONDS, seconds).offset(), what)
        self._sent.clear()

    def commit(self) -> None:
        self.client.commitTransaction()
        self.keep()

    def abort(self) -> None:
        """Nothing of the transaction is kept; what is on its way is written first, so that there is something."""
        self.client.flush()
        self.client.abortTransaction()
        self._sent.clear()

    def close(self) -> None:
        self.client.close(self._gateway.jvm.java.time.Duration.ofSeconds(SEND_SECONDS))


class JavaProducers:
    """The producers of one Java process."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway = gateway

    @contextmanager
    def open(self, servers: str, **settings: str) -> Iterator[JavaProducer]:
        """A producer; keys have '_' for '.'. With a transactional id it is initialised."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        producer = JavaProducer(self._gateway, {"bootstrap.servers": servers, **named})
        try:
            if "transactional.id" in named:
                producer.client.initTransactions()
            yield producer
        finally:
            producer.close()


@contextmanager
def java_producers() -> Iterator[JavaProducers]:
    """A Java process with the clients of the brokers' release; it ends with this one, however that ends."""
    port, token = launch_gateway(
        classpath=class_path(),
        javaopts=[*SHORT_RUN, "-Xmx128m"],
        java_path=java(),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield JavaProducers(gateway)
    finally:
        gateway.shutdown()
