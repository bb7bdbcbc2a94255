"""`mirrors create`: what it makes, and that bad input changes nothing at all."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain import errors
from tanist.domain.acl_entries import CLOSED, AclEntry
from tanist.domain.adoption import OppositeMirror
from tanist.domain.copier import Copier
from tanist.domain.delivery import Delivery
from tanist.domain.names import MirrorName
from tanist.domain.problems import Problems, each, exit_code
from tanist.domain.records import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    Engine,
    MirrorSpec,
    PromotionEpoch,
    TopicDesired,
)
from tanist.domain.rights import CLUSTER
from tanist.domain.states import DesiredState
from tanist.usecases.mirrors.administer import Alteration, alter
from tanist.usecases.mirrors.create import EXPIRATION, LONGEST_EXPIRATION_MS, CreateRequest, create
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tests.builders import a_command
from tests.fakes.cluster import MemoryCluster
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = CreateRequest(mirror="dr", include=("orders.*",))


@pytest.fixture
def east() -> MemoryCluster:
    east = MemoryCluster("east")
    return east.with_topic("orders", 3, 10, retention_ms="1000", remote_storage_enable="true").with_topic("payments")


@pytest.fixture
def west() -> MemoryCluster:
    return MemoryCluster("west")


def test_makes_empty_copies_and_one_record_of_everything(east: MemoryCluster, west: MemoryCluster) -> None:
    created = create(REQUEST, east.side(), west.side(), a_command())
    assert created.changed
    assert west.topics["orders"].partitions == 3
    assert west.topics["orders"].configs["retention.ms"] == "-1"
    assert "remote.storage.enable" not in west.topics["orders"].configs
    assert any("remote.storage.enable" in warning for warning in created.warnings)
    view = west.view(STATE_TOPIC)
    spec, topic = view["mirror/dr"], view["topic/dr/orders"]
    assert isinstance(spec, MirrorSpec)
    assert isinstance(topic, TopicDesired)
    assert len({spec.data_id, spec.marker_id, spec.start_id}) == 3
    assert (spec.source_cluster_id, spec.destination_cluster_id) == ("id-east", "id-west")
    assert dict(topic.deferred_configs)["retention.ms"] == "1000"
    assert topic.desired is DesiredState.MIRRORING
    assert west.broker_configs[EXPIRATION] == str(LONGEST_EXPIRATION_MS)
    assert west.calls[-1] == "append mirror/dr, topic/dr/orders", "in one transaction, after everything else"
    assert not east.calls


def replaced(cluster: MemoryCluster, topic: str, count: int) -> None:
    """`cluster` was told that another one took over from it."""
    reported = PromotionEpoch(mirror=MirrorName("dr"), topic=topic, count=count)
    cluster.with_topic(STATE_TOPIC).write(STATE_TOPIC, reported)


def test_a_source_that_was_replaced_is_not_copied_from_until_somebody_says_so(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """Also where the destination has forgotten all of it."""
    replaced(east, "orders", 2)
    with pytest.raises(errors.SourceReplaced, match="knows of promotion 2"):
        create(REQUEST, east.side(), west.side(), a_command())
    assert not west.calls
    (topic,) = create(replace(REQUEST, promoted=True), east.side(), west.side(), a_command()).topics
    view = west.view(STATE_TOPIC)
    assert (topic.promotion_epoch, view.promotions(MirrorName("dr"), "orders")) == (2, 2)
    assert not view.promoted(MirrorName("dr"), "orders")


def test_what_the_destination_counted_itself_is_no_old_life(east: MemoryCluster, west: MemoryCluster) -> None:
    """A source that once was told of the same mirror becomes the destination of one in the other direction."""
    replaced(west, "orders", 3)
    (topic,) = create(REQUEST, east.side(), west.side(), a_command()).topics
    assert topic.promotion_epoch == 3
    assert not west.view(STATE_TOPIC).promoted(MirrorName("dr"), "orders")


def test_the_right_to_read_what_the_source_says_is_named(east: MemoryCluster, west: MemoryCluster) -> None:
    east.with_topic(STATE_TOPIC).denied.add(("DESCRIBE", STATE_TOPIC))
    with pytest.raises(errors.AuthorizationFailed, match="needs DESCRIBE on topic __mirror_state"):
        create(REQUEST, east.side(), west.side(), a_command())
    assert not west.calls


def test_a_copy_that_inherits_a_near_fence_takes_nothing_when_it_has_taken_over(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """The fence of a mirror that was deleted still stands: its max.message.bytes must not be copied."""
    east.with_topic("orders-fenced", max_message_bytes="78")
    with pytest.raises(errors.TopicFenced, match="orders-fenced"):
        create(REQUEST, east.side(), west.side(), a_command())
    assert not west.topics


def test_a_topic_that_is_taken_in_behind_a_fence_of_rules_is_opened_for_nobody_when_it_takes_over(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """While a DENY for everybody stands nothing is learnt of who may write; so such a topic is refused."""
    east.rules["orders"] = (CLOSED, AclEntry("User:app", "*", allowed=True))
    with pytest.raises(errors.TopicFenced, match=r"'orders' .*denies WRITE to User:\*.*`fence lift` of the mirror"):
        create(REQUEST, east.side(), west.side(), a_command())
    assert not west.topics
    east.rules["orders"] = (AclEntry("User:app", "*", allowed=True),)
    (topic,) = create(REQUEST, east.side(), west.side(), a_command()).topics
    assert topic.deferred_acls == (AclEntry("User:app", "*", allowed=True),)


def test_the_same_again_changes_nothing(east: MemoryCluster, west: MemoryCluster) -> None:
    first = create(REQUEST, east.side(), west.side(), a_command())
    west.calls.clear()
    again = create(REQUEST, east.side(), west.side(), a_command())
    assert (again.changed, again.spec) == (False, first.spec)
    assert not west.calls


def test_limits_are_kept_until_they_are_altered_and_the_same_request_leaves_them(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    """S3.13: `none` takes one away; a rule that cannot be read changes nothing."""
    limited = replace(REQUEST, limit=5_000_000, topic_limits=("orders=1MB/s",))
    assert create(limited, east.side(), west.side(), a_command()).changed
    assert not create(REQUEST, east.side(), west.side(), a_command()).changed
    with pytest.raises(errors.MirrorExists, match="limit 5000000, not 1000"):
        create(replace(REQUEST, limit=1_000), east.side(), west.side(), a_command())
    altered = alter("dr", Alteration(limit=0, topic_limits=("orders=2MB/s",)), west.side(), a_command())
    assert (altered.changed, altered.spec.limit, altered.spec.topic_limits) == (True, 0, ("orders=2MB/s",))
    with pytest.raises(errors.Misconfigured, match="is not REGEX=RATE"):
        alter("dr", Alteration(topic_limits=("2MB/s",)), west.side(), a_command())
    assert west.view(STATE_TOPIC).mirror(MirrorName("dr")) == altered.spec
    refused = replace(REQUEST, mirror="other", include=("payments",), topic_limits=("payments=0MB/s",))
    with pytest.raises(errors.Misconfigured, match="a rate of 0"):
        create(refused, east.side(), west.side(), a_command())


def test_a_dry_run_changes_nothing_and_tells_the_topics(east: MemoryCluster, west: MemoryCluster) -> None:
    created = create(REQUEST, east.side(), west.side(), a_command(dry_run=True))
    assert [topic.topic for topic in created.topics] == ["orders"]
    assert not west.calls
    assert not west.topics


def test_a_crash_after_the_copies_were_made_is_finished_by_running_it_again(
    east: MemoryCluster, west: MemoryCluster
) -> None:
    west.with_topic("orders", 3, 0, retention_ms="5")
    create(REQUEST, east.side(), west.side(), a_command())
    assert "alter orders" in west.calls
    assert west.topics["orders"].configs["retention.ms"] == "-1"
    assert "topic/dr/orders" in west.view(STATE_TOPIC)


def test_without_the_right_to_change_brokers_it_warns(east: MemoryCluster, west: MemoryCluster) -> None:
    west.denied = {("ALTER_CONFIGS", CLUSTER)}
    created = create(REQUEST, east.side(), west.side(), a_command())
    assert any(EXPIRATION in warning for warning in created.warnings)


def die(*clusters: MemoryCluster) -> None:
    for cluster in clusters:
        cluster.dead = True


def deny(cluster: MemoryCluster, operation: str, *resources: str) -> None:
    cluster.denied |= {(operation, each) for each in resources}


Change = "Callable[[MemoryCluster, MemoryCluster], object]"


@pytest.mark.parametrize(
    ("request_", "change", "names"),
    [
        pytest.param({"mirror": "dr.paused"}, None, ["INVALID_MIRROR_NAME"], id="forbidden suffix"),
        pytest.param({"include": ("(",)}, None, ["INVALID_CONFIG"], id="not a regular expression"),
        pytest.param({"include": ("(a+)+",)}, None, ["INVALID_CONFIG"], id="a regular expression of death"),
        pytest.param({"include": ("nope",)}, None, ["UNKNOWN_TOPIC"], id="no such topic"),
        pytest.param({"include": ("orders", "n1", "n2")}, None, ["UNKNOWN_TOPIC"] * 2, id="two typing mistakes"),
        pytest.param({"delivery": Delivery.AT_LEAST_ONCE}, None, ["INVALID_CONFIG"], id="at least once"),
        pytest.param({"engine": Engine.RECORDS}, None, ["UNSUPPORTED_VERSION"], id="records engine"),
        pytest.param({"replication_factor": 0}, None, ["INVALID_CONFIG"], id="replication factor 0"),
        pytest.param({"replication_factor": 9}, None, ["INVALID_CONFIG"], id="more replicas than brokers"),
        pytest.param({}, lambda e, w: die(e), ["UNREACHABLE"], id="source dead"),
        pytest.param({}, die, ["UNREACHABLE"] * 2, id="both dead"),
        pytest.param({}, lambda e, w: setattr(w, "id", "id-east"), ["SAME_CLUSTER"], id="onto itself"),
        pytest.param({}, lambda e, w: w.with_topic("orders", 3, 5), ["DESTINATION_TOPIC_NOT_EMPTY"], id="has data"),
        pytest.param({}, lambda e, w: w.with_topic("orders", 2), ["TOPIC_MISMATCH"], id="another partition count"),
        pytest.param({}, lambda e, w: deny(e, "READ", "orders"), ["MIRROR_AUTHORIZATION_FAILED"], id="no READ"),
        pytest.param(
            {},
            lambda e, w: deny(w, "CREATE", "orders", CLUSTER),
            ["MIRROR_AUTHORIZATION_FAILED"],
            id="no CREATE",
        ),
        pytest.param({}, lambda e, w: setattr(w, "brokers", 1), ["UNSAFE_STATE_TOPIC"] * 2, id="too few brokers"),
        pytest.param(
            {"mirror": "x.removed", "include": ("(", "[")},
            lambda e, w: die(e),
            ["INVALID_CONFIG", "INVALID_CONFIG", "INVALID_MIRROR_NAME", "UNREACHABLE"],
            id="everything at once",
        ),
    ],
)
def test_bad_input_is_refused_by_name_and_changes_nothing(
    east: MemoryCluster,
    west: MemoryCluster,
    request_: dict[str, Any],
    change: Callable[[MemoryCluster, MemoryCluster], object] | None,
    names: list[str],
) -> None:
    sides = (replace(east.side()), replace(west.side(), small_state=False))
    if change:
        change(east, west)
    before = set(west.topics)
    with pytest.raises(errors.TanistError) as refused:
        create(replace(REQUEST, **request_), *sides, a_command())
    assert sorted(problem.name for problem in each(refused.value)) == sorted(names)
    assert not west.calls
    assert not east.calls
    assert set(west.topics) == before
    assert not west.view(STATE_TOPIC)


def test_another_spec_under_the_same_name_is_refused(east: MemoryCluster, west: MemoryCluster) -> None:
    create(REQUEST, east.side(), west.side(), a_command())
    with pytest.raises(errors.MirrorExists, match="include"):
        create(replace(REQUEST, include=("payments",)), east.side(), west.side(), a_command())


def test_a_name_that_leads_to_another_cluster_now_is_refused(east: MemoryCluster, west: MemoryCluster) -> None:
    create(REQUEST, east.side(), west.side(), a_command())
    east.id = "another"
    with pytest.raises(errors.AnotherCluster):
        create(REQUEST, east.side(), west.side(), a_command())


def test_a_topic_belongs_to_one_mirror(east: MemoryCluster, west: MemoryCluster) -> None:
    create(REQUEST, east.side(), west.side(), a_command())
    with pytest.raises(errors.TopicAlreadyInMirror, match="dr"):
        create(replace(REQUEST, mirror="dr2"), east.side(), west.side(), a_command())


def test_lost_contact_half_way_is_told_as_partial(east: MemoryCluster, west: MemoryCluster) -> None:
    side = west.side()
    west.with_topic(OFFSETS_TOPIC).with_topic(STATE_TOPIC)

    class Dying:
        def new_producer_id(self, by: object) -> int:
            raise errors.Unreachable("west:9092")

        ends = side.logs.ends

    with pytest.raises(errors.Interrupted):
        create(REQUEST, east.side(), replace(side, logs=Dying()), a_command())  # type: ignore[arg-type]


def test_the_gravest_problem_is_the_exit_code() -> None:
    several = Problems([errors.UnknownTopic("a"), errors.Unreachable("b"), errors.Misconfigured("c")])
    assert exit_code(several) == 2
    assert exit_code(errors.UnknownTopic("a")) == 1


@pytest.mark.parametrize("records", [10, 0])
def test_a_topic_that_is_copied_from_here_is_not_copied_back_beside_it(records: int) -> None:
    """It was refused as not empty, with the advice to delete it: the original, with its producers."""
    east, west = MemoryCluster("east").with_topic("orders", 1, records), MemoryCluster("west")
    create(REQUEST, east.side(), west.side(), a_command())
    with pytest.raises(OppositeMirror, match="mirror 'dr' copies it from here") as refused:
        create(replace(REQUEST, mirror="back"), west.side(), east.side(), a_command())
    assert "delete" not in str(refused.value)
    assert not east.calls


@pytest.mark.parametrize("records", [10, 0])
@pytest.mark.parametrize("adopted", [False, True])
def test_an_original_that_somebody_else_copies_is_not_copied_back(records: int, adopted: bool) -> None:
    """It was adopted, and closed to its producers: its copy has the same name."""
    east, west = GuardedCluster("east").with_topic("orders", 1, records), GuardedCluster("west")
    west.with_topic("orders", 1, records)
    follow(
        FollowRequest(mirror="mm", copied_by=Copier.OTHER, include=("ord.*",)), east.side(), west.side(), a_command()
    )
    before = len(east.calls)
    prefixes: Any = SimpleNamespace(adoptable=lambda *_: {}) if adopted else None
    with pytest.raises(OppositeMirror, match="another replicator copies it from here") as refused:
        create(replace(REQUEST, mirror="back"), west.side(), east.side(), a_command(), prefixes)
    assert "`tanist next mm --destination west`" in str(refused.value)
    assert len(east.calls) == before


def test_copies_of_other_names_have_no_original_here() -> None:
    east, west = GuardedCluster("east").with_topic("orders", 1, 10), GuardedCluster("west")
    west.with_topic("east.orders", 1, 10)
    request = FollowRequest(mirror="mm", copied_by=Copier.MM2, include=("ord.*",), rename=("mm2-default",))
    follow(request, east.side(), west.side(), a_command())
    wanted = CreateRequest(mirror="back", include=("east.*",))
    assert create(wanted, west.side(), east.side(), a_command(dry_run=True)).changed
