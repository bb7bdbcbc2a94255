"""Differences between a log and its copy, planted one by one, and what is to be told of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

START_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """All of a record that makes it what it is."""

    timestamp: int
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def message(self) -> dict[str, Any]:
        """As a producer takes it."""
        headers = list(self.headers)
        return {"key": self.key, "value": self.value, "timestamp": self.timestamp, "headers": headers}


@dataclass(frozen=True, slots=True)
class Planted:
    """`counts`: all that are not 0, but for `runs`."""

    source: Sequence[Record]
    copy: Sequence[Record]
    counts: dict[str, int]


def _changed(counts: dict[str, int] | None = None, **changes: Any) -> Planted:
    """The fourth record is another one in the copy."""
    third = replace(LOG[3], **changes)
    return Planted(LOG, [*LOG[:3], third, *LOG[4:]], counts or {"copied": 9, "lost": 1, "foreign": 1})


def _of(source: Sequence[int], copy: Sequence[int], **counts: int) -> Planted:
    """Records by number: one number, one record."""
    return Planted([_numbered(n) for n in source], [_numbered(n) for n in copy], counts)


def _numbered(n: int) -> Record:
    return Record(START_MS + n * 10, value=b"%d" % n)


LOG: Final = tuple(_numbered(n) for n in range(10))
TEN: Final = tuple(range(10))
PLANTED: Final = {
    "nothing": _of(TEN, TEN, copied=10),
    "one lost": _of(TEN, (0, 1, 2, 4, 5, 6, 7, 8, 9), copied=9, lost=1),
    "the first lost": _of(TEN, TEN[1:], copied=9, lost=1),
    "the copy lags": _of(TEN, TEN[:6], copied=6, lost=4, behind=4),
    "a stretch repeated": _of(TEN, (*TEN[:6], *TEN[3:]), copied=10, repeated=3),
    "one repeated at the end": _of(TEN, (*TEN, 4), copied=10, moved=1, repeated=1),
    "one late": _of(TEN, (*TEN[1:], 0), copied=10, moved=1),
    "two swapped": _of(TEN, (0, 1, 3, 2, *TEN[4:]), copied=10, moved=1),
    "one of another": _of(TEN, (*TEN[:5], 77, *TEN[5:]), copied=10, foreign=1),
    "deleted at the source": _of(TEN[4:], TEN, copied=6, foreign=4),
    "fewer of the same": _of((7, 1, 1, 1, 1, 9), (7, 1, 1, 9), copied=4, lost=2),
    "more of the same": _of((7, 1, 1, 1, 1, 9), (7, 1, 1, 1, 1, 1, 9), copied=6, repeated=1),
    "the same between others": _of((7, 1, 1, 1, 1, 9), (9, 1, 1, 1, 1, 1, 7), copied=6, moved=2, repeated=1),
    "another value": _changed(value=b"x"),
    "another key": _changed(key=b"x"),
    "another time": _changed(timestamp=START_MS + 31),
    "one more header": _changed(headers=(("h", b"1"),)),
    "a header without a value": _changed(headers=(("h", None),)),
    "no value": _changed(value=None),
    "an empty value": _changed(value=b""),
    "no key": _changed(key=None),
    "an empty key": _changed(key=b""),
    "key and value swapped": _changed(key=b"3", value=b"k"),
}
"""By what was done."""
