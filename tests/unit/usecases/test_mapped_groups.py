"""Groups of a mirror with mapped offsets: they go on at their very next records, and the mirror's own group is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.anchors import anchored
from tanist.domain.fake_group import group_of
from tanist.domain.names import DestinationOffset, TopicPartition
from tanist.domain.reconciliation.job import PositionRequest
from tanist.domain.records import OFFSETS_TOPIC
from tanist.domain.translation import Conservative, Exact
from tanist.usecases.groups.explain import explain
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.listing import list_groups
from tanist.usecases.groups.sync import SyncRequest, sync_groups
from tanist.usecases.offsets.lookup import LookupRequest, lookup
from tests.builders import AT, DR, a_command
from tests.fakes.cluster import pair_with
from tests.fakes.logs import MemoryLogs
from tests.unit.usecases.mapped import RUNS, SPEC, MappedMirror, Same

if TYPE_CHECKING:
    import pytest

    from tanist.domain.anchors import Walked
    from tanist.ports.clock import Deadline
    from tanist.usecases.groups.sync import GroupSyncResult

THERE = TopicPartition(*AT)
GROUPS = {"early": 5, "between": 19, "later": 25, "end": 30, "ahead": 37}


def a_mirror_with_groups(published: int = 2) -> tuple[MappedMirror, Same]:
    proofs = Same()
    mirror = MappedMirror(pair=pair_with(proofs=proofs))
    mirror.copy(published=published)
    for group, offset in GROUPS.items():
        mirror.source_groups.commit(group, THERE, offset)
    mirror.source_groups.commit(group_of(DR), THERE, 7, "of a mirror whose destination this source is")
    return mirror, proofs


def synced(mirror: MappedMirror, chosen: Chosen = Chosen()) -> GroupSyncResult:  # noqa: B008 -- frozen
    return sync_groups(mirror.clusters(), SyncRequest(chosen=chosen), a_command(clock=mirror.west.clock))


def test_groups_go_on_at_their_very_next_records_and_those_ahead_where_the_copy_goes_on() -> None:
    mirror, proofs = a_mirror_with_groups()
    done = synced(mirror)
    found = {row.group: row.translation for row in done.rows}
    assert {group: each.offset for group, each in found.items() if isinstance(each, Exact)} == {
        "early": 5,
        "between": 20,
        "later": 28,
        "end": 34,
    }
    ahead = found["ahead"]
    assert isinstance(ahead, Conservative)
    assert (ahead.offset, ahead.ahead) == (34, 7)
    assert sorted(proofs.asked) == [(5, 5), (19, 20), (25, 28), (30, 34)]
    now = {group: mirror.groups.groups[group].now(THERE) for group in GROUPS}
    assert {group: each.offset for group, each in now.items() if each} == {
        group: each.offset for group, each in found.items() if isinstance(each, Exact | Conservative)
    }


def anchored_mirror() -> MappedMirror:
    """Of whose map only two anchors are left, and the end."""
    mirror, _ = a_mirror_with_groups(published=0)
    mirror.commit(30, mirror.proof(RUNS[-1], RUNS[-1:]).metadata)
    anchors = anchored(DR, SPEC.mirror_id, AT, RUNS, (RUNS[0], RUNS[-1]))
    mirror.west.write(OFFSETS_TOPIC, anchors)
    mirror.west.control |= {(THERE, n) for n in (10, 21, 33)}
    mirror.west.aborted |= {(THERE, 22)}
    return mirror


def test_between_anchors_the_log_of_the_copy_is_read_once_also_if_the_source_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirror = anchored_mirror()
    walks: list[tuple[int, int]] = []
    walk = MemoryLogs.walk

    def counted(self: MemoryLogs, at: TopicPartition, span: tuple[int, int], by: Deadline) -> Walked:
        walks.append(span)
        return walk(self, at, span, by)

    monkeypatch.setattr(MemoryLogs, "walk", counted)
    found = {row.group: row.translation for row in synced(mirror).rows}
    assert {group: each.offset for group, each in found.items() if isinstance(each, Exact)} == {
        "early": 5,
        "between": 20,
        "later": 28,
        "end": 34,
    }
    assert walks == [(0, 34)]


def test_a_log_that_somebody_else_has_written_to_gives_a_lower_bound_with_the_reason() -> None:
    mirror = anchored_mirror()
    mirror.west.aborted.clear()
    found = {row.group: row.translation for row in synced(mirror).rows}
    for group in ("early", "between", "later"):
        each = found[group]
        assert isinstance(each, Conservative)
        assert each.offset == 0
        assert "up to 34 offset(s) before the exact one" in each.why
        assert "31 record(s) from offset 0 up to 34, of 30" in each.why
    assert found["end"] == Exact(DestinationOffset(34))


def test_the_mirrors_own_group_is_neither_listed_nor_committed() -> None:
    mirror, _ = a_mirror_with_groups()
    before = mirror.groups.groups[group_of(DR)].now(THERE)
    for chosen in (Chosen(), Chosen(names=frozenset({group_of(DR)}))):
        assert group_of(DR) not in {row.group for row in synced(mirror, chosen).rows}
    listed = list_groups(mirror.clusters(), Chosen(), a_command(clock=mirror.west.clock))
    assert {line.group for line in listed.lines} == GROUPS.keys()
    assert mirror.groups.groups[group_of(DR)].now(THERE) == before


def test_without_the_mirrors_position_a_group_goes_on_no_later_than_what_was_published() -> None:
    mirror, _ = a_mirror_with_groups()
    mirror.groups.groups.clear()
    done = synced(mirror)
    rows = {row.group: row for row in done.rows}
    assert {group: row.offset for group, row in rows.items()} == {
        "early": 5,
        "between": 11,
        "later": 11,
        "end": 11,
        "ahead": 11,
    }
    assert not any(row.clamped for row in rows.values()), "nobody knows whether a group is ahead"
    assert "has no position of the copy" in rows["later"].reason
    assert "map: known up to source 10" in "\n".join(explain(rows["later"], done.seen))


def test_a_position_outside_kafka_is_translated_as_those_of_groups() -> None:
    mirror, _ = a_mirror_with_groups()
    asked = tuple(PositionRequest(AT.topic, AT.partition, offset, None) for offset in GROUPS.values())
    found = lookup(mirror.clusters(), LookupRequest(positions=asked), a_command(clock=mirror.west.clock))
    assert [each.row.offset for each in found.found] == [5, 20, 28, 34, 34]


def test_positions_are_translated_while_the_source_is_down() -> None:
    mirror, _ = a_mirror_with_groups()
    mirror.east.dead = True
    asked = tuple(PositionRequest(AT.topic, AT.partition, offset, None) for offset in GROUPS.values())
    clusters = replace(mirror.clusters(), pair=mirror.pair)
    found = lookup(clusters, LookupRequest(positions=asked), a_command(clock=mirror.west.clock))
    assert [each.row.offset for each in found.found] == [5, 20, 28, 34, 34]
    assert found.source_down is not None
