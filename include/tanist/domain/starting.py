"""Where the copy of a topic begins that is added to a mirror with mapped offsets: a setting, and what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured
from tanist.domain.exclusive import ExclusiveRange
from tanist.domain.failover.reserve import time_of
from tanist.domain.names import EpochMs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import MirrorPartition
    from tanist.domain.records import MirrorSpec, TopicDesired

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


def start_setting(text: str) -> str:
    """How `--start TEXT` is stored: empty for `earliest`, `latest`, or milliseconds since 1970 as digits.

    Raises:
        Misconfigured: it is neither of these, nor a time with its zone.
    """
    if text in {"", EARLIEST}:
        return ""
    if text == LATEST or (text.isascii() and text.isdigit()):
        return text
    try:
        return str(time_of(text))
    except ValueError as why:
        raise Misconfigured(
            f"--start {text!r} is not {EARLIEST}, {LATEST}, milliseconds since 1970, or a time with its zone, as "
            "2026-11-23T02:14:00Z"
        ) from why


def start_time(setting: str) -> EpochMs | None:
    """The time of a stored setting; None: it is no time."""
    return EpochMs(int(setting)) if setting.isdigit() else None


def outside_copy(spec: MirrorSpec, topic: TopicDesired, at: MirrorPartition) -> Iterator[ExclusiveRange]:
    """What a copy with mapped offsets leaves out: records before its start, and those that its topic had before."""
    before, history = topic.source_start(at.partition), topic.copy_start(at.partition)
    if spec.is_mapped and before:
        yield _before(at, before, "the mirror begins behind these offsets", at_source=True)
    if spec.is_mapped and history:
        yield _before(at, history, "the topic had these records before it was in the mirror", at_source=False)


def _before(at: MirrorPartition, end: int, why: str, *, at_source: bool) -> ExclusiveRange:
    return ExclusiveRange(partition=at.partition, at_source=at_source, start=0, until=end, reason=why)
