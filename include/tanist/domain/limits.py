"""How many bytes per second a mirror may read: settings, shares of workers, and when the next fetch is due. Pure.

A limit is of a mirror, or of each topic that matches a rule of it. Bytes are those of record batches as the source has
them. What is copied of a topic counts under both limits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import Misconfigured
from tanist.domain.selection import topic_pattern
from tanist.domain.states import DesiredState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec, TopicDesired

NO_LIMIT: Final = "none"
LEAST: Final = 1_000
"""Bytes per second. Who wants less wants a mirror that is paused."""
BURST_SECONDS: Final = 0.2
"""What was not read in this time may be read later, and a fetch asks for as much: together less than 5 % of 10 s."""
_UNITS: Final = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_RATE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]+)/s")
_PAUSE: Final = "to copy nothing, pause the mirror (`tanist mirrors pause`); to copy without a limit, give"


class LimitKey(NamedTuple):
    """One limit. `topic`: the mirror topic that it is of; empty: of all topics of the mirror together."""

    mirror: MirrorName
    topic: str = ""


class LimitShare(NamedTuple):
    """What one worker may read under a limit: bytes per second, of all its `threads` together."""

    bytes_per_second: float
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be read under one share. `free_at`: monotonic seconds from which on more may be read."""

    share: LimitShare
    free_at: float = float("-inf")

    @property
    def fetch_bytes(self) -> int:
        """How much one fetch of one thread should ask for; a broker sends a first batch that is larger as a whole."""
        return max(1, int(self.share.bytes_per_second * BURST_SECONDS / self.share.threads))

    def spent(self, size: int, now: float) -> Budget:
        """After `size` bytes were read."""
        return replace(self, free_at=max(self.free_at, now - BURST_SECONDS) + size / self.share.bytes_per_second)

    def shared(self, share: LimitShare, now: float) -> Budget:
        """With another share from now on: what was read too much is waited for at the new rate."""
        ahead = max(0.0, self.free_at - now) * self.share.bytes_per_second
        return Budget(share, self.free_at if ahead == 0 else now + ahead / share.bytes_per_second)


# ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────────


def rate(flag: str, text: str) -> int:
    """Bytes per second of `text`, such as '10MB/s' or '512 KiB/s'; 0: 'none'.

    Raises:
        Misconfigured: it is not a rate, or less than `LEAST`.
    """
    if text == NO_LIMIT:
        return 0
    otherwise = f"{_PAUSE} {flag.partition(' ')[0]} {NO_LIMIT}"
    found = _RATE.fullmatch(text)
    if text in {"0", "0/s"} or (found and float(found[1]) == 0):
        raise Misconfigured(f"{flag} {text!r} is a rate of 0: {otherwise}")
    if found is None or found[2] not in _UNITS:
        raise Misconfigured(f"{flag} {text!r} is not a rate such as 10MB/s; its unit is one of {', '.join(_UNITS)}")
    size = round(float(found[1]) * _UNITS[found[2]])
    if size < LEAST:
        raise Misconfigured(f"{flag} {text!r} is less than {rate_text(LEAST)}: {otherwise}")
    return size


def rate_text(size: float) -> str:
    """Bytes per second as a person types them."""
    for unit in ("GB", "MB", "kB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.6g}{unit}/s"
    return f"{size:g}B/s"


def topic_rule(text: str) -> tuple[re.Pattern[str], int]:
    """The topics of a rule REGEX=RATE, and bytes per second of each; 0: none.

    Raises:
        Misconfigured: it is not such a rule.
    """
    pattern, equals, value = text.rpartition("=")
    if not equals or not pattern:
        raise Misconfigured(f"--topic-limit {text!r} is not REGEX=RATE, for example 'orders.*=10MB/s'")
    return topic_pattern(pattern), rate(f"--topic-limit {pattern}", value)


def limit_problems(topic_limits: Iterable[str]) -> Iterator[Misconfigured]:
    """What is wrong with these rules."""
    for text in topic_limits:
        try:
            topic_rule(text)
        except Misconfigured as wrong:
            yield wrong


def topic_limit(spec: MirrorSpec, topic: str) -> int:
    """Bytes per second of a mirror topic, by the first rule that matches its name at the source; 0: none."""
    name, rules = spec.names.topic_at_source(topic), map(topic_rule, spec.topic_limits)
    return next((size for pattern, size in rules if pattern.fullmatch(name)), 0)


def limit_keys(spec: MirrorSpec, topic: str) -> tuple[LimitKey, ...]:
    """The limits that a mirror topic is read under."""
    own = (LimitKey(spec.mirror, topic),) if spec.topic_limits and topic_limit(spec, topic) else ()
    return (*((LimitKey(spec.mirror),) if spec.limit else ()), *own)


def limit_line(spec: MirrorSpec) -> str:
    """The limits of a mirror for people; empty: it has none."""
    parts = [f"at most {rate_text(spec.limit)}"] if spec.limit else []
    for text in spec.topic_limits:
        pattern, size = topic_rule(text)
        parts.append(f"each topic of {pattern.pattern} {'at most ' + rate_text(size) if size else 'without a limit'}")
    return f"mirror {spec.mirror}: {'; '.join(parts)}" if parts else ""


# ── shares ────────────────────────────────────────────────────────────────────────────────────────────────────────


def shares(
    spec: MirrorSpec, topics: Collection[TopicDesired], owned: Mapping[str, int], threads: Mapping[LimitKey, int]
) -> dict[LimitKey, LimitShare]:
    """The share of a worker in each limit of a mirror: as large as its share of the partitions under it.

    `topics`: of the mirror; only those that are to be copied count. `owned`: how many partitions of each the worker
    owns. `threads`: how many of its threads read under each limit.
    """
    if not spec.limit and not spec.topic_limits:
        return {}
    copied = [topic for topic in topics if topic.desired is DesiredState.MIRRORING]
    found: dict[LimitKey, LimitShare] = {}

    def add(key: LimitKey, size: int, some: Collection[TopicDesired]) -> None:
        every, mine = sum(each.partitions for each in some), sum(owned.get(each.topic, 0) for each in some)
        if mine:
            found[key] = LimitShare(size * mine / every, max(1, threads.get(key, 1)))

    if spec.limit:
        add(LimitKey(spec.mirror), spec.limit, copied)
    for topic in copied if spec.topic_limits else ():
        if size := topic_limit(spec, topic.topic):
            add(LimitKey(spec.mirror, topic.topic), size, [topic])
    return found
