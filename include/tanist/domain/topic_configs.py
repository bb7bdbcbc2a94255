"""Configs of a mirror topic while it is mirrored and after a failover.

A mirror topic must accept old records and must not delete any by itself, so a few configs are *deferred*: set to what
mirroring needs, while the source's values are stored and set by a failover. With mapped offsets it does delete records
by itself, as the source does: nothing else would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tanist.domain.compaction import DELETE_RETENTION, Holes, is_compacted

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOR_EVER: Final = "9223372036854775807"
CLEANUP_POLICY: Final = "cleanup.policy"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
LOG_APPEND_TIME: Final = "LogAppendTime"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
MIN_ISR: Final = "min.insync.replicas"
_SAFE_MIN_ISR: Final = 2

WHILE_MIRRORING: Final[Mapping[str, str]] = MappingProxyType(
    {
        CLEANUP_POLICY: "delete",
        RETENTION_MS: "-1",
        RETENTION_BYTES: "-1",
        "compression.type": "producer",  # anything else rewrites the batches
        TIMESTAMP_TYPE: "CreateTime",
        "message.timestamp.before.max.ms": _FOR_EVER,  # old records would be refused
        "message.timestamp.after.max.ms": _FOR_EVER,
    }
)

COMPACTED: Final = "compact,delete"
"""Of a mirror topic whose source is compacted: its own cleaner keeps it as small. DeleteRecords needs `delete`."""

KEEPS_RECORDS: Final = (
    CLEANUP_POLICY,
    "compression.type",
    TIMESTAMP_TYPE,
    RETENTION_BYTES,
    RETENTION_MS,
)
"""With another value of one of these a mirror topic silently deletes records, or stores new ones otherwise.

That is with the broker's time as their timestamp, or in other batch bytes. Of WHILE_MIRRORING the two bounds of
timestamps are not among them: they change no record, the broker refuses one that is out of bounds, and that is reported
as a failure to copy.
"""

_AS_AT_SOURCE: Final = (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES)
"""What says which records a mirror topic with mapped offsets deletes."""

_NEVER_COPIED: Final = (
    (re.compile(r".*\.replication\.throttled\.replicas"), "names brokers of the source"),
    (re.compile(r"remote\..*"), "tiered storage belongs to its cluster"),
    (re.compile(r"mirror\..*"), "belongs to its cluster's own mirroring"),
    (re.compile(r"message\.(format\.version|downconversion\.enable)"), "is about formats that are not copied"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigs:
    """`now`: configs while mirroring; `deferred`: (name, value) set by a failover; `dropped`: (name, why)."""

    now: Mapping[str, str]
    deferred: tuple[tuple[str, str], ...]
    dropped: tuple[tuple[str, str], ...] = ()


def why_never_copied(name: str) -> str | None:
    """Why a config is never copied to another cluster; None: it is copied."""
    return next((why for pattern, why in _NEVER_COPIED if pattern.fullmatch(name)), None)


def _why_dropped(name: str, known: frozenset[str] | None) -> str | None:
    unknown = "the destination does not support this config" if known is not None and name not in known else None
    return why_never_copied(name) or unknown


def while_mapped(source: Mapping[str, str]) -> dict[str, str]:
    """What stands for WHILE_MIRRORING with mapped offsets, by the configs in effect at the source.

    Records of a source that stamps them itself have the times of their producers in the mirror topic. The source's
    `retention.ms` does not count from those, so none is deleted for its age until a failover.
    """
    own = {name: source[name] for name in _AS_AT_SOURCE if name in source}
    if source.get(TIMESTAMP_TYPE) == LOG_APPEND_TIME:
        own.pop(RETENTION_MS, None)
    return {**WHILE_MIRRORING, **own}


def plan_configs(
    own: Mapping[str, str],
    effective: Mapping[str, str],
    *,
    known: frozenset[str] | None = None,
    replication_factor: int | None = None,
    holes: Holes = Holes.REFUSE,
    mapped: bool = False,
) -> TopicConfigs:
    """The configs of the mirror topic of a topic.

    Args:
        own: configs set on the source's topic itself.
        effective: configs in effect there, including defaults of the source's brokers.
        known: names of topic configs that the destination supports; None: unknown, so all are tried.
        replication_factor: of the mirror topic; None: the broker's default, assumed to satisfy `min.insync.replicas`.
        holes: of the mirror. REFUSE: a mirror topic must keep every offset, so it is not compacted.
        mapped: offsets of the mirror are mapped; `holes` does not matter then.
    """
    dropped = {name: why for name in own if (why := _why_dropped(name, known))}
    meant = while_mapped(effective) if mapped else WHILE_MIRRORING
    hold = {name: value for name, value in meant.items() if known is None or name in known}
    if (mapped or holes is not Holes.REFUSE) and is_compacted(effective.get(CLEANUP_POLICY, "")):
        hold |= {} if mapped else {CLEANUP_POLICY: COMPACTED}
        if DELETE_RETENTION in effective:
            hold[DELETE_RETENTION] = effective[DELETE_RETENTION]
    if MAX_MESSAGE_BYTES in effective:
        hold[MAX_MESSAGE_BYTES] = effective[MAX_MESSAGE_BYTES]
    wanted_isr = int(own.get(MIN_ISR, "1"))
    if replication_factor is not None and wanted_isr > replication_factor:
        hold[MIN_ISR] = str(min(replication_factor, _SAFE_MIN_ISR))
    return TopicConfigs(
        now={name: value for name, value in own.items() if name not in dropped} | hold,
        deferred=tuple((name, effective[name]) for name in sorted(hold) if name in effective),
        dropped=tuple(sorted(dropped.items())),
    )


def altered_configs(
    effective: Mapping[str, str],
    *,
    holes: Holes = Holes.REFUSE,
    source_policy: str = "",
    meant: Mapping[str, str] = WHILE_MIRRORING,
) -> tuple[str, ...]:
    """The configs (`name=value`) with which a mirror topic does not keep records as the source has them.

    `holes`: of the mirror; `source_policy`: the source's `cleanup.policy`, empty: unknown. `meant`: as the mirror
    configures it.
    """
    there = {name: effective[name] for name in KEEPS_RECORDS if name in effective}
    if holes is not Holes.REFUSE and is_compacted(source_policy) and _is_both(there.get(CLEANUP_POLICY, "")):
        del there[CLEANUP_POLICY]
    return tuple(f"{name}={value}" for name, value in there.items() if value != meant[name])


def _is_both(cleanup_policy: str) -> bool:
    return sorted(cleanup_policy.split(",")) == sorted(COMPACTED.split(","))


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str | None]:
    """Changes that turn `found` into `wanted`; other configs set there stay."""
    return {name: value for name, value in wanted.items() if found.get(name) != value}
