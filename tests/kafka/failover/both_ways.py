"""A mirror that is led to and fro: fetchers, commands, failovers and reversals, with either cluster as destination."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.admin import AdminClient

from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Answer, KafkaSide, Pair

KILLED: Final = "tests.kafka.failover.killed_reversal:main"
LAG: Final = ("--for", "lag=0", "--timeout", "200s")


def begin(pair: Pair, destination: str) -> None:
    """A fetcher of a destination."""
    where = ("--config", pair.environment()["TANIST_CONFIG"], "--destination", destination, "--id", f"at-{destination}")
    argv = [sys.executable, "-m", "tanist.cli.main", "fetcher", "run", *where]
    pair.workers[destination] = pair.guardian.spawn(argv, pair.home / f"{destination}.log")


def tanist(pair: Pair, at: str, *arguments: str, user: str = "mirror", expected: int | None = 0) -> Answer:
    """The command line, with the destination `at`."""
    return pair.tanist(*arguments, user=user, at=at, expected=expected)


def fail_over(pair: Pair, mirror: str, to: str, mode: str = "planned", *, copied: str = "lag=0") -> None:
    """`copied`: what is waited for before; under producers `lag=0` may never be."""
    tanist(pair, to, "mirrors", "wait", mirror, "--for", copied, "--timeout", "200s")
    plan = tanist(pair, to, "failover", "plan", mirror, "--mode", mode, "--json").item["plan_hash"]
    tanist(pair, to, "failover", "approve", mirror, plan, "--mode", mode, "--reason", "drill", user="approver")
    done = tanist(pair, to, "failover", "run", mirror, "--plan", plan, *QUICK).item
    assert done["status"] == "DONE"


def reverse(pair: Pair, mirror: str, at: str, *options: str) -> dict[str, Any]:
    """Plan, approve and run; `at`: the present destination."""
    plan = tanist(pair, at, "mirrors", "reverse", mirror, *options, "--dry-run", "--json").item
    approval = ("--approve", plan["plan_hash"], "--reason", "drill")
    tanist(pair, at, "mirrors", "reverse", mirror, *options, *approval, user="approver")
    until(lambda: _is_reversed(pair, mirror, at, *options), 60)
    return plan


def _is_reversed(pair: Pair, mirror: str, at: str, *options: str) -> bool:
    """A worker that sets source fences may hold the mirror's lock: then the error says to run the command again."""
    done = tanist(pair, at, "mirrors", "reverse", mirror, *options, "--json", expected=None)
    if "MIRROR_LOCKED" in done.err:
        return False
    assert done.code == 0, done.err
    assert done.item["changed"] is True
    return True


def records(side: KafkaSide, topic: str) -> list[tuple[int, int, bytes | None]]:
    return side.read(topic, isolation="read_committed")


def delete(side: KafkaSide, topic: str) -> None:
    client = AdminClient(side.client("admin"))
    client.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in client.list_topics(timeout=10).topics, 20)
