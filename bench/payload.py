"""The bytes of records that brokers have sent and taken, by topic: the payload of Fetch and Produce.

Kafka counts them (`BytesOutPerSec` and `BytesInPerSec` of BrokerTopicMetrics), those between brokers apart. They are
read through JMX, which is switched on in the running broker; a small JVM of our own asks, because JMX speaks Java.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from tanist.domain.errors import MissingDependency
from tanist.spark_submit.jars import java

if TYPE_CHECKING:
    from types import TracebackType

    from tanist_testkit.sandbox.cluster import SandboxCluster

_FETCHED: Final = "BytesOutPerSec"
_PRODUCED: Final = "BytesInPerSec"


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes of records of one topic at one cluster: `fetched` by clients, and `produced`."""

    fetched: int
    produced: int

    def __sub__(self, before: Payload) -> Payload:
        return Payload(self.fetched - before.fetched, self.produced - before.produced)


class PayloadCounter:
    """Asks the brokers of several clusters; use it as a context."""

    def __init__(self) -> None:
        port, token = launch_gateway(classpath="", javaopts=[], java_path=java(), die_on_exit=True, enable_auth=True)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        self._brokers: dict[str, list[Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._gateway.shutdown()

    def payload(self, cluster: SandboxCluster, topic: str) -> Payload:
        """Of `topic` since the brokers of `cluster` have started.

        Raises:
            MissingDependency: this Java cannot switch JMX on: it is no JDK.
        """
        if cluster.name not in self._brokers:
            self._brokers[cluster.name] = [self._connected(each.pid) for each in cluster.brokers]
        return Payload(
            *(
                sum(self._count(broker, name, topic) for broker in self._brokers[cluster.name])
                for name in (_FETCHED, _PRODUCED)
            )
        )

    def _connected(self, pid: int | None) -> Any:
        jvm = self._gateway.jvm
        try:
            machine = jvm.com.sun.tools.attach.VirtualMachine.attach(str(pid))
        except (Py4JError, TypeError) as missing:
            raise MissingDependency(
                f"JMX of broker {pid} cannot be switched on; it takes a JDK: {missing}"
            ) from missing
        address = jvm.javax.management.remote.JMXServiceURL(machine.startLocalManagementAgent())
        machine.detach()
        return jvm.javax.management.remote.JMXConnectorFactory.connect(address).getMBeanServerConnection()

    def _count(self, broker: Any, name: str, topic: str) -> int:
        metric = f"kafka.server:type=BrokerTopicMetrics,name={name},topic={topic}"
        bean = self._gateway.jvm.javax.management.ObjectName(metric)
        return int(broker.getAttribute(bean, "Count")) if broker.isRegistered(bean) else 0
