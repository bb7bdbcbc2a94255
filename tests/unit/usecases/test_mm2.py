"""Reading MirrorMaker 2's topics: whatever is missing, broken or of somebody else is a reason, never an error."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import Unreachable
from tanist.domain.names import MirrorPartition, SourceOffset
from tanist.domain.translation import Proof
from tanist.ports.positions import ProofResult
from tanist.usecases.command import CommandContext
from tanist.usecases.groups.mm2 import Mm2Setting, SyncsAt, read_mm2
from tanist.usecases.mirror import OpenMirror
from tests.builders import AT, a_mirror
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster, nowhere, pair_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.mirrormaker.history import Mm2Partition
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import Pair

AT_SOURCE, AT_DESTINATION = "mm2-offset-syncs.west.internal", "mm2-offset-syncs.east.internal"
CHECKPOINTS = "east.checkpoints.internal"


def text(name: str) -> bytes:
    return pack(">h", len(name)) + name.encode()


def a_sync(topic: str, upstream: int, downstream: int, partition: int = 0) -> tuple[bytes, bytes]:
    return text(topic) + pack(">i", partition), pack(">qq", upstream, downstream)


def a_checkpoint(group: str, topic: str, upstream: int, downstream: int, version: int = 0) -> tuple[bytes, bytes]:
    return text(group) + text(topic) + pack(">i", 0), pack(">hqq", version, upstream, downstream) + text("")


def a_heartbeat(source: str, target: str, at: int) -> tuple[bytes, bytes]:
    return text(source) + text(target), pack(">hq", 0, at)


class Compared:
    """The port `Proofs`: pairs of `differ` are not the same record."""

    def __init__(self, *differ: tuple[int, int], exact_place: bool = True) -> None:
        self.differ, self.exact_place = differ, exact_place
        self.pairs: list[tuple[int, int]] = []

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        self.pairs += [(pair.source, pair.destination) for pair in pairs]
        return {
            pair: ProofResult(Proof.MISMATCH, "", self.exact_place)
            if (pair.source, pair.destination) in self.differ
            else ProofResult(Proof.MATCH, "")
            for pair in pairs
        }


class Both:
    """`orders` on both clusters, as Tanist names copies; `alone`: MM2's copy has another name."""

    def __init__(self) -> None:
        self.east, self.west = MemoryCluster("east"), MemoryCluster("west")
        self.east.with_topic(AT.topic, end=1_000)
        self.west.with_topic(AT.topic, end=1_000)
        self.proofs = Compared()
        self.source: Any = self.east.side()

    def write(
        self, cluster: MemoryCluster, topic: str, *records: tuple[bytes | None, bytes | None], policy: str = "compact"
    ) -> None:
        if topic not in cluster.topics:
            cluster.with_topic(topic, cleanup_policy=policy)
        cluster.raw_records.setdefault(topic, []).extend(records)

    def read(self, setting: Mm2Setting | None = None, **more: Any) -> Mm2Partition:
        clock = JumpingClock()
        mirror = OpenMirror(
            spec=a_mirror(),
            source=self.source,
            destination=self.west.side(),
            pair=pair_with(proofs=self.proofs),
            from_source=nowhere,
        )
        return read_mm2(mirror, [AT], CommandContext(clock=clock, by=clock.deadline(60)), setting, **more)[AT]


@pytest.fixture
def both() -> Both:
    return Both()


def pairs(known: Mm2Partition) -> list[tuple[int, int]]:
    return [(each.upstream, each.downstream) for each in known.syncs]


def test_s4_3_the_whole_topic_is_read_and_checkpoints_and_heartbeats_beside_it(both: Both) -> None:
    both.write(both.east, AT_SOURCE, *(a_sync(AT.topic, each, each) for each in range(0, 1_000, 4)))
    both.write(both.west, CHECKPOINTS, a_checkpoint("g", AT.topic, 5, 5), a_checkpoint("g", AT.topic, 9, 9))
    both.write(both.west, "heartbeats", a_heartbeat("east", "west", 0), a_heartbeat("east", "west", 60_000))
    known = both.read()
    assert len(known.syncs) == 250, "more than MM2 keeps"
    assert known.checkpoints["g"].upstream == 9
    assert known.notes == ("MirrorMaker 2's last heartbeat was at 1970-01-01T00:01:00.000Z",)


