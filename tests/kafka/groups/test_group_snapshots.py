"""`tanist groups snapshot|restore` and `tanist offsets lookup` on real brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
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


pytestmark = pytest.mark.usefixtures("configured")
"""The command line has a configuration of both clusters."""


@dataclass(frozen=True, kw_only=True)
class West:
    """A topic of two partitions with 20 records each, groups of the test's own, and the file of their snapshot."""

    side: RigCluster
    positions: KafkaPositions
    topic: str
    partitions: tuple[MirrorPartition, ...]
    file: str

    @property
    def names(self) -> list[str]:
        """Of many groups."""
        return [f"{self.topic} ü/{n:02}" for n in range(GROUPS)]

    def begin(self) -> dict[str, dict[MirrorPartition, CommittedPosition]]:
        """Commit for each group, each elsewhere, with texts of its own, as those of a mirror are; where they stand."""
        wanted = {
            name: {
                at: CommittedPosition((n + at.partition) % 21, f"tanist dr east@{n}" if n else "")
                for at in self.partitions
            }
            for n, name in enumerate(self.names)
        }
        changes = {name: {at: CommitChange(None, new) for at, new in each.items()} for name, each in wanted.items()}
        for answer in self.positions.commit(changes, soon(30)).values():
            assert not isinstance(answer, TanistError), answer
            assert not any(answer.values()), answer
        assert self.stand(self.names) == wanted
        return wanted

    def stand(self, names: list[str]) -> dict[str, dict[MirrorPartition, CommittedPosition]]:
        """Once no transaction is pending any more."""
        found: dict[str, dict[MirrorPartition, CommittedPosition]] = {}

        def settled() -> bool:
            found.clear()
            for name, answer in self.positions.committed(names, soon()).items():
                assert not isinstance(answer, TanistError)
                found[name] = {
                    MirrorPartition(*at): each for at, each in answer.items() if isinstance(each, CommittedPosition)
                }
                if len(found[name]) != len(answer):
                    return False
            return True

        until(settled, 30)
        return found


@pytest.fixture
def on_west(clusters: Mapping[str, SandboxCluster], topic_name: str, tmp_path: Path) -> Iterator[West]:
    side = RigCluster(clusters["west"])
    partitions = side.create(topic_name, 2)
    for at in partitions:
        side.produce(at, [b"%d" % n for n in range(20)])
    with over_positions(side.cluster.endpoint(), MirrorName("clients")) as positions:
        yield West(
            side=side,
            positions=positions,
            topic=topic_name,
            partitions=partitions,
            file=str(tmp_path / "west.jsonl"),
        )
    side.close()


def taking(on_west: West, groups: str) -> tuple[str, ...]:
    return ("groups", "snapshot", *WEST, "--group", groups, "--file", on_west.file)


def test_fifty_groups_are_brought_back_exactly_but_one_that_has_a_member(tanist: Tanist, on_west: West) -> None:
    before, positions, names = on_west.begin(), on_west.positions, on_west.names
    take = taking(on_west, f"{on_west.topic} .*")
    taken = tanist(*take, "--json")
    assert (taken.code, [(each["groups"], each["positions"]) for each in taken.items]) == (0, [(50, 100)]), taken.err
    assert Path(on_west.file).stat().st_mode & 0o777 == 0o600
    assert tanist(*take).errors == ["FILE_EXISTS"]
    assert tanist(*take, "--overwrite").code == 0

    moved(positions, names[:40], on_west.partitions[0], 11, soon(30))
    elsewhere = on_west.stand(names)
    command = ("groups", "restore", on_west.file, *WEST)
    assert tanist(*command).errors == ["INVALID_CONFIG"], "without a terminal it needs --yes"
    shown = tanist(*command, "--dry-run", "--json")
    assert shown.code == 0, shown.err
    assert "would restore 40 offset(s) of 40 group(s)" in shown.err
    assert {each["change"] for each in shown.items} == {"same", "backwards", "forwards", "metadata"}
    assert on_west.stand(names) == elsewhere

    busy = names[5]
    member = consumer(on_west.side.servers, busy, client_id="connector-consumer-x-0")
    try:
        member.subscribe([on_west.topic])
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
        assert on_west.stand(names) == {**before, busy: elsewhere[busy]}
    finally:
        member.close()
    until(lambda: positions.groups(soon())[busy].members == 0, 20)
    assert tanist(*command, "--yes").code == 0
    assert on_west.stand(names) == before
    again = tanist(*command, "--yes", "--json")
    assert (again.code, {each["change"] for each in again.items}) == (0, {"same"})
    assert "nothing to change; 100 the same already" in again.err


