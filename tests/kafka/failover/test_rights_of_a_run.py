"""Logins with least privileges: what a failover lacks is named before it blocks anybody; a refusal ends it at once."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import AclBinding
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.failover.conftest import (
    ALTER,
    CLUSTER,
    DENY,
    DESCRIBE_CONFIGS,
    LITERAL,
    READ,
    TOPIC,
    KafkaSide,
    Pair,
    give,
    take,
)
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator


APPROVALS = "__mirror_approvals"


@contextmanager
def denied(side: KafkaSide, kind: int, name: str, operation: int, user: str = "mirror") -> Iterator[None]:
    rule = AclBinding(kind, name, LITERAL, f"User:{user}", "*", operation, DENY)
    give(side.cluster, rule)
    SystemClock().wait(0.5)  # each broker learns of it by itself
    try:
        yield
    finally:
        take(side.cluster, rule)
        SystemClock().wait(0.5)


@pytest.fixture(scope="module")
def limited(pair: Pair) -> Pair:
    pair.worker()
    pair.mirrors({"limited": ["limited"], "refused": ["refused"]})
    return pair


def failing(pair: Pair, check: str) -> str:
    """The reason of a check of `doctor`, once it FAILs."""

    def reasons() -> dict[str, str]:
        rows = json.loads(pair.tanist("doctor", "--json", expected=None).out)["items"]
        return {row["check"]: row["reason"] for row in rows if row["verdict"] == "FAIL"}

    until(lambda: check in reasons(), 20)
    return reasons()[check]


@pytest.mark.long
def test_without_alter_at_the_source_a_run_does_not_begin(limited: Pair) -> None:
    """It began, tried again for ten minutes in 1,772 lines, and stayed RUNNING; doctor and plan had said GO."""
    plan = limited.approved("limited")
    with denied(limited.east, CLUSTER, "kafka-cluster", ALTER):
        reason = failing(limited, "failover of limited on east")
        assert "missing: ALTER on Cluster kafka-cluster (blocking producers at the source)" in reason
        assert "--operation Alter --cluster" in reason
        began = time.monotonic()
        answer = limited.tanist("failover", "run", "limited", "--plan", plan, expected=1)
        assert time.monotonic() - began < 30
        assert "lacks ALTER on Cluster kafka-cluster, which is needed for blocking producers" in answer.err
    assert json.loads(limited.tanist("failover", "status", "limited", "--json").out)["items"] == []
    assert limited.east.writes("limited", range(2))


@pytest.mark.parametrize(
    ("operation", "named"), [(READ, "READ"), pytest.param(DESCRIBE_CONFIGS, "DESCRIBE_CONFIGS", marks=pytest.mark.long)]
)
def test_a_login_that_may_not_read_approvals_hears_so(limited: Pair, operation: int, named: str) -> None:
    plan = limited.approved("limited")
    with denied(limited.west, TOPIC, APPROVALS, operation):
        assert f"missing: {named} on Topic {APPROVALS}" in failing(limited, "failover of limited on west")
        answer = limited.tanist("failover", "run", "limited", "--plan", plan, expected=1)
        assert "MIRROR_AUTHORIZATION_FAILED" in answer.err
        assert named in answer.err
        assert APPROVALS in answer.err
    assert json.loads(limited.tanist("failover", "status", "limited", "--json").out)["items"] == []


def test_an_approval_that_cannot_be_read_back_is_written(limited: Pair) -> None:
    """`approve` ended with 1, and the run used the approval."""
    plan = limited.tanist("failover", "plan", "limited", "--json").item["plan_hash"]
    with denied(limited.west, TOPIC, APPROVALS, READ, "approver"):
        asked = ("failover", "approve", "limited", plan, "--reason", "drill", "--json")
        answer = limited.tanist(*asked, user="approver")
        assert answer.item["state"] == "unread"
        assert f"READ on topic {APPROVALS}" in answer.item["unread"]
        assert f"warning: it is written (approval {answer.item['approval']})" in answer.err
    done = limited.tanist("failover", "run", "limited", "--plan", plan, "--until", "hold", "--json")
    assert done.item["approval"] == answer.item["approval"]
    limited.tanist("failover", "abort", "limited")


def test_a_step_that_is_refused_ends_the_run_at_once_and_abort_reports_no_fence(limited: Pair) -> None:
    plan = limited.approved("refused")
    limited.tanist("failover", "run", "refused", "--plan", plan, "--until", "hold")
    with denied(limited.east, CLUSTER, "kafka-cluster", ALTER):
        began = time.monotonic()
        answer = limited.tanist("failover", "run", "refused", "--plan", plan, expected=4)
        assert time.monotonic() - began < 30
        assert "step fence was refused" in answer.err
        assert "lacks ALTER on Cluster kafka-cluster" in answer.err
        assert "`tanist failover abort refused --destination west`" in answer.err
        aborted = limited.tanist("failover", "abort", "refused", "--json")
        assert aborted.item["pending"] == []
        assert "warning" not in aborted.err
    assert limited.east.writes("refused", range(2))
