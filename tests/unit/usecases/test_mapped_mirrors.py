"""Mirrors with mapped offsets: what `create` writes and refuses, what can be altered, what `doctor` says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain import errors
from tanist.domain.adoption import OppositeMirror
from tanist.domain.approval.entries import APPROVALS_TOPIC
from tanist.domain.checks import Check, Verdict
from tanist.domain.compaction import Holes
from tanist.domain.delivery import Delivery
from tanist.domain.mapped_runs import OffsetRangesWritten
from tanist.domain.mapped_settings import DEFAULT_INTERVAL_MS, NotSupported
from tanist.domain.metadata import Kind, Outcome
from tanist.domain.names import MirrorName, MirrorPartition, SourceOffset
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, MirrorSpec, OffsetMode, TopicDesired
from tanist.domain.rights import CLUSTER, TABLE, Notice, Requirement, Use
from tanist.domain.selection import Selection
from tanist.domain.states import DesiredState
from tanist.domain.topic_configs import altered_configs, while_mapped
from tanist.domain.writer_identity import transactional_id_of
from tanist.kafka.protocol.stored import encode
from tanist.usecases.items import copying_item, offsets_line, spec_item
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.describe import Describer
from tanist.usecases.mirrors.detach import detach_topics
from tanist.usecases.status import doctor
from tests.builders import DR, a_command, a_mirror, a_topic, a_worker
from tests.fakes.cluster import pair_with
from tests.fakes.failover import GuardedCluster
from tests.fakes.logs import MemoryLogs
from tests.fakes.positions import MemoryGroups, MemoryPositions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

MAPPED = CreateRequest(mirror="dr", include=("orders",), offsets=OffsetMode.MAPPED)
LEAST = {("ALTER", CLUSTER), ("CLUSTER_ACTION", CLUSTER), ("ALTER_CONFIGS", CLUSTER), ("DELETE", "orders")}
"""What no producer may do, and a mirror with identical offsets needs."""
VERIFICATION = "transaction.partition.verification.enable"


class Pair:
    """East, which has `orders` with 10 records in each of 2 partitions, and an empty west."""

    def __init__(self) -> None:
        self.east = GuardedCluster("east").with_topic("orders", 2, 10, retention_ms="1000").with_topic("payments")
        self.west = GuardedCluster("west")
        self.groups = MemoryGroups(self.west)

    def at_west(self) -> Cluster:
        """West with the positions of groups, of which there are none."""
        return replace(self.west.side(), positions=lambda mirror: MemoryPositions(self.groups, mirror))

    def create(self, request: CreateRequest = MAPPED, **command: Any) -> Any:
        return create(request, self.east.side(), self.west.side(), a_command(**command))

    def add(self, *topics: str, **accepted: Any) -> desire.Desired:
        found = desire.Accepted(prefixes=lambda _: pair_with().prefixes, **accepted)
        return desire.add(
            "dr", Selection(topics), self.west.side(), lambda _: self.east.side(), a_command(), accepted=found
        )

    def alter(self, **changes: Any) -> administer.Altered:
        return administer.alter("dr", administer.Alteration(**changes), self.west.side(), a_command())

    def doctor(self) -> dict[str, Check]:
        both = {"east": self.east, "west": self.west}
        self.west.write(STATE_TOPIC, a_worker(at=self.west.clock.now(), principal="User:approver"))
        checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), a_command())
        return {check.name: check for check in checks}

    @property
    def spec(self) -> MirrorSpec:
        found = self.west.view(STATE_TOPIC).mirror(DR)
        assert found is not None
        return found

    @property
    def desired(self) -> TopicDesired:
        found = self.west.view(STATE_TOPIC).topic(DR, "orders")
        assert found is not None
        return found


@pytest.fixture
def pair() -> Pair:
    return Pair()


# ── create ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mapped_mirror_has_transactional_ids_of_its_own_and_no_producer_ids(pair: Pair) -> None:
    created = pair.create()
    assert created.changed
    assert created.warnings == ()
    spec = pair.spec
    assert spec == created.spec
    assert spec.is_mapped
    assert (spec.data_id, spec.marker_id, spec.start_id) == (-1, -1, -1)
    assert spec.transaction_ms == DEFAULT_INTERVAL_MS
    assert spec.transactional_id == f"tanist-dr-{spec.mirror_id[:8]}"
    assert transactional_id_of(spec, 7) == f"{spec.transactional_id}-7"
    assert not spec.deny_writers
    assert pair.desired.offsets is OffsetMode.MAPPED
    assert not [call for call in pair.west.calls if "producer id" in call or call.startswith("set ")]


def test_a_later_mirror_of_the_same_name_has_other_transactional_ids(pair: Pair) -> None:
    first = pair.create(replace(MAPPED, include=())).spec
    administer.delete("dr", pair.west.side(), a_command())
    assert pair.create().spec.transactional_id != first.transactional_id


@pytest.mark.parametrize("offsets", OffsetMode)
def test_a_topic_is_copied_to_by_one_mirror_whatever_its_offsets_are(pair: Pair, offsets: OffsetMode) -> None:
    pair.create()
    before = list(pair.west.calls)
    with pytest.raises(errors.TopicAlreadyInMirror, match="'orders' belongs to mirror 'dr' on 'west'"):
        pair.create(replace(MAPPED, mirror="dr2", offsets=offsets))
    assert pair.west.calls == before


def test_a_renamed_copy_belongs_to_one_mirror_too(pair: Pair) -> None:
    renamed = replace(MAPPED, rename=("dr.{topic}",))
    pair.create(renamed)
    with pytest.raises(errors.TopicAlreadyInMirror, match=r"'dr\.orders' belongs to mirror 'dr' on 'west'"):
        pair.create(replace(renamed, mirror="dr2"))
    assert pair.create(replace(MAPPED, mirror="dr2")).changed


def test_copies_have_the_names_that_rules_give_them(pair: Pair) -> None:
    created = pair.create(replace(MAPPED, rename=("dr.{topic}",)))
    assert [each.topic for each in created.topics] == ["dr.orders"]
    assert created.topics[0].source_topic_id == pair.east.topics["orders"].topic_id
    assert pair.west.topics["dr.orders"].partitions == 2
    assert [each.topic for each in pair.add("payments").topics] == ["dr.payments"]
    with pytest.raises(errors.MirrorExists, match="rename"):
        pair.create(replace(MAPPED, rename=("{topic}.dr",)))


def test_topics_that_no_rule_names_are_not_in_the_mirror(pair: Pair) -> None:
    rules = ("orders=dr.orders",)
    assert [t.topic for t in pair.create(replace(MAPPED, include=(".*",), rename=rules)).topics] == ["dr.orders"]
    with pytest.raises(errors.Misconfigured, match="payments: no rule"):
        pair.add("payments")


def test_offsets_that_are_identical_have_equal_names(pair: Pair) -> None:
    with pytest.raises(errors.Misconfigured, match="--rename is for mirrors with mapped offsets"):
        pair.create(replace(MAPPED, offsets=OffsetMode.IDENTICAL, rename=("dr.{topic}",)))


@pytest.mark.parametrize(
    ("include", "rename", "copied", "asked"),
    [
        (("x",), ("west.{topic}",), "west.x", "west.x"),  # it came from here
        ((".*",), (), "x", "orders"),  # its expressions match the copy
        (("x",), ("{topic}.back",), "dr.orders.back", "orders"),  # it has the copy, although no expression says so
    ],
)
def test_copies_that_go_in_a_circle_are_refused(
    pair: Pair, include: tuple[str, ...], rename: tuple[str, ...], copied: str, asked: str
) -> None:
    pair.east.with_topic(asked).with_topic(STATE_TOPIC)
    back = a_mirror(
        MirrorName("back"),
        source_cluster_id="id-west",
        destination_cluster_id="id-east",
        include=include,
        rename=rename,
        offsets=OffsetMode.MAPPED,
    )
    pair.east.write(STATE_TOPIC, back, a_topic(copied, mirror=MirrorName("back")))
    with pytest.raises(OppositeMirror, match="back"):
        pair.create(replace(MAPPED, include=(asked,), rename=("dr.{topic}",)))
    assert "dr.orders" not in pair.west.topics


def test_mirrormakers_names_leave_out_what_came_from_the_destination(pair: Pair) -> None:
    pair.east.with_topic("west.x")
    created = pair.create(replace(MAPPED, include=(".*",), rename=("mm2-default",)))
    assert sorted(each.topic for each in created.topics) == ["east.orders", "east.payments"]


def test_a_copy_begins_at_the_end_when_its_topic_is_added(pair: Pair) -> None:
    pair.create(replace(MAPPED, start="latest"))
    assert pair.spec.start == "latest"
    assert pair.desired.source_starts == (10, 10)
    pair.east.with_topic("late", 1, 3)
    assert pair.add("late").topics[0].source_starts == (3,)


def test_a_topic_that_has_records_is_taken_only_where_that_is_asked_for(pair: Pair) -> None:
    pair.west.with_topic("orders", 2, 4)
    with pytest.raises(errors.DestinationNotEmpty) as refused:
        pair.create()
    assert "--into-existing" in refused.value.operator_action
    pair.create(replace(MAPPED, into_existing=True))
    assert pair.desired.copy_starts == (4, 4)
    pair.west.with_topic("payments", 1, 2)
    with pytest.raises(errors.DestinationNotEmpty):
        pair.add("payments")
    assert pair.add("payments", into_existing=True).topics[0].copy_starts == (2,)


@pytest.mark.parametrize("option", [{"start": "latest"}, {"into_existing": True}])
def test_beginnings_are_for_mapped_offsets(pair: Pair, option: dict[str, Any]) -> None:
    with pytest.raises(errors.Misconfigured, match="is for mirrors with mapped offsets"):
        pair.create(replace(MAPPED, offsets=OffsetMode.IDENTICAL, **option))


def test_its_topics_delete_records_as_the_source_does(pair: Pair) -> None:
    """Nothing else deletes them: a producer may not move the log start."""
    pair.east.with_topic("cleaned", 1, cleanup_policy="compact", retention_ms="5")
    pair.create(replace(MAPPED, include=("orders", "cleaned")))
    found = {name: pair.west.topics[name].configs for name in ("orders", "cleaned")}
    assert found["orders"]["retention.ms"] == "1000"
    assert found["cleaned"]["cleanup.policy"] == "compact"
    assert {each["message.timestamp.type"] for each in found.values()} == {"CreateTime"}
    assert {each["compression.type"] for each in found.values()} == {"producer"}


def test_records_that_the_source_has_stamped_are_not_deleted_for_the_times_of_their_producers(pair: Pair) -> None:
    pair.east.with_topic("stamped", 1, message_timestamp_type="LogAppendTime", retention_ms="1000")
    pair.create(replace(MAPPED, include=("stamped",)))
    assert pair.west.topics["stamped"].configs["retention.ms"] == "-1"
    topic = pair.west.view(STATE_TOPIC).topic(DR, "stamped")
    assert topic is not None
    assert dict(topic.deferred_configs)["retention.ms"] == "1000"


def test_a_plan_takes_the_sources_retention_for_no_alteration() -> None:
    source = {"cleanup.policy": "compact", "retention.ms": "5", "retention.bytes": "7", "compression.type": "gzip"}
    meant = while_mapped(source)
    assert altered_configs(meant, meant=meant) == ()
    assert altered_configs({**meant, "retention.ms": "1"}, meant=meant) == ("retention.ms=1",)


def test_the_same_again_changes_nothing_also_with_the_default_spelled_out(pair: Pair) -> None:
    pair.create()
    pair.west.calls.clear()
    for again in (MAPPED, replace(MAPPED, transaction_ms=DEFAULT_INTERVAL_MS, delivery=Delivery.EXACTLY_ONCE)):
        assert not pair.create(again).changed
    assert not pair.west.calls


def test_other_settings_under_the_same_name_are_refused(pair: Pair) -> None:
    pair.create()
    with pytest.raises(errors.MirrorExists, match="transaction_ms 500, not 100"):
        pair.create(replace(MAPPED, transaction_ms=100))
    with pytest.raises(errors.MirrorExists, match="offsets mapped, not identical"):
        pair.create(replace(MAPPED, offsets=OffsetMode.IDENTICAL))


def test_a_dry_run_writes_nothing(pair: Pair) -> None:
    created = pair.create(dry_run=True)
    assert (created.changed, [topic.topic for topic in created.topics]) == (True, ["orders"])
    assert not pair.west.calls
    assert not pair.west.topics


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"holes": Holes.MARKERS}, "--holes is for mirrors with identical offsets"),
        ({"transaction_ms": 49}, "--transaction-ms 49 is not 50 to 30000"),
        ({"transaction_ms": 30_001}, "--transaction-ms 30001 is not 50 to 30000"),
        (
            {"offsets": OffsetMode.IDENTICAL, "transaction_ms": 500},
            "--transaction-ms is for mirrors with mapped offsets",
        ),
        (
            {"offsets": OffsetMode.IDENTICAL, "delivery": Delivery.AT_LEAST_ONCE},
            "--delivery at-least-once is for mirrors with mapped offsets",
        ),
        (
            {"offsets": OffsetMode.IDENTICAL, "fence_source": False},
            "--no-fence-source is for mirrors with mapped offsets",
        ),
        (
            {"offsets": OffsetMode.IDENTICAL, "grant_writers": False},
            "--no-grant-writers is for mirrors with mapped offsets",
        ),
        ({"deny_writers": True, "grant_writers": False}, "give one of them only"),
    ],
)
def test_what_does_not_go_with_these_offsets_is_refused_before_anything_is_asked(
    pair: Pair, changes: Mapping[str, Any], named: str
) -> None:
    with pytest.raises((NotSupported, errors.Misconfigured), match=named):
        pair.create(replace(MAPPED, **changes))
    assert not pair.west.calls


def test_topics_that_have_records_are_refused_with_another_way_on_than_adopting_them(pair: Pair) -> None:
    pair.west.with_topic("orders", 2, 1)
    with pytest.raises(errors.DestinationNotEmpty) as refused:
        pair.create()
    assert "--adopt" not in str(refused.value)
    prefixes: Any = object()
    with pytest.raises(NotSupported, match=r"has mapped offsets, .* not possible yet: --adopt"):
        create(MAPPED, pair.east.side(), pair.west.side(), a_command(), prefixes)
    assert not pair.west.calls


# ── the brokers of the destination ────────────────────────────────────────────────────────────────────────────────


def test_brokers_that_do_not_know_the_requests_are_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = MemoryLogs.versions

    def old(logs: MemoryLogs, by: Deadline) -> Mapping[str, int]:
        return {name: version for name, version in spoken(logs, by).items() if name != "TxnOffsetCommit"}

    monkeypatch.setattr(MemoryLogs, "versions", old)
    with pytest.raises(errors.UnsupportedVersion, match=r"'west' do not speak TxnOffsetCommit in .* Kafka 2\.8"):
        pair.create()
    assert not pair.west.calls
    assert pair.create(replace(MAPPED, offsets=OffsetMode.IDENTICAL)).changed


def test_brokers_that_grant_too_short_a_timeout_are_refused(pair: Pair) -> None:
    pair.west.broker_configs["transaction.max.timeout.ms"] = "59999"
    with pytest.raises(errors.Misconfigured, match=r"transaction.max.timeout.ms of 'west' is 59999, .* 60000 ms"):
        pair.create()
    assert not pair.west.calls


def test_brokers_that_keep_too_little_beside_a_position_are_refused(pair: Pair) -> None:
    pair.west.broker_configs["offset.metadata.max.bytes"] = "2048"
    with pytest.raises(errors.Misconfigured, match=r"offset.metadata.max.bytes of 'west' is 2048, .* 4096 bytes"):
        pair.create()
    assert not pair.west.calls


def test_who_creates_it_hears_that_brokers_do_not_verify_transactions(pair: Pair) -> None:
    del pair.west.broker_configs[VERIFICATION]
    assert "older than Kafka 3.6" in pair.create(dry_run=True).warnings[0]
    pair.west.broker_configs[VERIFICATION] = "false"
    (warning,) = pair.create(dry_run=True).warnings
    assert (
        f"--bootstrap-server west:9092 --alter --entity-type brokers --entity-default --add-config {VERIFICATION}=true"
        in warning
    )
    pair.west.denied = {("DESCRIBE_CONFIGS", CLUSTER)}
    assert "this login lacks DESCRIBE_CONFIGS" in pair.create().warnings[0]


# ── rights ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_rights_of_a_producer_are_enough(pair: Pair) -> None:
    """No ALTER on the cluster, no DELETE, nothing about ACLs at either cluster."""
    pair.west.denied = LEAST | {("DESCRIBE", CLUSTER), ("ALTER_CONFIGS", "orders")}
    pair.east.denied = {("DESCRIBE", CLUSTER), ("ALTER", CLUSTER)}
    created = pair.create()
    assert [each for each in created.warnings if "a failover grants nobody WRITE" in each]
    assert pair.desired.deferred_acls == ()
    with pytest.raises(errors.TanistError):
        pair.create(CreateRequest(mirror="same", include=("payments",)))


def test_what_failovers_lack_is_said_when_it_is_created_unless_people_do_it(pair: Pair) -> None:
    pair.west.denied = pair.east.denied = {("ALTER", CLUSTER)}
    before = [each for each in pair.create(dry_run=True).warnings if "which failovers need" in each]
    assert [each[: each.index(",")] for each in before] == ["on 'east'", "on 'west'"]
    assert "lacks ALTER on Cluster kafka-cluster, which failovers need: grant it before one, or" in before[0]
    assert ["--no-fence-source" in before[0], "--no-grant-writers" in before[1]] == [True, True]
    left = replace(MAPPED, fence_source=False, grant_writers=False)
    assert not [each for each in pair.create(left).warnings if "which failovers need" in each]
    assert (pair.spec.fence_source, pair.spec.grant_writers) == (False, False)
    checks = pair.doctor()
    assert [name for name, each in checks.items() if "failover" in name and "ALTER on Cluster" in each.reason] == []
    assert pair.create(left).changed is False
    assert pair.alter(fence_source=True, grant_writers=True).changed
    assert "ALTER on Cluster kafka-cluster" in pair.doctor()["failover of dr on west"].reason


def test_the_right_to_commit_its_positions_is_checked_before_anything_is_written(pair: Pair) -> None:
    pair.west.denied = {("READ", "tanist-dr/positions")}
    with pytest.raises(errors.AuthorizationFailed, match="lacks READ on Group tanist-dr/positions"):
        pair.create()
    assert not pair.west.calls


def test_others_are_denied_only_if_that_is_asked_for(pair: Pair) -> None:
    pair.west.denied = {("ALTER", CLUSTER)}
    with pytest.raises(errors.AuthorizationFailed, match="ALTER on Cluster"):
        pair.create(replace(MAPPED, deny_writers=True))
    assert pair.create().changed


OF_MAPPED = [
    row
    for row in TABLE
    if row.use in {Use.COPY, Use.MAPPED, Use.POSITIONS, Use.SERVE} and row.notice is Notice.REPORTED
]


def title(row: Requirement) -> str:
    return f"{row.where}-{'-'.join(row.operations)}-{row.resource}".replace(" ", "_").replace("`", "")


@pytest.mark.parametrize("row", OF_MAPPED, ids=title)
def test_doctor_names_each_right_that_a_mapped_mirror_lacks(pair: Pair, row: Requirement) -> None:
    pair.create()
    needed = row.of("dr" if row.use is Use.POSITIONS else "orders")
    cluster = pair.east if row.where == "source" else pair.west
    cluster.denied = {(right.operation, right.resource) for right in needed.rights}
    failed = {name: check.reason for name, check in pair.doctor().items() if check.verdict is Verdict.FAIL}
    assert [name for name, reason in failed.items() if needed.title.casefold() in reason.casefold()], failed


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_doctor_says_which_kind_of_mirror_a_login_can_have_and_what_the_other_needs(pair: Pair) -> None:
    """Also where there is no mirror yet."""
    kind = "kinds of mirror to west"
    assert pair.doctor()[kind].observed == "identical or mapped offsets"
    pair.west.denied = set(LEAST)
    found = pair.doctor()[kind]
    assert (found.verdict, found.observed) == (Verdict.PASS, "mapped offsets")
    assert found.reason.startswith("for identical offsets it lacks ALTER or CLUSTER_ACTION on Cluster kafka-cluster (")
    pair.west.denied = {("READ", "tanist-MIRROR/positions")}
    found = pair.doctor()[kind]
    assert (found.observed, "for mapped offsets it lacks READ on Group" in found.reason) == ("identical offsets", True)
    pair.west.denied |= LEAST
    assert pair.doctor()[kind].observed == "none"
    assert pair.doctor()["kinds of mirror to east"].observed == "identical or mapped offsets"


def test_doctor_is_content_with_the_rights_of_a_producer(pair: Pair) -> None:
    """But for a failover, whose rights are a matter of its own. Nothing is said of a way back."""
    pair.west.denied = set(LEAST)
    pair.create()
    pair.west.with_topic(APPROVALS_TOPIC)
    found = pair.doctor()
    assert {name for name, check in found.items() if check.verdict is not Verdict.PASS} == {"failover of dr on west"}
    assert "the producer fence" not in found["failover of dr on west"].reason
    assert not [name for name in found if name.startswith(("reversal", "producer.id"))]
    assert found["transactions on west"].observed == "verified"


def test_doctor_names_brokers_that_do_not_verify_transactions(pair: Pair) -> None:
    """It fails where one setting mends it."""
    pair.create()
    pair.west.broker_configs[VERIFICATION] = "false"
    off = pair.doctor()["transactions on west"]
    assert (off.verdict, off.observed) == (Verdict.FAIL, "not verified")
    del pair.west.broker_configs[VERIFICATION]
    old = pair.doctor()["transactions on west"]
    assert (old.verdict, "older than Kafka 3.6" in old.reason) == (Verdict.PASS, True)


# ── afterwards ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_interval_of_transactions_can_be_altered(pair: Pair) -> None:
    pair.create()
    assert pair.alter(transaction_ms=100).changed
    assert pair.spec.transaction_ms == 100
    assert not pair.alter(transaction_ms=100, offsets=OffsetMode.MAPPED).changed


def test_the_delivery_can_be_altered_and_earlier_workers_do_not_read_a_mirror_that_delivers_at_least_once(
    pair: Pair,
) -> None:
    """S1.8."""
    pair.create(replace(MAPPED, delivery=Delivery.AT_LEAST_ONCE))
    assert pair.spec.delivery == "at-least-once"
    assert b'"v":4' in (encode(pair.spec)[1] or b"")
    assert "at least once, positions every 500 ms" in offsets_line(pair.spec)
    assert not pair.create(MAPPED).changed
    with pytest.raises(errors.MirrorExists, match="delivery at-least-once, not exactly-once"):
        pair.create(replace(MAPPED, delivery=Delivery.EXACTLY_ONCE))
    assert pair.alter(delivery=Delivery.EXACTLY_ONCE).changed
    assert pair.spec.delivery == "exactly-once"
    assert b'"v":3' in (encode(pair.spec)[1] or b"")
    assert not pair.alter(delivery=Delivery.EXACTLY_ONCE).changed


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"offsets": OffsetMode.IDENTICAL}, "--offsets identical: the copy of mirror 'dr' has mapped offsets for good"),
        ({"max_start_fill": 5}, "--max-start-fill is for mirrors with identical offsets"),
        ({"transaction_ms": 5}, "--transaction-ms 5 is not"),
        ({"deny_writers": True, "grant_writers": False}, "give one of them only"),
    ],
)
def test_what_cannot_be_altered_is_refused_by_name(pair: Pair, changes: dict[str, Any], named: str) -> None:
    pair.create()
    before = pair.spec
    with pytest.raises((NotSupported, errors.Misconfigured), match=named):
        pair.alter(**changes)
    assert pair.spec == before


def test_a_mirror_with_identical_offsets_has_no_transactions(pair: Pair) -> None:
    pair.create(replace(MAPPED, offsets=OffsetMode.IDENTICAL))
    for changes in (
        {"transaction_ms": 500},
        {"offsets": OffsetMode.MAPPED},
        {"delivery": Delivery.AT_LEAST_ONCE},
        {"fence_source": False},
    ):
        with pytest.raises((NotSupported, errors.Misconfigured)):
            pair.alter(**changes)


def test_topics_are_added_but_none_with_records_and_detached_ones_only_without_their_copy(pair: Pair) -> None:
    pair.create()
    added = pair.add("payments")
    assert [topic.offsets for topic in added.topics] == [OffsetMode.MAPPED]
    pair.east.with_topic("more")
    pair.west.with_topic("more", 1, 1)
    with pytest.raises(NotSupported, match="--adopt"):
        pair.add("more", adopt=True)
    with pytest.raises(errors.DestinationNotEmpty):
        pair.add("more")
    detach_topics("dr", Selection(("orders",)), pair.west.side(), a_command())
    pair.west.with_topic("orders", 1, 1)
    for into_existing in (False, True):  # "goes on where it stopped", said the advice; and its map was deleted
        with pytest.raises(errors.DestinationNotEmpty, match="the copy of a topic that was detached") as refused:
            pair.add("orders", into_existing=into_existing)
        assert "delete the topic at the destination" in refused.value.operator_action
    assert {topic.topic for topic in pair.west.view(STATE_TOPIC).mirrored(DR)} == {"payments"}


def test_a_sync_of_metadata_keeps_retention_as_at_the_source(pair: Pair) -> None:
    pair.create()
    asked = MetadataRequest(mirror="dr")
    assert sync(asked, pair.west.side(), lambda _: pair.east.side(), a_command()).rows == ()
    pair.east.with_topic("orders", 2, retention_ms="9")
    sync(asked, pair.west.side(), lambda _: pair.east.side(), a_command())
    assert pair.west.topics["orders"].configs["retention.ms"] == "9"


def test_a_sync_goes_on_without_the_right_to_see_acls(pair: Pair) -> None:
    pair.create()
    pair.east.denied = {("DESCRIBE", CLUSTER)}
    (row,) = sync(MetadataRequest(mirror="dr"), pair.west.side(), lambda _: pair.east.side(), a_command()).rows
    assert (row.kind, row.verdict) == (Kind.ACL, Outcome.SKIPPED)


def test_list_and_describe_say_what_kind_of_mirror_it_is(pair: Pair) -> None:
    pair.create(replace(MAPPED, transaction_ms=100))
    (found,) = Describer(pair.at_west(), lambda _: pair.east.side()).describe(DR, a_command())
    assert copying_item(found)["transaction_ms"] == 100
    assert copying_item(found)["offsets"] == "mapped"
    assert offsets_line(found.spec) == "mirror dr: mapped offsets, a transaction every 100 ms: consumers read committed"
    assert spec_item(found.spec)["offsets"] == "mapped"
    assert not offsets_line(replace(found.spec, offsets=OffsetMode.IDENTICAL))


def test_a_topic_that_returns_does_not_have_the_map_of_its_earlier_copy(pair: Pair) -> None:
    pair.create()
    at = MirrorPartition("orders", 0)
    ranges = OffsetRangesWritten(
        mirror=DR, mirror_id=pair.spec.mirror_id, partition=at, source=SourceOffset(0), ranges=""
    )
    pair.west.with_topic(OFFSETS_TOPIC).write(OFFSETS_TOPIC, ranges)
    pair.west.write(STATE_TOPIC, replace(pair.desired, desired=DesiredState.REMOVED))
    pair.add("orders")
    assert not list(pair.west.view(OFFSETS_TOPIC).offset_ranges(pair.spec))
