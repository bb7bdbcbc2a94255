"""One topic of thirty is FAILED: the others are failed over, and it is repaired, with the documented commands."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, running, take
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Answer, Pair

pytestmark = pytest.mark.long
MIRROR: Final = "dr"
TOPICS: Final = tuple(f"t{n:02}" for n in range(30))
BROKEN: Final = "t07"
A_TOPIC: Final = 10
"""Partitions."""
MOST_COMMANDS: Final = 12
"""Two of them are Kafka's own."""
MOST_SECONDS: Final = 120.0
"""Of everything; two proofs of source fences of 10 s are part of it."""


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running(guardian, client_config, tmp_path_factory.mktemp("thirty")) as pair:
        yield pair


@dataclass
class Operator:
    """Types the documented commands, one after the other; `typed` has each with its seconds."""

    pair: Pair
    typed: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def by_hand(self, command: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.typed.append((command, time.monotonic() - began))

    def tanist(self, command: str, user: str = "mirror", expected: int = 0) -> Answer:
        with self.by_hand(command):
            words = shlex.split(command.replace(" --destination west", ""))[1:]
            return self.pair.tanist(*words, user=user, expected=expected)

    def approves(self, answer: Answer) -> str:
        """The hash of the plan that was shown, once the approver has typed what it prints."""
        item = json.loads(answer.out)["items"][0]
        self.tanist(item["approve"], user="approver")
        return str(item["plan_hash"])

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.typed)


def test_one_failed_topic_of_thirty_holds_up_neither_the_others_nor_their_fences(own: Pair) -> None:
    """Its repair had lifted the source fences of all thirty, and no command set one again."""
    copied_with_one_failure(own)
    operator = Operator(own)
    blocked = operator.tanist(f"tanist failover plan {MIRROR} --json", expected=1)
    found = {each["name"]: each["detail"] for each in json.loads(blocked.out)["items"][0]["limitations"]}
    others = re.search(r"the other topics with `([^`]*)`", found["PARTITION_NO_COPY"])
    assert others is not None
    plan = operator.approves(operator.tanist(f"{others[1]} --json"))
    operator.tanist(f"tanist failover run {MIRROR} --plan {plan}")
    failed_over = len(operator.typed), operator.seconds
    assert all(own.west.writes(topic, range(1), partitions=1) for topic in ("t00", "t29"))

    operator.approves(operator.tanist(f"tanist mirrors remove {MIRROR} --topic {BROKEN} --dry-run --json"))
    operator.tanist(f"tanist mirrors remove {MIRROR} --topic {BROKEN} --although-it-answers")
    client = AdminClient(own.west.client("admin"))
    with operator.by_hand(f"kafka-topics.sh --delete --topic {BROKEN}"):
        client.delete_topics([BROKEN])[BROKEN].result(20)
    operator.tanist(f"tanist fence lift {MIRROR} --promoted --topic {BROKEN}")
    with operator.by_hand(f"kafka-acls.sh --remove --topic {BROKEN} ..."):
        login = own.west.cluster.spec.principal("mirror")
        take(own.west.cluster, AclBinding(TOPIC, BROKEN, LITERAL, login, "*", WRITE, DENY))
    operator.tanist(f"tanist mirrors add {MIRROR} --topic {BROKEN} --promoted")
    operator.tanist(f"tanist mirrors wait {MIRROR} --topic {BROKEN} --for lag=0 --timeout 60s")
    _print(operator, failed_over)

    assert own.west.read(BROKEN, A_TOPIC) == own.east.read(BROKEN, A_TOPIC)
    assert own.east.writes(BROKEN, range(1), partitions=1)
    assert not any(own.east.writes(topic, range(1), partitions=1) for topic in ("t00", "t29"))
    fences = next(each for each in _status(own)["checks"] if each["name"] == "fences")
    assert fences["verdict"] == "PASS", fences
    assert len(operator.typed) <= MOST_COMMANDS
    assert operator.seconds < MOST_SECONDS


def copied_with_one_failure(pair: Pair) -> None:
    client = AdminClient(pair.east.client("admin"))
    for made in client.create_topics([NewTopic(name, A_TOPIC) for name in TOPICS]).values():
        made.result(30)
    for topic in TOPICS:
        assert pair.east.writes(topic, range(2 * A_TOPIC), partitions=A_TOPIC)
    pair.worker()
    pair.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", "t[0-9]+", "--timeout", "120s")
    pair.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "120s")
    assert pair.west.writes(BROKEN, range(1), user="admin", partitions=1)
    assert pair.east.writes(BROKEN, range(1), partitions=1)
    describe = ("mirrors", "describe", MIRROR, "--topic", BROKEN, "--json")
    until(lambda: "FOREIGN_WRITE" in pair.tanist(*describe, expected=None).out, 60)


def _status(pair: Pair) -> dict[str, Any]:
    return pair.tanist("status", MIRROR, "--json", expected=None).item


def _print(operator: Operator, failed_over: tuple[int, float]) -> None:
    commands, seconds = failed_over
    lines = [f"{each:7.1f} s  {command}" for command, each in operator.typed]
    lines.append(f"29 topics are failed over after {commands} commands and {seconds:.1f} s; ")
    lines.append(f"{BROKEN} is repaired after {len(operator.typed)} and {operator.seconds:.1f} s")
    sys.stderr.write("\n".join(lines) + "\n")
