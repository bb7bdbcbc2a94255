"""A mirror whose login rules do not bind: it is never called shut out, and nobody waits for the impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.acl_entries import AclEntry
from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Verdict
from tanist.domain.errors import Interrupted
from tanist.domain.failover.evidence import as_json
from tanist.domain.failover.plan import NOT_SHUT_OUT
from tanist.domain.failover.reasons import OTHERS
from tanist.domain.logins import MirrorLogin
from tanist.domain.records import RunStatus
from tanist.usecases.command import Silence
from tanist.usecases.failover.status import checks
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import DATA, TOPICS, WRITER, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.usecases.failover.run import RunOutcome

SIGN = "no ACL allows User:mirror to write to orders, but this login may: it is a super user, has another principal"


def opened(outcome: RunOutcome) -> dict[str, Any]:
    """What the evidence says of the step."""
    return dict(outcome.evidence.found("open"))


def opening_told(world: FailoverWorld) -> tuple[Verdict, str]:
    """What `tanist status` says of what took over."""
    reported = checks(world.clusters().snapshot(), Silence(world.clock), world.command())
    found = next(each for each in reported if each.name == "openings")
    return found.verdict, found.reason


def limitations(world: FailoverWorld) -> dict[str, bool]:
    return {each.name: each.blocks for each in world.plan().plan.limitations}


def test_a_mirror_that_is_bound_is_proved_to_be_shut_out() -> None:
    world = FailoverWorld()
    assert NOT_SHUT_OUT not in limitations(world)
    reported = opened(world.run(world.approve().plan))
    assert reported["shut_out"] == sorted(TOPICS)
    assert reported["not_shut_out"] == []
    assert not any(world.west.may_write(topic, "mirror") for topic in TOPICS)


def test_a_super_user_is_accepted_by_name_and_never_called_shut_out() -> None:
    """It was denied by name, and reported as shut out; it wrote all the same."""
    world = FailoverWorld(login=MirrorLogin("User:mirror", SIGN))
    world.west.supers.add("mirror")
    assert limitations(world)[NOT_SHUT_OUT] is False
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    reported = opened(outcome)
    assert (reported["shut_out"], reported["not_shut_out"]) == ([], sorted(TOPICS))
    assert all(world.west.may_write(topic, "app") for topic in TOPICS)


def test_a_super_user_that_nobody_saw_leaves_the_run_unfinished_with_producers_at_work() -> None:
    """Nothing spoke against it before; the proof does. Once the login is bound the same run ends."""
    world = FailoverWorld()
    world.west.supers.add("mirror")
    plan = world.approve().plan
    with pytest.raises(Interrupted, match=r"step open failed: MIRROR_CANNOT_BE_SHUT_OUT: .*super\.users"):
        world.run(plan)
    assert all(world.west.may_write(topic, "app") for topic in TOPICS)
    held = world.clusters().destination.open_store("__mirror_state", None, world.soon()).view().failover(DR, plan)
    assert held is not None
    assert held.status is RunStatus.RUNNING
    assert world.sink.kept is not None
    assert "shut_out" not in as_json(world.sink.kept)
    world.west.supers.clear()
    assert world.run(plan).record.status is RunStatus.DONE


def test_the_login_that_copies_is_shut_out_whoever_runs_the_failover() -> None:
    """An administrator's own login was denied instead, and the worker's went on writing."""
    world = FailoverWorld(login=MirrorLogin("User:worker"))
    world.west.supers.add("mirror")  # who runs it is an administrator
    reported = opened(world.run(world.approve().plan))
    assert {(topic, "User:worker") for topic in TOPICS} <= world.west.deny
    assert not {(topic, "User:mirror") for topic in TOPICS} & world.west.deny
    assert reported["mirror"] == ["User:worker"]
    assert reported["proof"].startswith("ACLs only")


def test_without_an_authorizer_nothing_is_said_of_shutting_anybody_out() -> None:
    world = FailoverWorld(authorizer=False, login=MirrorLogin(None))
    assert NOT_SHUT_OUT not in limitations(world)
    assert "shut_out" not in opened(world.run(world.approve().plan))


def test_who_else_may_write_to_a_copy_is_accepted_by_name_or_taken_away() -> None:
    """Whoever may write to a mirror topic can make it something else than a copy between any two looks."""
    world = FailoverWorld()
    assert OTHERS not in limitations(world)
    approved = world.approve().plan
    world.west.rules["orders"] = (WRITER, AclEntry("User:mirror", "*", allowed=True))
    assert limitations(world)[OTHERS] is False
    with pytest.raises(NotPermitted, match=r"OTHERS_MAY_WRITE: .*orders: User:eve"):
        world.run(approved)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE


def test_a_right_that_somebody_gets_while_it_runs_stops_the_run_before_its_point_of_no_return() -> None:
    world = FailoverWorld()

    def meanwhile(point: str) -> None:
        if point == "after:fence":
            world.west.rules["orders"] = (WRITER,)

    with pytest.raises(NotPermitted, match="OTHERS_MAY_WRITE"):
        world.run(world.approve().plan, meanwhile)
    assert not any(at.topic == "orders" and world.west.epochs.get((at, DATA), -1) > 0 for at in world.west.ends)


def test_a_mirror_that_is_let_in_again_is_told_by_status_with_the_command_that_mends_it() -> None:
    """Somebody takes the rule away, or a late command does; a right that was accepted is no failure."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    assert opening_told(world) == (Verdict.PASS, "")
    world.west.deny.discard(("orders", "User:mirror"))
    verdict, reason = opening_told(world)
    assert verdict is Verdict.FAIL
    assert "orders: the mirror's login may write to it" in reason
    assert "kafka-acls.sh --add --deny-principal User:mirror --operation Write --topic orders" in reason
    assert "fetcher forget" not in reason, "without a login nobody would look any more"


def test_that_a_super_user_was_accepted_is_no_failure_for_ever() -> None:
    world = FailoverWorld(login=MirrorLogin("User:mirror", SIGN))
    world.west.supers.add("mirror")
    world.run(world.approve().plan)
    assert opening_told(world) == (Verdict.PASS, "")


def test_of_what_is_mirrored_still_nobody_asks_whether_the_mirror_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 partitions it takes as long as reading all their leaders, and each look of a run asked."""
    world, seen = FailoverWorld(), list[list[str]]()
    kind = type(world.west.side().opening)
    asks = kind.shut_out

    def noting(self: object, topics: Sequence[str], *how: Any, **more: Any) -> Any:
        seen.append([*topics])
        return asks(self, topics, *how, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "shut_out", noting)
    plan = world.approve().plan
    world.run(plan, until="seal")
    assert seen == []
    world.run(plan)
    assert {topic for topics in seen for topic in topics} == set(TOPICS)