def test_checkpoints_that_nobody_asks_for_are_not_read(both: Both) -> None:
    """Only an explanation shows them."""
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 5, 5))
    both.write(both.west, CHECKPOINTS, a_checkpoint("g", AT.topic, 5, 5), (b"", b""))
    assert both.read().checkpoints
    assert both.read().notes
    known = both.read(checkpoints=False)
    assert (pairs(known), known.checkpoints, known.notes) == ([(5, 5)], {}, ())


def test_the_topics_are_named_after_aliases_and_separator(both: Both) -> None:
    both.write(both.east, "mm2-offset-syncs_B_internal", a_sync(AT.topic, 1, 1))
    both.write(both.west, "A_checkpoints_internal", a_checkpoint("g", AT.topic, 5, 5))
    known = both.read(Mm2Setting(source_alias="A", destination_alias="B", separator="_"))
    assert (pairs(known), set(known.checkpoints)) == ([(1, 1)], {"g"})


def test_a_missing_topic_is_named_with_what_there_is_instead(both: Both) -> None:
    both.write(both.east, "mm2-offset-syncs.B.internal", a_sync(AT.topic, 1, 1))
    known = both.read()
    assert known.missing == (
        f"the source, east, has no topic {AT_SOURCE}; it has mm2-offset-syncs.B.internal: is the alias another one?; "
        f"the destination, west, has no topic {AT_DESTINATION}"
    )


def test_a_topic_of_other_topics_says_whose_it_is(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync("invoices", 1, 1), a_sync("bills", 1, 1))
    assert f"topic {AT_SOURCE} at the source is of other topics (bills, invoices), not of orders" in both.read().missing
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 1, 1, partition=7))
    assert "has no offset-sync of orders-0" in both.read().missing


def test_broken_records_tombstones_and_unknown_versions_are_counted_and_hide_nothing(both: Both) -> None:
    key, value = a_sync(AT.topic, 100, 100)
    both.write(both.east, AT_SOURCE, (key, value), (key, value[:9]), (None, value), (b"", b""), (key, value[:3]))
    old = a_checkpoint("g", AT.topic, 5, 5, version=3)
    both.write(both.west, CHECKPOINTS, old, a_checkpoint("h", AT.topic, 5, 5), (old[0], None))
    known = both.read()
    assert (pairs(known), set(known.checkpoints)) == ([(100, 100)], {"h"})
    assert f"{AT_SOURCE}: skipped 3 x it ends early, 1 x it has no key" in known.notes
    assert (
        f"{CHECKPOINTS}: skipped 1 x a tombstone, which MirrorMaker 2 does not write, "
        "1 x version 3, which MirrorMaker 2 has never written"
    ) in known.notes


def test_a_tombstone_deletes_what_was_said_before(both: Both) -> None:
    """As it will be once the cleaner has come by."""
    key = a_sync(AT.topic, 0, 0)[0]
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 1, 1), (key, None), a_sync(AT.topic, 9, 9))
    assert pairs(both.read()) == [(9, 9)]


def test_a_topic_whose_beginning_is_deleted_says_so(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 900, 900), policy="delete")
    at = MirrorPartition(AT_SOURCE, 0)
    both.east.ends[at] = (40, 41, 41)
    assert (
        f"{AT_SOURCE} begins at 40: what was written before is deleted, and it is not only compacted"
        in both.read().notes
    )
    both.east.topics.pop(AT_SOURCE)
    both.write(both.east, AT_SOURCE)
    both.east.ends[at] = (40, 41, 41)
    assert not both.read().notes, "a compacted one may begin anywhere"


# ── which of both topics ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_dead_source_leaves_the_syncs_and_checkpoints_at_the_destination(both: Both) -> None:
    both.source = Unreachable("east:9092: connection refused")
    both.write(both.west, CHECKPOINTS, a_checkpoint("g", AT.topic, 5, 5))
    known = both.read()
    assert "the source does not answer (east:9092: connection refused)" in known.missing
    assert set(known.checkpoints) == {"g"}, "what MM2 answers is still known"
    both.write(both.west, AT_DESTINATION, a_sync(AT.topic, 7, 7))
    assert pairs(both.read(Mm2Setting(syncs_at=SyncsAt.DESTINATION))) == [(7, 7)]


def test_a_source_that_dies_while_it_is_read_is_a_reason(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 7, 7))
    both.east.dead = True
    assert "topic mm2-offset-syncs.west.internal of east cannot be read: UNREACHABLE" in both.read().missing
    both.east.dead = False
    assert "it is known to be down" in both.read(ask_source=False).missing