def test_killed_between_groups_and_run_again_it_ends_the_same(tanist: Tanist, on_west: West) -> None:
    """The one that is killed has committed some of its dozen transactions, and leaves others pending."""
    before, names = on_west.begin(), on_west.names
    assert tanist(*taking(on_west, f"{on_west.topic} .*")).code == 0
    for at in on_west.partitions:
        moved(on_west.positions, names, at, 20, soon(30))
    killed = subprocess.run(
        [sys.executable, "-m", "tests.kafka.groups.killed_restore", "6", on_west.file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = tanist("groups", "restore", on_west.file, *WEST, "--yes", "--json")
    assert done.code == 0, done.err
    assert on_west.stand(names) == before
    assert len([each for each in done.items if each["restored"]]) < 100, "the first one has done some"


def test_what_is_gone_or_outside_of_its_log_is_withheld(tanist: Tanist, on_west: West) -> None:
    (at, other), side, group = on_west.partitions, on_west.side, f"group of {on_west.topic}"
    (gone,) = side.create(f"{on_west.topic}-gone")
    commit(side.servers, group, {at: 3, other: 4, gone: 0}, metadata="mine")
    assert tanist(*taking(on_west, group)).code == 0
    commit(side.servers, group, {at: 15, other: 15})
    side.delete_before(at, 10)
    side.admin.delete_topics([gone.topic])[gone.topic].result(20)
    until(lambda: gone.topic not in side.admin.list_topics(timeout=10).topics, 20)
    restore = ("groups", "restore", on_west.file, *WEST, "--yes", "--json")
    until(lambda: "does not exist any more" in tanist(*restore, "--dry-run").out, 20)  # brokers learn it one by one
    done = tanist(*restore)
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
    tanist: Tanist, arguments: tuple[str, ...], name: str, code: int, tmp_path: Path
) -> None:
    file = tmp_path / "absent"
    answer = tanist("groups", *[str(file) if each == "FILE" else each for each in arguments])
    assert (answer.code, answer.errors) == (code, [name]), answer.err
    assert not file.exists()


def test_a_snapshot_of_another_cluster_is_refused(tanist: Tanist, topic_name: str, tmp_path: Path) -> None:
    file = tmp_path / "east.jsonl"
    nobody = ("--group", f"nobody-{topic_name}")
    assert tanist("groups", "snapshot", "--destination", "east", *nobody, "--file", str(file)).code == 0
    answer = tanist("groups", "restore", str(file), *WEST, "--yes")
    assert (answer.code, answer.errors) == (1, ["GROUP_SNAPSHOT_OF_ANOTHER_CLUSTER"])


def test_positions_outside_kafka_are_looked_up(
    tanist: Tanist,
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


def test_a_group_of_each_protocol_is_restored(tanist: Tanist, on_west: West) -> None:
    """Also one of KIP-848, once its members have left; its client ids are reported, too."""
    group, positions, at = f"modern {on_west.topic}", on_west.positions, on_west.partitions[0]
    with ExitStack() as stack:
        member = consumer(on_west.side.servers, group, "consumer", client_id="m1")
        stack.callback(member.close)
        member.subscribe([on_west.topic])
        while member.poll(0.1) is None:
            pass
        facts = positions.groups(soon())[group]
        assert (facts.kind, facts.client_ids) == ("consumer", frozenset({"m1"}))
        member.commit(asynchronous=False)
    until(lambda: positions.groups(soon())[group].state == "Empty", 20)
    before = on_west.stand([group])
    assert tanist(*taking(on_west, group)).code == 0
    moved(positions, [group], at, 20, soon())
    done = tanist("groups", "restore", on_west.file, *WEST, "--yes", "--json")
    assert done.code == 0, done.err
    found = on_west.stand([group])
    assert {at: each for at, each in found[group].items() if at in before[group]} == before[group]
