"""Client certificates on both sides: the name that is denied, that approves, and that brokers judge by."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.failover.evidence import from_json
from tests.kafka.failover.conftest import CERTIFICATES, Pair, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
"""The rule itself has unit tests; here it is about real certificates."""
QUICK = ("--fence-proof", "1s", "--drain", "30s", "--json")
UNBOUND = "MIRROR_CANNOT_BE_SHUT_OUT"


@pytest.fixture(scope="module")
def certified(
    guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("certified")
    with running(guardian, client_config, home, source=CERTIFICATES) as pair:
        yield pair


def limitations(pair: Pair, mirror: str) -> set[str]:
    planned = pair.tanist("failover", "plan", mirror, "--mode", "planned", "--json").item
    return {each["name"] for each in planned["limitations"]}


def principal(pair: Pair) -> dict[str, str]:
    """What the doctor says of who we are at the destination."""
    found = json.loads(pair.tanist("doctor", "--json", expected=None).out)["items"]
    return next(dict(row) for row in found if row["check"] == "principal on west")


def opened(pair: Pair, plan: str) -> dict[str, Any]:
    """What the evidence says of who may write."""
    text = (pair.home / "evidence" / plan / "evidence.json").read_text()
    return dict(from_json(text).found("open"))


def test_the_mirrors_certificate_is_shut_out_and_an_approval_names_the_approvers(certified: Pair) -> None:
    """It wrote on after it was reported as shut out, and the approval said UNPROTECTED."""
    certified.worker()
    certified.mirror("tls", "paid")
    assert not limitations(certified, "tls") & {UNBOUND, "UNPROTECTED"}
    plan = certified.approved("tls")
    done = certified.tanist("failover", "run", "tls", "--plan", plan, *QUICK).item
    assert (done["status"], done["approver"]) == ("DONE", "CN=approver,OU=Tanist sandbox")
    assert certified.west.writes("paid", range(100, 104))
    assert not certified.west.writes("paid", range(1), user="mirror")
    assert not certified.east.writes("paid", range(1))
    reported = opened(certified, plan)
    assert reported["mirror"] == ["User:CN=mirror,OU=Tanist sandbox"]
    assert (reported["shut_out"], reported["not_shut_out"]) == (["paid"], [])
    assert reported["proof"] == "authorized operations of this login"
    who = principal(certified)
    assert who["verdict"] == "PASS"
    assert who["observed"] == "User:CN=mirror,OU=Tanist sandbox, from the client certificate"


def test_a_super_users_certificate_is_never_called_shut_out(certified: Pair) -> None:
    """It is denied by name and writes all the same: accepted by name, or there is no failover."""
    certified.dismiss()
    supers = replace(certified, mirror_user="admin", workers={}, home=certified.home / "super")
    supers.home.mkdir()
    supers.worker("supers")
    supers.mirror("above", "owed")
    who = principal(supers)
    assert who["verdict"] == "FAIL"
    assert "no ACL allows User:CN=admin,OU=Tanist sandbox to write to" in who["reason"]
    until(lambda: UNBOUND in limitations(supers, "above"), 30)
    plan = supers.approved("above")
    done = supers.tanist("failover", "run", "above", "--plan", plan, *QUICK).item
    supers.dismiss()
    assert done["status"] == "DONE"
    assert supers.west.writes("owed", range(100, 104))
    assert supers.west.writes("owed", range(104, 106), user="admin")
    reported = opened(supers, plan)
    assert (reported["shut_out"], reported["not_shut_out"]) == ([], ["owed"])


def test_the_login_of_a_dead_worker_counts_until_the_worker_is_forgotten(certified: Pair) -> None:
    """It left the limitations once another worker had reported for a minute: a frozen worker could write again."""
    supers = replace(certified, mirror_user="admin", workers={}, home=certified.home / "silent")
    supers.home.mkdir()
    supers.worker("silent")
    supers.mirror("kept", "kept")
    until(lambda: UNBOUND in limitations(supers, "kept"), 30)
    supers.dismiss()
    certified.worker("after")
    certified.tanist("mirrors", "wait", "kept", "--for", "lag=0", "--timeout", "200s")
    assert "WORKER_RUNS" in certified.tanist("fetcher", "forget", "silent", expected=1).err

    found = json.loads(certified.tanist("state", "dump", "--key", "worker/", "--json").out)["items"]
    workers = [each["value"] for each in found]
    ended = [each["worker"] for each in workers if each["principal"] == "User:CN=admin,OU=Tanist sandbox"]
    assert "silent" in ended
    assert UNBOUND in limitations(certified, "kept")
    until(lambda: certified.tanist("fetcher", "forget", *ended, expected=None).code == 0, 60)
    assert UNBOUND not in limitations(certified, "kept")
    assert "UNKNOWN_WORKER" in certified.tanist("fetcher", "forget", "silent", expected=1).err
