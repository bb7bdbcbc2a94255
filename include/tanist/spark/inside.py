"""Which record it is, inside a batch that is not the same on both sides."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError, UnsupportedBatch
from tanist.domain.validation.result import DifferenceKind
from tanist.kafka.protocol.batch import HEADER_SIZE, split
from tanist.kafka.protocol.record_set import records_in
from tanist.kafka.wire import requests
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist.spark.codecs import decompressed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import TopicPartition
    from tanist.domain.validation.job import ValidationJob
    from tanist.domain.validation.result import Difference
    from tanist.kafka.protocol.record_set import Record
    from tanist.spark.comparing import ComparisonRows

MOST: Final = 20
"""Batches that are opened."""
_SECONDS: Final = 10.0
_NAMED: Final = 5


def detailed(job: ValidationJob, looked: ComparisonRows) -> ComparisonRows:
    """`looked`, with the records named that differ in the first batches that were changed."""
    left = MOST
    named = {at: list(found) for at, found in looked.named.items()}
    with (
        closing(Router(job.source, "tanist-validation")) as ours,
        closing(Router(job.destination, "tanist-validation")) as theirs,
    ):
        for at, found in named.items():
            for index, each in enumerate(found):
                if each.kind is DifferenceKind.CHANGED and left:
                    left -= 1
                    found[index] = replace(each, detail=_detail(at, each, ours, theirs))
    return looked._replace(named=named)


def _detail(at: TopicPartition, each: Difference, ours: Router, theirs: Router) -> str:
    try:
        return first_difference(_records(ours, at, each.source), _records(theirs, at, each.destination))
    except TanistError as closed:
        return f"the differing record could not be located: {closed}"


def _records(router: Router, at: TopicPartition, offset: int | None) -> list[Record]:
    """The records from `offset` on of the batch that it lies in."""
    assert offset is not None  # noqa: S101  # a change has both sides
    answer = requests.fetch(router, {at: offset}, Deadline(time.monotonic() + _SECONDS))[at]
    if isinstance(answer, TanistError):
        raise answer
    found = records_from(answer.records, offset)
    if found is None:
        raise UnsupportedBatch(f"{at} no longer has a whole batch at {offset}")
    return found


def records_from(batches: memoryview, offset: int) -> list[Record] | None:
    """The records from `offset` on of the batch that it lies in, whatever its codec; None: of no whole batch.

    Raises:
        CorruptBatch, UnsupportedBatch: as `decompressed` and `records_in`.
    """
    for header, batch in split(batches):
        if header.base_offset <= offset <= header.last_offset:
            body = decompressed(header.codec, batch[HEADER_SIZE:])
            return [record for record in records_in(header, body) if record.offset >= offset]
    return None


def first_difference(source: Sequence[Record], copy: Sequence[Record]) -> str:
    """What happened to the records of a batch, in words, with their offsets."""
    alike = next(
        (n for n, (a, b) in enumerate(zip(source, copy, strict=False)) if not a.same(b)), min(len(source), len(copy))
    )
    ours, theirs = source[alike:], copy[alike:]
    if not ours and not theirs:
        return "the same records in different batches"
    if len(ours) == len(theirs):
        changed = [a for a, b in zip(ours, theirs, strict=True) if not a.same(b)]
        return f"changed: source record {_offsets(changed)}"
    gap = len(ours) - len(theirs)
    if gap > 0 and _same(ours[gap:], theirs):
        return f"missing: source record {_offsets(ours[:gap])}"
    if gap < 0 and _same(ours, theirs[-gap:]):
        extra = theirs[:-gap]
        again = all(any(record.same(known) for known in source) for record in extra)
        return f"{'repeated' if again else 'extra'}: record {_offsets(extra)} of the copy"
    return f"from source record {ours[0].offset if ours else source[-1].offset} on"


def _same(these: Sequence[Record], those: Sequence[Record]) -> bool:
    return len(these) == len(those) and all(a.same(b) for a, b in zip(these, those, strict=True))


def _offsets(records: Sequence[Record]) -> str:
    named = ", ".join(str(record.offset) for record in records[:_NAMED])
    return named + (f" and {len(records) - _NAMED} more" if len(records) > _NAMED else "")
