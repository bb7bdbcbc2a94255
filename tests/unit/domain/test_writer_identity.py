"""What of a log is a mirror's own, and what shows that its writer is fenced."""

from __future__ import annotations

from typing import Final

import pytest

from tanist.domain.gap_markers import LAST_EPOCH
from tanist.domain.names import ProducerId, mirror_name
from tanist.domain.writer_identity import FENCED_EPOCH, ProducerIds, transactional_id_of, transactional_id_prefix
from tests.builders import a_mirror

DATA, MARKER, START, CLIENT = 7, 8, 9, 99
WRITER: Final = ProducerIds(ProducerId(DATA), ProducerId(MARKER), ProducerId(START))


@pytest.mark.parametrize(
    ("producer_id", "control", "its_own", "copied"),
    [
        (DATA, False, True, True),
        (DATA, True, True, False),
        (MARKER, True, True, False),
        (MARKER, False, False, False),
        (START, False, True, False),
        (START, True, False, False),
        (CLIENT, False, False, False),
        (CLIENT, True, False, False),
        (-1, False, False, False),
    ],
)
def test_a_batch_is_the_mirrors_by_its_producer_and_its_kind(
    producer_id: int, control: bool, its_own: bool, copied: bool
) -> None:
    assert WRITER.may_have_written(producer_id, control=control) is its_own
    assert WRITER.has_copied(producer_id, control=control) is copied


@pytest.mark.parametrize(
    ("producer_id", "epoch", "fenced"),
    [
        (DATA, FENCED_EPOCH - 1, False),
        (DATA, FENCED_EPOCH, True),
        (MARKER, LAST_EPOCH - 1, False),
        (MARKER, LAST_EPOCH, True),
        (START, LAST_EPOCH, False),
        (CLIENT, LAST_EPOCH, False),
    ],
)
def test_workers_raise_the_epoch_of_gap_markers_so_that_only_the_last_one_fences_them(
    producer_id: int, epoch: int, fenced: bool
) -> None:
    assert WRITER.is_fenced_by(producer_id, epoch) is fenced


def test_a_record_of_an_earlier_version_has_no_writer() -> None:
    assert ProducerIds.stored(()) is None
    assert ProducerIds.stored(tuple(WRITER)) == WRITER
    assert [WRITER.is_known(each) for each in (DATA, MARKER, START, CLIENT)] == [True, True, True, False]


def test_no_two_mirrors_have_a_transactional_id_in_common_whatever_their_names_are() -> None:
    """A name that goes on as another mirror's prefix does is the trap: its ids are longer by the id of the mirror.

    A destination has one mirror of a name at a time, and a later one of that name another id.
    """
    ids = ("0a1b2c3d-0000-4000-8000-000000000000", "7777777a-0000-4000-8000-000000000000")
    names = ("dr", "dr-0a1b2c3d", "dr-0a1b2c3d-1", "dr-7777777a", "dr-1", "1", "dr.0a1b2c3d", "dr-0a1b2c3d-1-7777777a")
    specs = [
        a_mirror(mirror=name, mirror_id=each, transactional_id=transactional_id_prefix(name, each))
        for name in map(mirror_name, names)
        for each in ids
    ]
    found = [transactional_id_of(spec, number) for spec in specs for number in range(64)]
    assert len(set(found)) == len(found)