def test_syncs_at_the_destination_may_be_of_the_other_direction(both: Both) -> None:
    """Their topic is called the same in both directions; and both clusters have `orders`."""
    both.write(both.west, AT_DESTINATION, a_sync(AT.topic, 7, 7))
    assert "may be of copies in the other direction" in both.read().missing
    assert pairs(both.read(Mm2Setting(syncs_at=SyncsAt.DESTINATION))) == [(7, 7)]
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 1, 1))
    assert "may be of copies in the other direction" in both.read().missing
    assert pairs(both.read(Mm2Setting(syncs_at=SyncsAt.SOURCE))) == [(1, 1)]
    del both.west.topics[AT.topic]
    both.west.clock.jump(5)
    assert pairs(both.read()) == [(7, 7)], "only the source has it now; what was written last counts"


def test_syncs_at_the_destination_may_be_of_the_other_direction_where_it_does_not_tell_its_topics(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.write(both.west, AT_DESTINATION, a_sync(AT.topic, 7, 7))
    del both.west.topics[AT.topic]
    assert pairs(both.read()) == [(7, 7)]
    side = both.west.side()

    def silent(names: Sequence[str], by: Deadline) -> Mapping[str, Any]:
        raise Unreachable("west")

    monkeypatch.setattr(side.topics, "partitions", silent)
    monkeypatch.setattr(both.west, "side", lambda: side)
    assert "may be of copies in the other direction" in both.read().missing


def test_a_topic_that_may_not_be_read_says_so(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 7, 7))
    both.east.denied.add(("READ", AT_SOURCE))
    assert "cannot be read: TOPIC_AUTHORIZATION_FAILED" in both.read().missing


def test_other_aliases_in_the_heartbeats_are_told(both: Both) -> None:
    both.write(both.west, "heartbeats", a_heartbeat("A", "B", 5))
    assert "heartbeats are of A to B, not of east to west: are the aliases right?" in both.read().notes


# ── a topic that was created again ────────────────────────────────────────────────────────────────────────────────


def test_syncs_that_go_backwards_are_compared_and_dropped_if_the_topic_was_created_again(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 0, 0), a_sync(AT.topic, 500, 500), a_sync(AT.topic, 0, 501))
    known = both.read()
    assert both.proofs.pairs == [(0, 0), (500, 500)]
    assert pairs(known) == [(0, 0), (500, 500)], "the same record: MM2 copies again, and has not come as far"
    both.proofs = Compared((0, 0), (500, 500))
    known = both.read()
    assert pairs(known) == [(0, 501)]
    assert any("was re-created" in note for note in known.notes)
    both.source = Unreachable("gone")
    assert both.read().missing


def test_a_life_is_not_dropped_because_the_next_records_differ_where_a_cleaner_has_removed_those(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 0, 0), a_sync(AT.topic, 500, 500), a_sync(AT.topic, 0, 501))
    both.proofs = Compared((0, 0), (500, 500), exact_place=False)
    assert pairs(both.read()) == [(0, 0), (500, 500)]


def test_nothing_is_compared_where_syncs_only_go_forward(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 0, 0), a_sync(AT.topic, 500, 500))
    assert pairs(both.read()) == [(0, 0), (500, 500)]
    assert both.proofs.pairs == []


def test_nothing_is_compared_at_the_markers_of_exactly_once_copies(both: Both) -> None:
    """Each of them looks like a life: 3,000 pairs at each pass otherwise. Before a rewind three are compared."""
    marked = [a_sync(AT.topic, 3 * each, 4 * each) for each in range(200)]
    both.write(both.east, AT_SOURCE, *marked)
    assert both.read().syncs
    assert both.proofs.pairs == []
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 300, 900))
    both.read()
    assert both.proofs.pairs == [(0, 0), (300, 400), (597, 796)]
    both.proofs = Compared((300, 400))
    assert pairs(both.read())[0] == (0, 0), "others are the same"
    both.proofs = Compared((0, 0), (300, 400), (597, 796))
    assert pairs(both.read()) == [(300, 900)]


def test_a_copy_that_ends_too_early_is_not_as_mirrormaker_left_it(both: Both) -> None:
    both.write(both.east, AT_SOURCE, a_sync(AT.topic, 2_000, 2_000))
    assert "the copy ends at 1000" in both.read().missing
    assert both.read().written[0].upstream == SourceOffset(2_000), "MM2's own store has it"
