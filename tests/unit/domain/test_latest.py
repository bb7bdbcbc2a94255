"""Which record of a key is the latest word."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.latest import take
from tanist.domain.state_record import StateRecord, Tombstone
from tanist.domain.states import MirrorState
from tests.builders import a_mirror, a_partition

NOW = a_mirror()
OURS = a_partition(MirrorState.MIRRORING, mirror_id=NOW.mirror_id, claim_epoch=1)
THEIRS = replace(OURS, mirror_id="the-mirror-before", claim_epoch=9)
"""Written late, by a worker that has not heard that the mirror was made again."""


def folded(*records: StateRecord) -> dict[str, StateRecord]:
    found: dict[str, StateRecord] = {}
    for each in records:
        take(found, each)
    return found


def test_a_late_write_of_a_worker_of_an_earlier_mirror_of_the_name_is_ignored() -> None:
    assert folded(NOW, OURS, THEIRS)[OURS.key] == OURS


def test_what_an_earlier_mirror_has_left_is_replaced_by_a_word_of_the_present_one() -> None:
    assert folded(NOW, THEIRS, OURS)[OURS.key] == OURS


def test_of_one_mirror_the_later_claim_counts() -> None:
    later = replace(OURS, claim_epoch=2)
    assert folded(NOW, OURS, later)[OURS.key] == later
    assert folded(NOW, later, OURS)[OURS.key] == later
    assert not folded(NOW, OURS, Tombstone(OURS.key)).keys() & {OURS.key}
