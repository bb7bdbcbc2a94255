"""How much is not copied, for people: offsets, bytes and age, each with what is not known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TENTHS_BELOW_MS: Final = 10_000


def total(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None: there are values, and none is known."""
    every = list(values)
    known = [each for each in every if each is not None]
    return None if every and not known else sum(known)


def longest(values: Iterable[int | None]) -> int | None:
    """The greatest that is known, 0 of none; None: there are values, and none is known."""
    every = list(values)
    known = [each for each in every if each is not None]
    return None if every and not known else max(known, default=0)


def lag_text(offsets: int, size: int | None, ms: int | None) -> str:
    """`5 offsets (about 3 KB, at most 1.2 s old)`, without what is not known."""
    said = [f"about {in_bytes(size)}"] if size else []
    said += [f"at most {in_seconds(ms)} old"] if ms else []
    return f"{offsets:,} offsets" + (f" ({', '.join(said)})" if offsets and said else "")


def in_bytes(size: int) -> str:
    """`999 B`, `1.5 KB`, `20 MB`: in powers of 1,000, two digits at least."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if size >= 1000**power:
            return f"{size / 1000**power:.1f} {unit}" if size < 10 * 1000**power else f"{size // 1000**power} {unit}"
    return f"{size} B"


def in_seconds(ms: int) -> str:
    """`0.4 s`, `75 s`, `3 min`, `5 h`, `2 d`."""
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * unit:
            return f"{ms // unit} {name}"
    return f"{ms / 1000:.1f} s" if ms < _TENTHS_BELOW_MS else f"{ms // 1000} s"
