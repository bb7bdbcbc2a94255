"""Producers of the source who could not write after the switch are named; what `open` gives is on record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.acl_entries import AclEntry
from tanist.domain.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResource
from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Mode, Readiness, Verdict
from tanist.domain.names import SourceOffset, SourcePartition
from tanist.domain.records import GROUPS_TOPIC, GroupPosition, RunStatus
from tanist.usecases.command import Silence
from tanist.usecases.failover import status
from tests.builders import DR
from tests.fakes.state import WORKER, MemoryStateStore
from tests.unit.usecases.failover.in_memory import WRITER, FailoverWorld, Killed

if TYPE_CHECKING:
    from tanist.domain.checks import Check

EVE = "User:eve"


def access(world: FailoverWorld) -> Check:
    both = world.clusters().snapshot()
    found = status.checks(both, Silence(world.clock), world.command())
    return next(each for each in found if each.name == "access")


@pytest.mark.parametrize("mode", list(Mode))
def test_a_deny_of_the_destination_has_to_be_accepted_and_is_reported_afterwards(mode: Mode) -> None:
    """GO, DONE, and the producer refused by both clusters."""
    world = FailoverWorld()
    world.west.deny.add(("orders", EVE))
    planned = world.plan(mode)
    (named,) = (each for each in planned.plan.limitations if each.name == "WRITERS_LOCKED_OUT")
    assert named.about == (f"orders: {EVE}",)
    assert planned.word is not Readiness.GO
    assert world.run(world.approve(mode).plan).record.status is RunStatus.DONE
    assert not world.west.may_write("orders", "eve")
    check = access(world)
    assert (check.verdict, f"orders: {EVE}" in check.reason) == (Verdict.FAIL, True)
    world.west.deny.discard(("orders", EVE))
    assert access(world).verdict is Verdict.PASS


@pytest.mark.parametrize("mode", list(Mode))
def test_a_deny_of_the_destination_is_named_where_everybody_may_write_at_the_source(mode: Mode) -> None:
    """No ACL of the source matches the topic: GO, DONE, and the producer refused by both clusters."""
    world = FailoverWorld()
    world.without_acls("orders")
    world.west.deny.add(("orders", EVE))
    (named,) = (each for each in world.plan(mode).plan.limitations if each.name == "WRITERS_LOCKED_OUT")
    assert named.about == (f"orders: {EVE}",)
    assert world.run(world.approve(mode).plan).record.status is RunStatus.DONE
    check = access(world)
    assert (check.verdict, check.reason.partition(";")[0]) == (Verdict.FAIL, f"orders: {EVE}")
    world.west.deny.discard(("orders", EVE))
    assert access(world).verdict is Verdict.PASS, "the mirror's own DENY locks nobody out"


def test_a_deny_that_comes_after_the_approval_stops_the_run_before_it_fences_anybody() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.west.deny.add(("payments", EVE))
    with pytest.raises(NotPermitted, match=f"WRITERS_LOCKED_OUT: .*payments: {EVE}"):
        world.run(plan)
    assert world.source_is_as_it_was()


def test_whom_the_mirror_itself_has_denied_is_not_locked_out() -> None:
    world = FailoverWorld()
    assert "WRITERS_LOCKED_OUT" not in {each.name for each in world.plan().plan.limitations}


def test_what_changed_at_the_source_since_the_last_sync_is_named_while_it_answers() -> None:
    world = FailoverWorld()
    world.east.rules["orders"] = (*world.east.rules["orders"], AclEntry("User:late", "*", allowed=True))
    (named,) = (each for each in world.plan().plan.limitations if each.name == "SOURCE_ACLS_CHANGED")
    assert named.about == ("orders: allow User:late was added",)


@pytest.mark.parametrize("dead", [True, False])
def test_a_source_that_comes_back_with_other_acls_voids_no_unplanned_failover(dead: bool) -> None:
    world = FailoverWorld()
    world.east.dead = True
    approved = world.approve(Mode.UNPLANNED).plan
    world.east.rules["orders"] = (*world.east.rules["orders"], AclEntry("User:late", "*", allowed=True))
    world.east.dead = dead
    assert "SOURCE_ACLS_CHANGED" not in {each.name for each in world.plan(Mode.UNPLANNED).plan.limitations}
    assert world.run(approved, although_it_answers=True).record.status is RunStatus.DONE


def test_what_open_gives_is_on_record_before_it_exists() -> None:
    """A run that dies in between, and is continued, gives the same: that is no ACL of the cluster by itself."""
    world = FailoverWorld()
    plan = world.approve().plan

    def die(point: str) -> None:
        if point == "open:stored":
            raise Killed

    with pytest.raises(Killed):
        world.run(plan, die)
    stored = world.west.view("__mirror_state").topic(DR, "orders")
    assert stored is not None
    assert stored.given == (WRITER,)
    assert not world.west.given
    assert world.run(plan).record.status is RunStatus.DONE
    again = world.west.view("__mirror_state").topic(DR, "orders")
    assert again is not None
    assert again.given == (WRITER,)
    assert ("orders", WRITER) in world.west.given


# ── who may read ──────────────────────────────────────────────────────────────────────────────────────────────────

READER = "User:reader"


def reads(kind: AclResource, name: str) -> AclBinding:
    return AclBinding(kind, name, AclPattern.LITERAL, READER, "*", AclOperation.READ, AclPermission.ALLOW)


GROUP, TOPIC = reads(AclResource.GROUP, "billing"), reads(AclResource.TOPIC, "orders")


def read_by_a_group() -> FailoverWorld:
    """A reader of the source, whose group has a position."""
    world = FailoverWorld()
    at = SourcePartition("orders", 0)
    position = GroupPosition(mirror=DR, group="billing", partition=at, offset=SourceOffset(3), at=world.clock.now())
    MemoryStateStore(world.west, GROUPS_TOPIC, WORKER).append([position], world.soon())
    world.east.bindings = {GROUP, TOPIC}
    return world


def test_a_reader_of_the_source_who_may_not_read_at_the_destination_is_named() -> None:
    """S3.7. With the way on; the verdict on a failover stays, as ACLs do not show everything."""
    world = read_by_a_group()
    check = access(world)
    assert check.verdict is Verdict.FAIL
    assert check.observed.endswith("; 1 reader(s) of the source may not read at the destination, as far as ACLs show")
    assert f"{READER} (group billing): group billing, topic orders; `tanist mirrors alter dr" in check.reason
    assert "super users, roles and IAM are not visible" in check.limit
    assert world.plan(Mode.PLANNED).word is Readiness.GO
    world.west.bindings = {GROUP, TOPIC}
    assert access(world).verdict is Verdict.PASS


def test_without_groups_nobody_reads_and_without_an_authorizer_everybody_may() -> None:
    """S3.7."""
    world = FailoverWorld()
    world.east.bindings = {GROUP, TOPIC}
    assert (access(world).verdict, "reader" in access(world).observed) == (Verdict.PASS, False)
    world = read_by_a_group()
    world.west.authorizer = False
    assert access(world).verdict is Verdict.PASS


@pytest.mark.parametrize("blind", ["east", "west", "silent"])
def test_who_may_read_is_unknown_where_acls_are_not_shown(blind: str) -> None:
    """S3.7. Unknown is never green."""
    world = read_by_a_group()
    world.west.bindings = {GROUP, TOPIC}
    if blind == "silent":
        world.east.dead = True
    else:
        getattr(world, blind).denied.add(("DESCRIBE", "kafka-cluster"))
    assert access(world).verdict is Verdict.UNKNOWN
    assert "who may read is not known" in access(world).observed
