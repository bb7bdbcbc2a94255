"""What ends by itself, and is named before it does: records at the source, certificates, producer fences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict, named
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.lag_amounts import in_bytes, in_seconds
from tanist.domain.topic_configs import CLEANUP_POLICY, RETENTION_BYTES, RETENTION_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs
    from tanist.domain.records import TopicDesired, WorkerAlive

CERTIFICATE_MS: Final = 14 * 86_400_000
"""A certificate that ends within this time is named."""
SHARE: Final = 2
"""A lag is named from this part of what the source keeps on: half of it."""
_DELETES: Final = "delete"


def expiry_check(
    now: EpochMs,
    certificates: Mapping[str, EpochMs],
    rows: Iterable[PartitionRow],
    topics: Iterable[TopicDesired],
    unrenewed: str = "",
) -> Check:
    """Whether anything ends soon. `certificates`: when each ends, by what it is called. `unrenewed`: as `fences_left`.

    What a source keeps is what was stored of its topics at the last sync of metadata.
    """
    ending = [*_certificates(certificates, now), *_retention(rows, topics), *((unrenewed,) if unrenewed else ())]
    return Check(
        name="expires",
        verdict=Verdict.FAIL if ending else Verdict.PASS,
        observed=f"{len(ending)} end(s) soon, of {len(certificates)} certificate(s) and what the source keeps",
        limit="no certificate within 14 days, no lag of half of what the source keeps, fences are renewed",
        age_ms=0,
        reason=named(ending),
    )


def certificates_check(cluster: str, certificates: Mapping[str, EpochMs], now: EpochMs) -> Check:
    """Whether a certificate ends soon that a cluster or this login has shown. There is one at least."""
    ending = list(_certificates(certificates, now))
    first = min(certificates.values())
    return Check(
        name=f"certificates on {cluster}",
        verdict=Verdict.FAIL if ending else Verdict.PASS,
        observed=f"{len(certificates)}, the first one ends in {in_seconds(max(0, first - now))}",
        limit="none within 14 days",
        reason=named(ending),
    )


def _certificates(certificates: Mapping[str, EpochMs], now: EpochMs) -> Iterator[str]:
    for name, until in sorted(certificates.items(), key=lambda each: (each[1], each[0])):
        if until <= now:
            yield f"{name} has ended: new connections are refused; renew it"
        elif until - now < CERTIFICATE_MS:
            yield f"{name} ends in {in_seconds(until - now)}; renew it"


def _retention(rows: Iterable[PartitionRow], topics: Iterable[TopicDesired]) -> Iterator[str]:
    kept = {topic.topic: dict(topic.deferred_configs) for topic in topics}
    for row in rows:
        configs = kept.get(row.partition.topic, {})
        if not row.lag or _DELETES not in configs.get(CLEANUP_POLICY, _DELETES).split(","):
            continue
        longest, largest = (_limit(configs.get(name, "")) for name in (RETENTION_MS, RETENTION_BYTES))
        if longest and row.lag_ms is not None and row.lag_ms * SHARE > longest:
            yield (
                f"{row.partition}: its first record that is not copied is {in_seconds(row.lag_ms)} old, and the source "
                f"deletes it after {in_seconds(longest)}"
            )
        elif largest and row.lag_bytes is not None and row.lag_bytes * SHARE > largest:
            yield (
                f"{row.partition}: it lacks about {in_bytes(row.lag_bytes)}, and the source keeps no more than "
                f"{in_bytes(largest)} of it"
            )


def _limit(value: str) -> int:
    """0: there is none."""
    return max(0, int(value)) if value.lstrip("-").isdecimal() else 0


def fences_left(promoted: Collection[str], workers: Iterable[WorkerAlive], now: EpochMs) -> str:
    """That nobody renews the producer fences of failed-over topics; empty: a worker does, or there are none.

    Brokers forget a producer id `producer.id.expiration.ms` after its last record, and its fence with it. Workers
    renew it every quarter of an hour, as long as one runs.
    """
    last = max((each.at for each in workers), default=None)
    if not promoted or (last is not None and now - last <= SILENT_MS):
        return ""
    since = "ever" if last is None else f"for {in_seconds(now - last)}"
    return (
        f"no fetcher has run {since}: brokers forget the producer fences of {len(promoted)} failed-over topic(s) "
        "producer.id.expiration.ms (a day, unless set) after they were last renewed; start `tanist fetcher run`"
    )
