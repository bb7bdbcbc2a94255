"""ACLs that follow the source, over clusters in memory: rules of a mirror, sync, and deletion by an approved plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.acl_entries import AclEntry
from tanist.domain.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResource
from tanist.domain.approval.entries import APPROVALS_TOPIC, ApprovalUsed, FourEyes, NotApproved
from tanist.domain.errors import MirrorExists, TanistError, TimedOut
from tanist.domain.metadata import MIRROR_WIDE, Change, Kind, Outcome
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import Selection
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.metadata.compare import MetadataRequest, diff
from tanist.usecases.metadata.deleting import (
    AclsAt,
    AnotherDeletion,
    NoAclsToDelete,
    approve_deletion,
    delete,
    delete_at_once,
    plan_deletion,
)
from tanist.usecases.metadata.sync import sync
from tanist.usecases.mirrors import desire
from tanist.usecases.mirrors.administer import Alteration, alter
from tanist.usecases.mirrors.create import CreateRequest, create
from tests.builders import a_command
from tests.fakes.acls import MemoryAcls
from tests.fakes.counting import Questions
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.metadata import MetadataRow
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline

TERMS: Final = ApprovalTerms(reason="they left", valid_for_ms=60_000)


def reads(name: str, who: str = "User:app", kind: AclResource = AclResource.TOPIC) -> AclBinding:
    return AclBinding(kind, name, AclPattern.LITERAL, who, "*", AclOperation.READ, AclPermission.ALLOW)


TOPIC, GROUP = reads("orders"), reads("readers", kind=AclResource.GROUP)


class Pair:
    """East mirrored to west; both have authorizers, and ACLs follow."""

    def __init__(self, rules: tuple[str, ...] | None = ("*",), principals: tuple[str, ...] = ()) -> None:
        self.east = GuardedCluster("east").with_topic("orders", 1, 10).with_topic("bills")
        self.west = GuardedCluster("west")
        self.west.with_topic(APPROVALS_TOPIC)
        self.east.bindings = {TOPIC, GROUP}
        self.request = CreateRequest(mirror="dr", include=("orders|bills",), acl_rules=rules, acl_principals=principals)
        create(self.request, self.east.side(), self.west.side(), a_command())
        self.west.calls.clear()

    @property
    def spec(self) -> MirrorSpec:
        (found,) = self.west.view(STATE_TOPIC).mirrors()
        return found

    def sync(self, *topics: str, dry_run: bool = False) -> tuple[MetadataRow, ...]:
        request = MetadataRequest(mirror="dr", include=topics or (".*",))
        command = a_command(self.west.clock, dry_run=dry_run)
        return sync(request, self.west.side(), lambda _: self.east.side(), command).rows

    def plan(self) -> AclsAt:
        return plan_deletion("dr", self.west.side(), lambda _: self.east.side(), a_command(self.west.clock))

    def approve(self, plan: str) -> None:
        approve_deletion(plan, self.plan(), a_command(self.west.clock), terms=TERMS)

    def delete(self, plan: str, *, dry_run: bool = False) -> tuple[MetadataRow, ...]:
        command = a_command(self.west.clock, dry_run=dry_run)
        return delete(plan, self.plan(), lambda _: self.east.side(), command)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def verdicts(rows: tuple[MetadataRow, ...]) -> set[tuple[str, str]]:
    return {(str(row.change), str(row.verdict)) for row in rows}


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mirror_follows_no_acls_unless_it_has_rules() -> None:
    """S3.7. A right at another cluster is given by a person; and nobody asks for ACLs of the source."""
    pair = Pair(rules=None)
    assert pair.spec.acl_rules == ()
    assert pair.sync() == ()
    assert not pair.west.bindings
    assert not create(pair.request, pair.east.side(), pair.west.side(), a_command()).changed
    altered = alter("dr", Alteration(acl_rules=("GROUP",)), pair.west.side(), a_command())
    assert altered.spec == pair.spec
    assert altered.changed
    pair.sync()
    assert pair.west.bindings == {GROUP}
    with pytest.raises(MirrorExists, match=r"acl_rules GROUP, not \*"):
        create(replace(pair.request, acl_rules=("*",)), pair.east.side(), pair.west.side(), a_command())


@pytest.mark.parametrize(("rules", "principals"), [(("TOPIC;(",), None), (None, ("User:a=User:c", "User:b=User:c"))])
def test_rules_that_cannot_be_read_change_nothing(
    rules: tuple[str, ...] | None, principals: tuple[str, ...] | None, pair: Pair
) -> None:
    """S3.7."""
    before = pair.spec
    with pytest.raises(TanistError, match="--acl"):
        alter("dr", Alteration(acl_rules=rules, acl_principals=principals), pair.west.side(), a_command())
    request = CreateRequest(mirror="d2", include=("x",), acl_rules=rules, acl_principals=principals)
    with pytest.raises(TanistError, match="--acl"):
        create(request, pair.east.side(), pair.west.side(), a_command())
    assert pair.spec == before


# ── sync ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_missing_is_shown_then_created_once(pair: Pair) -> None:
    """S3.7. It is on record before it is created."""
    compared = diff(MetadataRequest(mirror="dr"), pair.west.side(), lambda _: pair.east.side(), a_command())
    assert {row.name for row in compared.rows} == {
        "allow User:app READ on topic orders",
        "allow User:app READ on group readers",
    }
    assert verdicts(pair.sync(dry_run=True)) == {("create", "DIFFERS")}
    assert not pair.west.bindings
    assert verdicts(pair.sync()) == {("create", "CHANGED")}
    assert pair.west.bindings == {TOPIC, GROUP}
    assert pair.west.calls == [
        "append acls/dr/GROUP/LITERAL/readers, acls/dr/TOPIC/LITERAL/orders",
        "create 2 ACLs",
    ]
    assert pair.sync() == ()


def test_killed_before_the_acls_were_created_the_next_sync_creates_them(pair: Pair) -> None:
    """S3.7."""
    pair.sync()
    pair.west.bindings = set()
    assert verdicts(pair.sync()) == {("create", "CHANGED")}
    assert pair.west.bindings == {TOPIC, GROUP}


def test_a_login_that_may_not_create_acls_is_told_which_right_it_lacks(pair: Pair) -> None:
    """S3.7. Topics go on being followed."""
    pair.west.denied.add(("ALTER", "kafka-cluster"))
    pair.east.topics["orders"] = replace(pair.east.topics["orders"], partitions=3)
    rows = pair.sync()
    assert verdicts(rows) == {("create", "FAILED"), ("grow", "CHANGED")}
    assert all("lacks ALTER on Cluster kafka-cluster" in row.reason for row in rows if row.change is Change.CREATE)


def test_a_login_that_may_not_see_acls_of_the_source_is_told_so(pair: Pair) -> None:
    """S3.7."""
    pair.east.denied.add(("DESCRIBE", "kafka-cluster"))
    found = {row.reason for row in pair.sync() if row.verdict is Outcome.UNKNOWN and row.name == "ACLs"}
    assert len(found) == 1
    assert "lacks DESCRIBE on Cluster kafka-cluster" in found.pop()


def test_a_sync_of_some_topics_leaves_groups_alone(pair: Pair) -> None:
    """S3.7."""
    assert verdicts(pair.sync("orders")) == {("create", "CHANGED")}
    assert pair.west.bindings == {TOPIC}
    assert pair.sync("bills") == ()


def test_a_paused_mirror_follows_no_acls(pair: Pair) -> None:
    """S3.7."""
    desire.set_desired("dr", Selection((".*",)), desire.paused, pair.west.side(), a_command())
    assert {row.verdict for row in pair.sync()} == {Outcome.SKIPPED}
    assert not pair.west.bindings


def test_the_acls_of_each_cluster_are_read_once_a_look(pair: Pair) -> None:
    """S3.7. Whatever kinds of things are decided by them."""
    asked = Questions()
    east, west = asked.of(pair.east.side()), asked.of(pair.west.side())
    diff(MetadataRequest(mirror="dr"), west, lambda _: east, a_command())
    assert {name: asked.calls[f"{name} acls.read"] for name in ("east", "west")} == {"east": 1, "west": 1}


def test_who_may_write_after_a_failover_has_the_name_of_the_destination() -> None:
    """S3.7. Of a principal whose name the table gives to another one nothing is stored."""
    app, eve = (AclEntry(f"User:{who}", "*", allowed=True) for who in ("app", "eve"))
    pair = Pair(principals=("User:app=User:app-dr",))
    pair.east.rules["orders"] = (app, eve)
    assert {(str(row.kind), row.source) for row in pair.sync("orders") if row.kind is Kind.ACL} == {
        ("acl", "allow User:app-dr, allow User:eve")
    }
    assert "acl" not in {str(row.kind) for row in pair.sync()}
    alter("dr", Alteration(acl_principals=("User:app=User:eve",)), pair.west.side(), a_command())
    (row,) = (row for row in pair.sync("orders") if row.kind is Kind.ACL)
    assert row.source == "allow User:eve"
    stored = pair.west.view(STATE_TOPIC).topic(pair.spec.mirror, "orders")
    assert stored is not None
    assert stored.deferred_acls == (AclEntry("User:eve", "*", allowed=True),)


def test_a_sync_that_only_created_acls_announced_that_nothing_changes(pair: Pair) -> None:
    """S3.7. It said `change no topic`."""
    said: list[list[str]] = []
    command = replace(a_command(pair.west.clock), announce=lambda names: said.append([*names]))
    for _ in range(2):
        sync(MetadataRequest(mirror="dr"), pair.west.side(), lambda _: pair.east.side(), command)
    assert said == [[MIRROR_WIDE], []]


@pytest.mark.parametrize(("does", "refused"), [("create", AclPermission.DENY), ("delete", AclPermission.ALLOW)])
def test_an_allowance_was_there_without_its_denial_where_brokers_refused_one_of_them(
    does: str, refused: AclPermission, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3.7. What failed is done by the same again."""
    denial = TOPIC._replace(principal="User:*", host="10.0.0.9", permission=AclPermission.DENY)
    pair.east.bindings.add(denial)
    if does == "delete":
        pair.sync()
        pair.east.bindings = {GROUP}
        pair.approve(pair.plan().plan.hash)
    before = set(pair.west.bindings)
    real = getattr(MemoryAcls, does)

    def refuses(self: MemoryAcls, due: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        failed = {each: TimedOut("west") for each in due if each.permission == refused}
        return {**real(self, [each for each in due if each not in failed], by), **failed}

    monkeypatch.setattr(MemoryAcls, does, refuses)
    plan = pair.plan().plan.hash
    rows = pair.delete(plan) if does == "delete" else pair.sync()
    assert {str(row.verdict) for row in rows} == {"FAILED"}
    assert pair.west.bindings == before
    monkeypatch.setattr(MemoryAcls, does, real)
    rows = pair.delete(plan) if does == "delete" else pair.sync()
    assert {str(row.verdict) for row in rows} == {"CHANGED"}
    assert pair.west.bindings == ({GROUP} if does == "delete" else {TOPIC, GROUP, denial})


# ── deletion ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_has_gone_is_deleted_only_by_an_approved_plan(pair: Pair) -> None:
    """S3.7. And only what the mirror has created."""
    theirs = reads("orders", "User:dba")
    pair.west.bindings.add(theirs)
    pair.sync()
    pair.east.bindings = {TOPIC}
    assert verdicts(pair.sync()) == {("delete", "CONFLICT")}
    assert GROUP in pair.west.bindings
    plan = pair.plan().plan
    assert plan.acls == (GROUP,)
    with pytest.raises(NotApproved):
        pair.delete(plan.hash)
    with pytest.raises(AnotherDeletion):
        pair.approve("0" * 16)
    pair.approve(plan.hash)
    assert verdicts(pair.delete(plan.hash, dry_run=True)) == {("delete", "DIFFERS")}
    assert GROUP in pair.west.bindings
    assert verdicts(pair.delete(plan.hash)) == {("delete", "CHANGED")}
    assert pair.west.bindings == {TOPIC, theirs}
    assert pair.sync() == ()
    with pytest.raises(NoAclsToDelete):
        pair.approve(plan.hash)


def test_the_approver_saw_another_plan_because_the_acls_of_its_login_were_called_gone(pair: Pair) -> None:
    """S3.7. What is deleted does not depend on who asks."""
    approvers = reads("bills", "User:approver")
    pair.east.bindings.add(approvers)
    pair.sync()
    assert approvers in pair.west.bindings
    pair.east.bindings.discard(GROUP)
    plan = pair.plan().plan
    pair.west.principal = "User:approver"
    assert pair.plan().plan == plan
    assert plan.acls == (GROUP,)
    pair.approve(plan.hash)
    pair.west.principal = "User:mirror"
    assert verdicts(pair.delete(plan.hash)) == {("delete", "CHANGED")}
    assert pair.west.bindings == {TOPIC, approvers}


def test_an_acl_that_has_come_back_since_the_approval_stays(pair: Pair) -> None:
    """S3.7."""
    pair.sync()
    pair.east.bindings = set()
    plan = pair.plan().plan
    pair.approve(plan.hash)
    pair.east.bindings = {GROUP}
    assert [row.name for row in pair.delete(plan.hash)] == ["allow User:app READ on topic orders"]
    assert pair.west.bindings == {GROUP}


def test_an_approval_that_was_used_deleted_the_same_acls_again_once_they_had_come_back(pair: Pair) -> None:
    """S3.7. An approval permits one deletion; a new one is needed for the next, also with `--reason`."""
    pair.sync()
    pair.east.bindings = {TOPIC}
    plan = pair.plan().plan.hash
    pair.approve(plan)
    pair.delete(plan)
    pair.east.bindings = {TOPIC, GROUP}
    pair.sync()
    pair.east.bindings = {TOPIC}
    with pytest.raises(ApprovalUsed, match=f"--approve {plan}"):
        pair.delete(plan)
    assert GROUP in pair.west.bindings
    delete_at_once(plan, pair.plan(), a_command(pair.west.clock), terms=TERMS)
    assert verdicts(pair.delete(plan)) == {("delete", "CHANGED")}
    assert len(pair.west.approvals) == 2
    with pytest.raises(ApprovalUsed):
        pair.delete(plan)


def test_an_approval_is_used_although_what_it_would_delete_has_come_back(pair: Pair) -> None:
    """S3.7. Else it would be a standing permission to delete that."""
    pair.sync()
    pair.east.bindings = {TOPIC}
    plan = pair.plan().plan.hash
    pair.approve(plan)
    pair.east.bindings = {TOPIC, GROUP}
    assert pair.delete(plan) == ()
    with pytest.raises(ApprovalUsed):
        pair.delete(plan)


def test_a_deletion_that_fails_is_named_and_stays_on_record(pair: Pair) -> None:
    """S3.7. The same command deletes the rest."""
    pair.sync()
    pair.east.bindings = {TOPIC}
    plan = pair.plan().plan
    pair.approve(plan.hash)
    pair.west.denied.add(("ALTER", "kafka-cluster"))
    assert verdicts(pair.delete(plan.hash)) == {("delete", "FAILED")}
    pair.west.denied.clear()
    assert verdicts(pair.delete(plan.hash)) == {("delete", "CHANGED")}
    assert pair.west.bindings == {TOPIC}


def test_one_command_approves_and_deletes_unless_two_people_must(pair: Pair) -> None:
    """S3.7. What is approved already is not approved again."""
    pair.sync()
    pair.east.bindings = {TOPIC}
    plan, command = pair.plan().plan.hash, a_command(pair.west.clock)
    with pytest.raises(FourEyes, match=f"metadata sync dr --destination west --approve {plan}"):
        delete_at_once(plan, pair.plan(), replace(command, four_eyes=True), terms=TERMS)
    for _ in range(2):
        delete_at_once(plan, pair.plan(), command, terms=TERMS)
    assert len(pair.west.approvals) == 1
    assert verdicts(pair.delete(plan)) == {("delete", "CHANGED")}
