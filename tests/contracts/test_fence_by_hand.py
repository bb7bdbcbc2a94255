"""The commands that lift a source fence without us, run with Kafka's own tools against real brokers."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.acls import AclBinding
from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus, commands_to_lift
from tanist.kafka.adapters.fencing import KafkaFencing
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.admin import create_acls
from tanist.kafka.wire.router import Router
from tanist.ports.topics import NewTopic
from tanist.spark_submit.jars import Module, java
from tanist_testkit.sandbox.jars import KAFKA, KAFKA_VERSION, class_path
from tests.contracts.reached import SOON, wait_until
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tanist.domain.endpoint import Endpoint
    from tanist_testkit.sandbox.cluster import SandboxCluster


TOOLS: Final = Module("org.apache.kafka", "kafka-tools", KAFKA_VERSION)
MAIN: Final = {
    "kafka-acls.sh": (TOOLS, "org.apache.kafka.tools.AclCommand"),
    "kafka-configs.sh": (KAFKA, "kafka.admin.ConfigCommand"),
}
"""What the scripts of a Kafka installation start."""


def run(command: str) -> None:
    script, *arguments = shlex.split(command)
    module, main = MAIN[script]
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path(module))
    done = subprocess.run([java(), *options, main, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def login(endpoint: Endpoint, file: Path) -> str:
    """A property file of Kafka's tools."""
    assert endpoint.sasl is not None
    sasl = endpoint.sasl
    module = "plain.Plain" if sasl.mechanism == "PLAIN" else "scram.Scram"
    given = f'username="{sasl.username}" password="{sasl.password.reveal()}"'
    file.write_text(
        f"security.protocol={endpoint.security_protocol}\nsasl.mechanism={sasl.mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required {given};\n"
    )
    return str(file)


def fenced(fencing: KafkaFencing, topics: Sequence[str]) -> Mapping[str, FenceBefore]:
    """What there was before the fence, which stands now."""
    found = fencing.snapshot(topics, SOON(10))
    before = {name: each for name, each in found.items() if isinstance(each, FenceBefore)}
    assert fencing.apply(list(before.values()), SOON(10)) == dict.fromkeys(topics)
    wait_until(lambda: fencing.fence_status(list(before.values()), SOON(10)) == dict.fromkeys(topics, True))
    return before


@pytest.mark.parametrize("kind", [FenceKind.TINY_MESSAGES, pytest.param(FenceKind.DENY_WRITE, marks=pytest.mark.long)])
def test_the_printed_commands_put_back_exactly_what_was_there(
    kind: FenceKind, request: pytest.FixtureRequest, topic_name: str, tmp_path: Path
) -> None:
    """Pasted one by one; a fence of another topic and a rule that was there before stay."""
    denies = kind is FenceKind.DENY_WRITE
    cluster: SandboxCluster = (
        request.getfixturevalue("guarded") if denies else request.getfixturevalue("clusters")["west"]
    )
    endpoint = cluster.endpoint_for("admin") if denies else cluster.endpoint()
    config = login(endpoint, tmp_path / "admin.properties") if denies else ""
    own, plain, kept = (f"{topic_name}-{which}" for which in ("own", "plain", "kept"))
    with ExitStack() as stack:
        topics = stack.enter_context(over(KafkaTopics, endpoint))
        fencing = stack.enter_context(over(KafkaFencing, endpoint))
        limit = {own: {"max.message.bytes": "5000"}}
        new = [
            NewTopic(name=t, partitions=1, replication_factor=1, configs=limit.get(t, {})) for t in (own, plain, kept)
        ]
        assert topics.create(new, SOON(20)) == dict.fromkeys((own, plain, kept))
        if denies:  # a topic that no ACL matches is never fenced by one
            router = stack.enter_context(Router(endpoint, "tanist-test"))
            read = [AclBinding(2, t, 3, "User:reader", "*", 3, 3) for t in (own, plain, kept)]
            assert create_acls(router, read, SOON(20)) == [None] * len(read)
            wait_until(lambda: fencing.snapshot([own], SOON(10))[own] == FenceBefore(topic=own, kind=kind))
        untouched = fenced(fencing, [kept])
        before = fenced(fencing, [own, plain])
        held = [
            FencedTopic(topic=t, status=FenceStatus.PROVED, wanted_by="p", before=each) for t, each in before.items()
        ]
        for command in commands_to_lift(held, ",".join(map(str, endpoint.bootstrap)), config):
            run(command)
        wait_until(lambda: fencing.snapshot([own, plain], SOON(10)) == before)
        assert fencing.fence_status(list(untouched.values()), SOON(10)) == {kept: True}
