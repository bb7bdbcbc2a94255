"""`tanist groups snapshot|restore` and `tanist offsets lookup` on real brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.ports.positions import CommitChange, CommittedPosition
from tests.kafka.cli.conftest import configured, east, tanist, west
from tests.kafka.fetcher.rig import RigCluster, soon, until
from tests.kafka.groups.readers import commit, committed, consumer, moved
from tests.ports import over_positions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.kafka.adapters.positions import KafkaPositions
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist

__all__ = ["configured", "east", "tanist", "west"]

ROOT = Path(__file__).resolve().parents[3]
GROUPS = 50
WEST = ("--destination", "west")


@pytest.fixture
def side(clusters: Mapping[str, SandboxCluster]) -> Iterator[RigCluster]:
    found = RigCluster(clusters["west"])
    yield found
    found.close()


@pytest.fixture
def partitions(side: RigCluster, topic_name: str) -> tuple[MirrorPartition, ...]:
    """Two, of 20 records each."""
    found = side.create(topic_name, 2)
    for at in found:
        side.produce(at, [b"%d" % n for n in range(20)])
    return found


@pytest.fixture
def positions(side: RigCluster) -> Iterator[KafkaPositions]:
    with over_positions(side.cluster.endpoint(), MirrorName("clients")) as found:
        yield found


@pytest.fixture
def names(topic_name: str) -> list[str]:
    return [f"{topic_name} ü/{n:02}" for n in range(GROUPS)]


@pytest.fixture
def before(
    positions: KafkaPositions, names: list[str], partitions: tuple[MirrorPartition, ...]
) -> Mapping[str, Mapping[MirrorPartition, CommittedPosition]]:
    """Where each group stands: each elsewhere, with texts of its own, one of them ours."""
    wanted = {
        name: {at: CommittedPosition((n + at.partition) % 21, f"tanist dr east@{n}" if n else "") for at in partitions}
        for n, name in enumerate(names)
    }
    changes = {name: {at: CommitChange(None, new) for at, new in each.items()} for name, each in wanted.items()}
    for answer in positions.commit(changes, soon(30)).values():
        assert not isinstance(answer, TanistError), answer
        assert not any(answer.values()), answer
    assert stands(positions, names) == wanted
    return wanted


def stands(positions: KafkaPositions, names: list[str]) -> dict[str, dict[MirrorPartition, CommittedPosition]]:
    """Once no transaction is pending any more."""
    found: dict[str, dict[MirrorPartition, CommittedPosition]] = {}

    def settled() -> bool:
        found.clear()
        for name, answer in positions.committed(names, soon()).items():
            assert not isinstance(answer, TanistError)
            found[name] = {
                MirrorPartition(*at): each for at, each in answer.items() if isinstance(each, CommittedPosition)
            }
            if len(found[name]) != len(answer):
                return False
        return True

    until(settled, 30)
    return found


def test_fifty_groups_are_brought_back_exactly_but_one_that_has_a_member(
    tanist: Tanist,
    configured: Path,
    positions: KafkaPositions,
    side: RigCluster,
    names: list[str],
    partitions: tuple[MirrorPartition, ...],
    before: Mapping[str, Mapping[MirrorPartition, CommittedPosition]],
    topic_name: str,
    tmp_path: Path,
) -> None:
    file, chosen = tmp_path / "west.jsonl", ("--group", f"{topic_name} .*")
    taken = tanist("groups", "snapshot", *WEST, *chosen, "--file", str(file), "--json")
    assert (taken.code, [(each["groups"], each["positions"]) for each in taken.items]) == (0, [(50, 100)]), taken.err
    assert file.stat().st_mode & 0o777 == 0o600
    assert tanist("groups", "snapshot", *WEST, *chosen, "--file", str(file)).errors == ["FILE_EXISTS"]
    assert tanist("groups", "snapshot", *WEST, *chosen, "--file", str(file), "--overwrite").code == 0

    moved(positions, names[:40], partitions[0], 11, soon(30))
    elsewhere = stands(positions, names)
    command = ("groups", "restore", str(file), *WEST)
    assert tanist(*command).errors == ["INVALID_CONFIG"], "without a terminal it needs --yes"
    shown = tanist(*command, "--dry-run", "--json")
    assert shown.code == 0, shown.err
    assert "would restore 40 offset(s) of 40 group(s)" in shown.err
    assert {each["change"] for each in shown.items} == {"same", "backwards", "forwards", "metadata"}
    assert stands(positions, names) == elsewhere

    busy = names[5]
    member = consumer(side.servers, busy, client_id="connector-consumer-x-0")
    try:
        member.subscribe([topic_name])
        while member.poll(0.1) is None:
            pass
        assert positions.groups(soon())[busy].client_ids == {"connector-consumer-x-0"}
        done = tanist(*command, "--yes", "--json")
        assert done.code == 4, done.err
        assert "restored 39 offset(s) of 39 group(s)" in done.err
        assert "had been committed by Tanist" in done.err
        (withheld,) = (each for each in done.items if each["change"] == "withheld")
        assert (withheld["group"], withheld["restored"]) == (busy, False)
        assert "1 member(s)" in withheld["reason"]
        assert stands(positions, names) == {**before, busy: elsewhere[busy]}
    finally:
        member.close()
    until(lambda: positions.groups(soon())[busy].members == 0, 20)
    assert tanist(*command, "--yes").code == 0
    assert stands(positions, names) == before
    again = tanist(*command, "--yes", "--json")
    assert (again.code, {each["change"] for each in again.items}) == (0, {"same"})
    assert "nothing to change; 100 the same already" in again.err


def test_killed_between_groups_and_run_again_it_ends_the_same(
    tanist: Tanist,
    configured: Path,
    positions: KafkaPositions,
    names: list[str],
    partitions: tuple[MirrorPartition, ...],
    before: Mapping[str, Mapping[MirrorPartition, CommittedPosition]],
    topic_name: str,
    tmp_path: Path,
) -> None:
    """The one that is killed has committed some of its dozen transactions, and leaves others pending."""
    file = tmp_path / "west.jsonl"
    assert tanist("groups", "snapshot", *WEST, "--group", f"{topic_name} .*", "--file", str(file)).code == 0
    for at in partitions:
        moved(positions, names, at, 20, soon(30))
    killed = subprocess.run(
        [sys.executable, "-m", "tests.kafka.groups.killed_restore", "6", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = tanist("groups", "restore", str(file), *WEST, "--yes", "--json")
    assert done.code == 0, done.err
    assert stands(positions, names) == before
    assert len([each for each in done.items if each["restored"]]) < 100, "the first one has done some"


def test_what_is_gone_or_outside_of_its_log_is_withheld(
    tanist: Tanist,
    configured: Path,
    side: RigCluster,
    positions: KafkaPositions,
    partitions: tuple[MirrorPartition, ...],
    topic_name: str,
    tmp_path: Path,
) -> None:
    at, other = partitions
    (gone,) = side.create(f"{topic_name}-gone")
    group, file = f"group of {topic_name}", tmp_path / "west.jsonl"
    commit(side.servers, group, {at: 3, other: 4, gone: 0}, metadata="mine")
    assert tanist("groups", "snapshot", *WEST, "--group", group, "--file", str(file)).code == 0
    commit(side.servers, group, {at: 15, other: 15})
    side.delete_before(at, 10)
    side.admin.delete_topics([gone.topic])[gone.topic].result(20)
    until(lambda: gone.topic not in side.admin.list_topics(timeout=10).topics, 20)
    done = tanist("groups", "restore", str(file), *WEST, "--yes", "--json")
    assert done.code == 4, done.err
    reasons = {(each["topic"], each["partition"]): each["reason"] for each in done.items}
    assert "the log begins at 10" in reasons[at]
    assert "does not exist any more" in reasons[gone]
    assert (committed(side.servers, group, at), committed(side.servers, group, other)) == (15, 4)


@pytest.mark.parametrize(
    ("arguments", "name", "code"),
    [
        (("snapshot", *WEST, "--file", "FILE", "--group", "("), "INVALID_CONFIG", 2),
        (("snapshot", "--file", "FILE"), "INVALID_CONFIG", 2),
        (("restore", "FILE", *WEST, "--yes"), "GROUP_SNAPSHOT_INVALID", 2),
    ],
)
def test_bad_input_is_one_line(
    tanist: Tanist, configured: Path, arguments: tuple[str, ...], name: str, code: int, tmp_path: Path
) -> None:
    file = tmp_path / "absent"
    answer = tanist("groups", *[str(file) if each == "FILE" else each for each in arguments])
    assert (answer.code, answer.errors) == (code, [name]), answer.err
    assert not file.exists()


def test_a_snapshot_of_another_cluster_is_refused(
    tanist: Tanist, configured: Path, topic_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "east.jsonl"
    nobody = ("--group", f"nobody-{topic_name}")
    assert tanist("groups", "snapshot", "--destination", "east", *nobody, "--file", str(file)).code == 0
    answer = tanist("groups", "restore", str(file), *WEST, "--yes")
    assert (answer.code, answer.errors) == (1, ["GROUP_SNAPSHOT_OF_ANOTHER_CLUSTER"])


def test_positions_outside_kafka_are_looked_up(
    tanist: Tanist,
    configured: Path,
    east: Broker,
    clusters: Mapping[str, SandboxCluster],
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Nothing was copied: what a sink has read there is clamped, as a group's offset would be."""
    name = f"m-{uuid.uuid4().hex[:8]}"
    east.topic(topic_name)
    made = tanist("mirrors", "create", name, "--source", "east", *WEST, "--topic", topic_name)
    assert made.code == 0, made.err
    one = ("offsets", "lookup", name, "--topic", topic_name, "--partition", "0", "--offset")
    (item,) = tanist(*one, "0", "--json").items
    assert (item["source_offset"], item["destination_offset"], item["precision"], item["strategy"]) == (
        *(0, 0),
        *("exact", "map"),
    )
    file = tmp_path / "checkpoint.json"
    file.write_text(json.dumps([{"topic": topic_name, "partition": 0, "offset": n} for n in (0, 7)]))
    found = tanist("offsets", "lookup", name, *WEST, "--file", str(file), "--json")
    assert [each["precision"] for each in found.items] == ["exact", "conservative"], found.err
    for arguments, error, code in (
        ((*one, "-1"), "INVALID_CONFIG", 2),
        ((*one[:-1],), "INVALID_CONFIG", 2),
        ((*one, "0", "--file", str(file)), "INVALID_CONFIG", 2),
        ((*one, "0", "--strategy", "guess"), "INVALID_CONFIG", 2),
        (("offsets", "lookup", name, "--topic", "x", "--partition", "0", "--offset", "1"), "TOPIC_NOT_IN_MIRROR", 1),
        ((*one[:5], "--partition", "9", "--offset", "1"), "PARTITION_NOT_IN_MIRROR", 1),
    ):
        answer = tanist(*arguments)
        assert (answer.code, answer.errors) == (code, [error]), answer.err

    sink, other = f"connect-{topic_name}", f"app-{topic_name}"
    for group in (sink, other):
        commit(clusters["east"].bootstrap_servers, group, {MirrorPartition(topic_name, 0): 0})
    for verb in ("list", "translate"):
        answer = tanist("groups", verb, name, *WEST, "--json")
        notes = {each["group"]: each["note"] for each in answer.items}
        assert notes[other] == ""
        assert "offsets lookup" in notes[sink]
        assert f"{sink}: sink tasks of Kafka Connect" in answer.err


def test_a_group_of_each_protocol_is_restored(
    tanist: Tanist,
    configured: Path,
    side: RigCluster,
    positions: KafkaPositions,
    partitions: tuple[MirrorPartition, ...],
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Also one of KIP-848, once its members have left; its client ids are reported, too."""
    group, file, (at, _) = f"modern {topic_name}", tmp_path / "west.jsonl", partitions
    with ExitStack() as stack:
        member = consumer(side.servers, group, "consumer", client_id="m1")
        stack.callback(member.close)
        member.subscribe([topic_name])
        while member.poll(0.1) is None:
            pass
        facts = positions.groups(soon())[group]
        assert (facts.kind, facts.client_ids) == ("consumer", {"m1"})
        member.commit(asynchronous=False)
    until(lambda: positions.groups(soon())[group].state == "Empty", 20)
    before = stands(positions, [group])
    assert tanist("groups", "snapshot", *WEST, "--group", group, "--file", str(file)).code == 0
    moved(positions, [group], at, 20, soon())
    done = tanist("groups", "restore", str(file), *WEST, "--yes", "--json")
    assert done.code == 0, done.err
    found = stands(positions, [group])
    assert {at: each for at, each in found[group].items() if at in before[group]} == before[group]
