"""When a copy was last caught up is stored by its worker and known to the next one."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.compaction import DEFAULT_DELETE_RETENTION_MS, DELETE_RETENTION, Holes
from tanist.domain.names import EpochMs, SourceOffset
from tanist.domain.state_record import state_partition_of
from tanist.domain.state_view import NOTHING_YET, fold
from tanist.domain.topic_configs import plan_configs
from tanist.fetcher.assignment import PartitionKey, Report
from tanist.fetcher.planning import assigned, owned
from tanist.fetcher.source_ends import Contact, source_ends
from tests.builders import AT, DR, a_mirror, a_partition, a_topic

SLICE = state_partition_of(DR, AT, 50)
SPEC = a_mirror()
TOPIC = a_topic(source_topic_id="", deferred_configs=(("cleanup.policy", "compact"), (DELETE_RETENTION, "60000")))
COPIED = a_partition()
REPORT = Report(
    source_high_watermark=SourceOffset(9),
    source_last_stable=SourceOffset(9),
    observed_at=EpochMs(70_000),
    caught_up_at=EpochMs(50_000),
    position=SourceOffset(7),
)


def test_the_next_worker_knows_it_and_the_same_worker_is_not_assigned_again_for_it() -> None:
    view = fold(NOTHING_YET, [SPEC, TOPIC, COPIED])
    mine = owned(view, frozenset({SLICE}), 50)
    key = PartitionKey(DR, AT)
    first = assigned(mine, view, {SLICE: 1}, {}, ())
    assert (first[key].caught_up_at, first[key].tombstones_kept_ms) == (None, 60_000)
    later = fold(view, source_ends(mine, {key: REPORT}, {key: Contact()}, view, {}, {}).values())
    assert assigned(mine, later, {SLICE: 1}, first, ())[key] is first[key]
    after = assigned(mine, later, {SLICE: 2}, {}, ())[key]
    assert (after.caught_up_at, after.copied_until) == (50_000, 7)


def test_a_mirror_of_an_earlier_version_has_the_default_of_kafka() -> None:
    view = fold(NOTHING_YET, [SPEC, replace(TOPIC, deferred_configs=(("cleanup.policy", "compact"),)), COPIED])
    [found] = assigned(owned(view, frozenset({SLICE}), 50), view, {SLICE: 1}, {}, ()).values()
    assert found.tombstones_kept_ms == DEFAULT_DELETE_RETENTION_MS


def test_a_mirror_topic_keeps_tombstones_as_long_as_the_source_does() -> None:
    """Also where only the brokers of the source say for how long."""
    effective = {"cleanup.policy": "compact", DELETE_RETENTION: "60000"}
    planned = plan_configs({"cleanup.policy": "compact"}, effective, holes=Holes.COPIES)
    assert planned.now[DELETE_RETENTION] == "60000"
    assert dict(planned.deferred)[DELETE_RETENTION] == "60000"
    assert DELETE_RETENTION not in plan_configs({}, effective | {"cleanup.policy": "delete"}, holes=Holes.COPIES).now
