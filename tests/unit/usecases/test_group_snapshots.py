"""Committed offsets of a cluster: saved, and brought back for groups without members."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import GroupAuthorizationFailed
from tanist.domain.errors import TanistError, Unreachable
from tanist.domain.fake_group import group_of
from tanist.domain.names import EpochMs, TopicPartition
from tanist.ports.positions import CommittedPosition
from tanist.usecases.groups.restore import Restored, RestoreSteps, restore, restored_item
from tanist.usecases.groups.restoring import PositionChange
from tanist.usecases.groups.snapshots import (
    GroupNotInSnapshot,
    GroupSnapshot,
    NoGroupRead,
    SavedGroup,
    SnapshotInvalid,
    SnapshotOfAnotherCluster,
    take,
)
from tanist.wiring import group_snapshot_file
from tanist.wiring.line_file import FileExists, FileNotWritten
from tests.builders import DR, a_command
from tests.fakes.failover import GuardedCluster, MemoryReplicas
from tests.fakes.positions import BEFORE_END, BEFORE_PENDING, BEFORE_READ, MemoryGroups, MemoryPositions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import ClusterSeen
    from tanist.ports.positions import CommittedOf

EVERY = (".*",)
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
OURS = "tanist dr east@7"


class Killed(BaseException):
    """The process is gone."""


class SomeRefused(MemoryPositions):
    """Groups whose names begin with `secret` are not described."""

    def committed(
        self, groups: Sequence[str], by: Deadline, *, stable: bool = True
    ) -> Mapping[str, CommittedOf | TanistError]:
        found = dict(super().committed(groups, by, stable=stable))
        return {
            name: GroupAuthorizationFailed("DESCRIBE") if name.startswith("secret") else each
            for name, each in found.items()
        }


class Untold(MemoryReplicas):
    """The cluster tells no topic ids."""

    def cluster(self, topics: Sequence[str], by: Deadline) -> ClusterSeen:
        return replace(super().cluster(topics, by), topic_ids={})


@dataclass
class Consuming:
    """A cluster with a topic of 100 records in each of two partitions."""

    west: GuardedCluster = field(default_factory=lambda: GuardedCluster("west").with_topic("orders", 2, 100))
    groups: MemoryGroups = field(init=False)
    said: list[str] = field(default_factory=list)
    shown: list[Restored] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups = MemoryGroups(self.west)

    def side(self, checkpoint: Callable[[str], None] = lambda _: None) -> Cluster:
        def positions(mirror: MirrorName) -> SomeRefused:
            return SomeRefused(self.groups, mirror, checkpoint)

        return replace(self.west.side(), positions=positions)

    def take(self, *groups: str) -> GroupSnapshot:
        return take(self.side(), groups or EVERY, a_command(clock=self.west.clock), self.said.append)

    def restore(
        self, saved: GroupSnapshot, checkpoint: Callable[[str], None] = lambda _: None, *, dry_run: bool = False
    ) -> Restored:
        steps = RestoreSteps(confirm=self.shown.append, say=self.said.append)
        return restore(saved, self.side(checkpoint), steps, a_command(clock=self.west.clock, dry_run=dry_run))

    def stands(self, group: str) -> dict[TopicPartition, CommittedPosition]:
        return {at: now for at, (_, now) in self.groups.groups[group].positions.items()}


@pytest.fixture
def consuming() -> Consuming:
    """Three groups: one with two partitions, one of ours, one with nothing committed."""
    made = Consuming()
    made.groups.commit("billing", A, 10, "mine")
    made.groups.commit("billing", B, 20)
    made.groups.commit("mirrored", A, 7, OURS)
    made.groups.group("idle")
    return made


def changes(found: Restored) -> dict[tuple[str, str], PositionChange]:
    return {(row.group, str(row.partition)): row.change for row in found.rows}


def whys(found: Restored) -> list[str]:
    return [row.why for row in found.of(PositionChange.WITHHELD)]


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_taken_is_read_back_as_it_was(consuming: Consuming, tmp_path: Path) -> None:
    consuming.groups.commit("secret", A, 1)
    consuming.groups.commit("ü/\0\u2028", A, 1, "ä\0\u2028")
    consuming.groups.silent = (Unreachable("broker 3 is away"),)
    pending = consuming.groups.init("theirs")
    consuming.groups.send("theirs", pending, "billing", {B: CommittedPosition(21, "")})
    saved, file = consuming.take(), tmp_path / "groups.jsonl"
    group_snapshot_file.write(saved, file, overwrite=False)
    assert group_snapshot_file.read(file) == saved
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    assert saved.topic_ids == {"orders": "id-of-orders"}
    assert [each.group for each in saved.incomplete] == ["billing", "secret"]
    assert (saved.count, len(saved.silent)) == (3, 1)


def test_a_mirrors_own_position_is_neither_taken_nor_restored(consuming: Consuming) -> None:
    """Set back, it would make the mirror copy the records behind it twice."""
    fake = group_of(DR)
    consuming.groups.commit(fake, A, 30, "tanist proof")
    saved = consuming.take()
    assert fake not in {each.group for each in saved.groups}
    assert fake not in {row.group for row in consuming.restore(saved).rows}
    by_hand = SavedGroup(group=fake, kind="classic", positions={A: CommittedPosition(20, "tanist proof")})
    done = consuming.restore(replace(saved, groups=(by_hand,)))
    assert whys(done) == ["it holds the positions of a mirror itself, which only the mirror commits"]
    assert consuming.stands(fake) == {A: CommittedPosition(30, "tanist proof")}


def test_a_file_that_exists_is_only_replaced_on_request(consuming: Consuming, tmp_path: Path) -> None:
    file = tmp_path / "groups.jsonl"
    file.write_text("precious")
    with pytest.raises(FileExists):
        group_snapshot_file.write(consuming.take(), file, overwrite=False)
    assert file.read_text() == "precious"
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    group_snapshot_file.write(consuming.take(), file, overwrite=True)
    assert group_snapshot_file.read(file).count == 3
    with pytest.raises(FileNotWritten):
        group_snapshot_file.write(consuming.take(), tmp_path / "absent" / "file", overwrite=False)


def _with(line: dict[str, object], *, at: int = 2) -> Callable[[list[str]], list[str]]:
    """The file with line `at` (from 0) changed, and closed as if it had been written so."""

    def change(lines: list[str]) -> list[str]:
        body = [*lines[1:-1]]
        body[at - 1] = json.dumps({**json.loads(body[at - 1]), **line})
        return _closed(lines[0], body)

    return change


def _closed(head: str, body: list[str]) -> list[str]:
    digest = hashlib.sha256("".join(body).encode()).hexdigest()
    return [head, *body, json.dumps({"records": len(body), "sha256": digest})]


BILLING = {"topic": "orders", "partition": 0, "offset": 10, "metadata": ""}
BAD: dict[str, Callable[[list[str]], list[str]]] = {
    "is empty": lambda _: [],
    "no snapshot of groups": lambda lines: ['{"format": "tanist-state", "version": 1}', *lines[1:]],
    "has version 2": lambda lines: [json.dumps(json.loads(lines[0]) | {"version": 2}), *lines[1:]],
    "has version True": lambda lines: [json.dumps(json.loads(lines[0]) | {"version": True}), *lines[1:]],
    "not the header of version 1": lambda lines: [json.dumps(json.loads(lines[0]) | {"more": 1}), *lines[1:]],
    "is not complete": lambda lines: lines[:-1],
    "was altered": lambda lines: [*lines[:2], lines[2].replace("10", "11"), *lines[3:]],
    "unknown field 'more'": _with({"more": 1}),
    "'kind' is missing, or has": _with({"kind": 1}),
    "group 'billing' is there twice": lambda lines: _closed(lines[0], [*lines[1:-1], lines[2]]),
    "a position of orders-0 is there twice": _with({"positions": [BILLING, BILLING]}),
    "orders-0 is there twice": _with({"unread": [{"topic": "orders", "partition": 0, "reason": "x"}]}),
    "-1 is not a valid offset": _with({"positions": [BILLING | {"offset": -1}]}),
    "-1 is not a valid partition": _with({"positions": [BILLING | {"partition": -1}]}),
    "'offset' is missing, or has": _with({"positions": [BILLING | {"offset": True}]}),
    "is not an object": _with({"positions": [7]}),
    "line 2: unknown field": _with({"more": 1}, at=1),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_file_that_is_not_what_was_written_is_refused(consuming: Consuming, tmp_path: Path, reason: str) -> None:
    file = tmp_path / "groups.jsonl"
    group_snapshot_file.write(consuming.take(), file, overwrite=False)
    file.write_text("".join(f"{line}\n" for line in BAD[reason](file.read_text().splitlines())))
    with pytest.raises(SnapshotInvalid, match=reason):
        group_snapshot_file.read(file)


def test_a_file_that_is_absent_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("absent", "binary"):
        with pytest.raises(SnapshotInvalid, match=name):
            group_snapshot_file.read(tmp_path / name)


# ── taking one ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_groups_are_chosen_by_their_whole_names_and_share_groups_left_out(consuming: Consuming) -> None:
    consuming.groups.group("shared", "share")
    assert [each.group for each in consuming.take().groups] == ["billing", "idle", "mirrored"]
    assert [each.group for each in consuming.take("bill.*", "i").groups] == ["billing"]


def test_the_progress_of_many_groups_is_reported(consuming: Consuming) -> None:
    consuming.take()
    assert consuming.said == []
    for number in range(1200):
        consuming.groups.commit(f"g{number}", A, 1)
    consuming.take("g.*")
    assert consuming.said == [f"read {n} of 1200 groups" for n in (500, 1000, 1200)]


def test_where_no_group_can_be_read_there_is_no_snapshot(consuming: Consuming) -> None:
    consuming.groups.commit("secret", A, 1)
    with pytest.raises(NoGroupRead):
        consuming.take("secret")


# ── restoring one ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_offset_is_brought_back_word_for_word_and_the_second_time_nothing_is_done(consuming: Consuming) -> None:
    saved = consuming.take()
    before = {name: consuming.stands(name) for name in ("billing", "mirrored")}
    consuming.groups.commit("billing", A, 90, "later")
    consuming.groups.commit("billing", B, 5)
    consuming.groups.commit("mirrored", A, 7, "other words")
    first = consuming.restore(saved)
    assert changes(first) == {
        ("billing", "orders-0"): PositionChange.BACKWARDS,
        ("billing", "orders-1"): PositionChange.FORWARDS,
        ("mirrored", "orders-0"): PositionChange.METADATA,
    }
    assert all(row.restored for row in first.rows)
    assert [row.group for row in first.rows if row.is_of_a_mirror] == ["mirrored"]
    assert first.summary == "restored 3 offset(s) of 2 group(s): 1 backwards, 1 forwards, 1 metadata"
    assert {name: consuming.stands(name) for name in before} == before
    second = consuming.restore(saved)
    assert set(changes(second).values()) == {PositionChange.SAME}
    assert (second.summary, second.exit_code) == ("nothing to change; 3 the same already", 0)
    assert len(consuming.shown) == 1, "nobody is asked about nothing"


def test_a_dry_run_shows_the_same_and_commits_nothing(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.commit("billing", A, 90)
    shown = consuming.restore(saved, dry_run=True)
    assert shown.summary == "would restore 1 offset(s) of 1 group(s): 1 backwards; 2 the same already"
    assert consuming.stands("billing")[A].offset == 90
    assert (consuming.shown, consuming.groups.transactions) == ([], {})
    assert restored_item(shown.rows[0]) == {
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "change": "backwards",
        "snapshot_offset": 10,
        "present_offset": 90,
        "restored": False,
        "reason": "",
        "error": None,
    }


def test_what_is_not_confirmed_is_not_committed(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.commit("billing", A, 90)

    def refuse(_plan: Restored) -> None:
        raise Killed

    with pytest.raises(Killed):
        restore(saved, consuming.side(), RestoreSteps(confirm=refuse, say=print), a_command(clock=consuming.west.clock))
    assert (consuming.stands("billing")[A].offset, consuming.groups.transactions) == (90, {})


def test_a_group_with_members_is_withheld_and_the_others_are_restored(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.commit("billing", A, 90)
    consuming.groups.commit("mirrored", A, 90)
    consuming.groups.group("billing").members = 2
    done = consuming.restore(saved)
    assert changes(done) == {
        ("billing", "orders-0"): PositionChange.WITHHELD,
        ("billing", "orders-1"): PositionChange.SAME,
        ("mirrored", "orders-0"): PositionChange.BACKWARDS,
    }
    assert "2 member(s)" in whys(done)[0]
    assert (consuming.stands("billing")[A].offset, consuming.stands("mirrored")[A].offset) == (90, 7)
    assert done.exit_code == 4


def test_a_member_that_joins_after_the_look_keeps_its_offset(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.commit("billing", A, 90)

    def joins(point: str) -> None:
        if point == BEFORE_PENDING:
            consuming.groups.group("billing").members = 1

    done = consuming.restore(saved, joins)
    assert [restored_item(row)["error"] for row in done.rows if row.error] == ["UNKNOWN_MEMBER_ID"]
    assert (done.exit_code, consuming.stands("billing")[A].offset) == (4, 90)
    assert done.summary == "restored 0 offset(s) of 0 group(s); 2 the same already; 1 failed"


def test_an_offset_that_moves_after_the_look_stays(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.commit("billing", A, 90)

    def commits(point: str) -> None:
        if point == BEFORE_READ:
            consuming.groups.commit("billing", A, 91)

    done = consuming.restore(saved, commits)
    assert [restored_item(row)["error"] for row in done.rows if row.error] == ["COMMITTED_OFFSET_MOVED"]
    assert consuming.stands("billing")[A].offset == 91


def test_offsets_that_lie_in_no_log_are_withheld_with_the_reason(consuming: Consuming) -> None:
    """Before the log start, behind its end, of a topic that is gone, and of one that was made again."""
    for topic in ("gone", "again"):
        consuming.west.with_topic(topic, 1, 100)
        consuming.groups.commit("others", TopicPartition(topic, 0), 10)
    saved = consuming.take()
    for at in (A, B):
        consuming.groups.commit("billing", at, 50)
    consuming.groups.commit("others", TopicPartition("again", 0), 3)
    consuming.groups.groups["others"].positions.pop(TopicPartition("gone", 0))
    consuming.west.topics.pop("gone")
    consuming.west.ends.pop(TopicPartition("gone", 0))
    consuming.west.topics["again"] = replace(consuming.west.topics["again"], topic_id="another")
    consuming.west.ends |= {A: (40, 100, 100), B: (0, 15, 15)}
    done = consuming.restore(saved)
    assert whys(done) == [
        "the records at 10 were deleted: the log begins at 40",
        "20 is behind the end of the log, 15",
        "topic 'again' was deleted and created again since: its offsets are those of other records",
        "gone-0 does not exist any more",
    ]
    assert not any(row.restored for row in done.rows)
    assert done.exit_code == 4


def test_a_topic_that_was_made_again_is_withheld_without_the_right_to_its_configs(consuming: Consuming) -> None:
    consuming.west.denied.add(("DESCRIBE_CONFIGS", "orders"))
    saved = consuming.take()
    assert saved.topic_ids == {"orders": "id-of-orders"}
    consuming.west.topics["orders"] = replace(consuming.west.topics["orders"], topic_id="another")
    consuming.groups.commit("billing", A, 50, "mine")
    done = consuming.restore(saved)
    assert whys(done) == ["topic 'orders' was deleted and created again since: its offsets are those of other records"]
    assert (consuming.stands("billing")[A].offset, done.exit_code) == (50, 4)


def test_a_topic_whose_id_is_not_told_any_more_is_withheld(consuming: Consuming) -> None:
    """It may have been made again. A snapshot without ids is of a cluster that has none: nothing is to be compared."""
    saved = consuming.take()
    untold = replace(consuming.side(), replicas=Untold(consuming.west))
    consuming.groups.commit("billing", A, 50, "mine")
    steps = RestoreSteps(confirm=consuming.shown.append, say=consuming.said.append)
    done = restore(saved, untold, steps, a_command(clock=consuming.west.clock))
    assert whys(done) == ["whether topic 'orders' was created again since is unknown: the cluster does not tell its id"]
    assert (consuming.stands("billing")[A].offset, done.exit_code) == (50, 4)
    without = restore(replace(saved, topic_ids={}), untold, steps, a_command(clock=consuming.west.clock))
    assert (consuming.stands("billing")[A].offset, without.exit_code) == (10, 0)


def test_the_end_of_a_log_is_an_offset_of_it(consuming: Consuming) -> None:
    consuming.groups.commit("billing", A, 100)
    saved = consuming.take()
    consuming.groups.commit("billing", A, 5)
    assert consuming.restore(saved).rows[0].restored


def test_the_first_offset_behind_the_end_of_a_log_is_withheld(consuming: Consuming) -> None:
    """A consumer that begins there finds its offset out of range, and jumps to where `auto.offset.reset` says."""
    consuming.groups.commit("billing", A, 101)
    saved = consuming.take()
    consuming.groups.commit("billing", A, 5)
    assert whys(consuming.restore(saved)) == ["101 is behind the end of the log, 100"]
    assert consuming.stands("billing")[A].offset == 5


def test_a_group_that_is_gone_is_created_and_what_the_snapshot_has_not_stays(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.groups.pop("billing")
    consuming.groups.commit("mirrored", B, 33)
    done = consuming.restore(saved)
    assert changes(done) == {
        ("billing", "orders-0"): PositionChange.CREATED,
        ("billing", "orders-1"): PositionChange.CREATED,
        ("mirrored", "orders-0"): PositionChange.SAME,
        ("mirrored", "orders-1"): PositionChange.KEPT,
    }
    assert consuming.stands("mirrored")[B].offset == 33
    assert consuming.stands("billing")[B].offset == 20
    assert done.summary == (
        "restored 2 offset(s) of 1 group(s): 2 created; 1 the same already; 1 not in the snapshot, left as they are"
    )


def test_a_group_that_a_sync_created_is_told_with_the_command_that_removes_it(consuming: Consuming) -> None:
    """A restore deletes nothing, and said "nothing to change" of it."""
    saved = consuming.take()
    consuming.groups.commit("new's", A, 50, OURS)
    consuming.groups.commit("new's", B, 50, OURS)
    consuming.groups.commit("used", A, 50, OURS)
    consuming.groups.commit("used", B, 50, "mine")
    consuming.groups.commit("theirs", A, 50, "mine")
    consuming.groups.group("shared", "share")
    done = consuming.restore(saved)
    new = done.of(PositionChange.NEW)
    assert [(row.group, row.partition) for row in new] == [("new's", None), ("used", None)]
    assert new[0].reason == (
        "created since the snapshot: left as it is; all its offsets are those that Tanist "
        f"committed; `kafka-consumer-groups.sh --bootstrap-server {consuming.side().bootstrap} --delete --group "
        "'new'\"'\"'s'` of Apache Kafka deletes it"
    )
    assert "--delete" not in new[1].reason
    assert (done.exit_code, consuming.shown) == (0, []), "they are only told"
    assert done.summary == "nothing to change; 3 the same already; 2 group(s) not in the snapshot, left as they are"
    assert restored_item(new[0])["topic"] is None
    assert consuming.stands("new's")[A].offset == 50


def test_groups_that_are_not_to_be_restored_are_not_told_as_new(consuming: Consuming) -> None:
    """They may well be in the file."""
    saved = consuming.take().only(("bill.*",))
    consuming.groups.commit("billing-new", A, 50, OURS)
    consuming.groups.commit("new", A, 50, OURS)
    assert [row.group for row in consuming.restore(saved).of(PositionChange.NEW)] == ["billing-new"]


def test_groups_that_a_snapshot_of_some_groups_did_not_take_are_not_told_as_new(
    consuming: Consuming, tmp_path: Path
) -> None:
    """They were there before it, and the command that deletes them would have been shown."""
    taken, file = consuming.take("bill.*"), tmp_path / "some.jsonl"
    group_snapshot_file.write(taken, file, overwrite=False)
    saved = group_snapshot_file.read(file)
    assert saved == taken
    consuming.groups.commit("billing-new", A, 50, OURS)
    consuming.groups.commit("billed", A, 50, OURS)
    new = consuming.restore(saved.only(("billing.*",))).of(PositionChange.NEW)
    assert [row.group for row in new] == ["billing-new"], "mirrored, of Tanist too, was not to be taken"


@pytest.mark.parametrize("chosen", ["bill.*", [1], [None], ["("]])
def test_a_snapshot_whose_expressions_are_none_is_refused(consuming: Consuming, tmp_path: Path, chosen: object) -> None:
    file = tmp_path / "some.jsonl"
    group_snapshot_file.write(consuming.take("bill.*"), file, overwrite=False)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps(json.loads(lines[0]) | {"chosen": chosen}), *lines[1:], ""]))
    with pytest.raises(SnapshotInvalid, match="not the header of version 1"):
        group_snapshot_file.read(file)


def test_a_group_outside_of_the_snapshot_that_cannot_be_read_may_be_one_of_tanist(consuming: Consuming) -> None:
    saved = replace(consuming.take(), silent=("UNREACHABLE: broker 3",))
    consuming.groups.commit("secret", A, 1)
    consuming.groups.commit("new", A, 50, OURS)
    new, secret = consuming.restore(saved).of(PositionChange.NEW)
    assert "created since the snapshot, or on a broker that was silent when it was taken: left" in new.reason
    assert "whether Tanist has committed for it is unknown" in secret.reason


def test_a_group_that_nobody_lists_may_have_members_while_brokers_are_silent(consuming: Consuming) -> None:
    saved = consuming.take()
    consuming.groups.groups.pop("billing")
    consuming.groups.silent = (Unreachable("broker 3 is away"),)
    done = consuming.restore(saved)
    assert "broker 3 is away" in whys(done)[0]
    assert "billing" not in consuming.groups.groups


def test_what_could_not_be_read_then_or_now_is_named(consuming: Consuming) -> None:
    consuming.groups.commit("secret", A, 1)
    saved = consuming.take()
    unread = SavedGroup(group="half", kind="classic", unread={A: "x"})
    locked = SavedGroup(group="secret-now", kind="classic", positions={A: CommittedPosition(1, "")})
    done = consuming.restore(replace(saved, groups=(*saved.groups, unread, locked)))
    assert [(row.group, str(row.partition), row.why.split(":")[0]) for row in done.of(PositionChange.WITHHELD)] == [
        ("secret", "None", "it could not be read when the snapshot was taken"),
        ("half", "orders-0", "it could not be read when the snapshot was taken"),
        ("secret-now", "orders-0", "the offsets that are committed now are unknown"),
    ]
    assert done.exit_code == 4


def test_another_cluster_is_refused_before_anything_is_looked_at(consuming: Consuming) -> None:
    saved = replace(consuming.take(), cluster_id="id-other")
    with pytest.raises(SnapshotOfAnotherCluster, match="id-other"):
        consuming.restore(saved)
    assert consuming.shown == []


def test_some_groups_of_a_snapshot_are_chosen(consuming: Consuming) -> None:
    saved = consuming.take()
    assert [each.group for each in saved.only(("mirr.*",)).groups] == ["mirrored"]
    with pytest.raises(GroupNotInSnapshot, match="mirr"):
        saved.only(("mirr",))
    empty = GroupSnapshot(cluster="west", cluster_id="id-west", taken_at=EpochMs(1), groups=())
    assert empty.only(EVERY) == empty
    assert consuming.restore(empty.only(("idle",))).summary == "nothing to change"


@pytest.mark.parametrize("point", [BEFORE_PENDING, BEFORE_READ, BEFORE_END])
@pytest.mark.parametrize("group", range(4))
def test_killed_anywhere_and_run_again_it_ends_the_same(point: str, group: int) -> None:
    """What a killed command left pending is undone by the next one, also if nothing else is to be changed."""
    consuming = Consuming()
    names = [f"g{n}" for n in range(4)]
    for name in names:
        consuming.groups.commit(name, A, 10, name)
    saved = consuming.take()
    for name in names:
        consuming.groups.commit(name, A, 90)
    left = [group + 1]

    def dies(reached: str) -> None:
        left[0] -= reached == point
        if not left[0]:
            raise Killed

    with pytest.raises(Killed):
        consuming.restore(saved, dies)
    again = consuming.restore(saved)
    assert again.exit_code == 0
    assert [consuming.stands(name) for name in names] == [{A: CommittedPosition(10, name)} for name in names]
    assert sum(row.restored for row in again.rows) == 4 - group
