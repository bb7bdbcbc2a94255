"""`python -m bench.scrape`: what a scrape of a worker with 10,000 partitions costs. No broker is needed.

All of them are idle but for one in a hundred, which lags. The state topic has them all, too.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest

from tanist.domain.names import BrokerId, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.records import MirrorSpec, PartitionObserved, TopicDesired, WorkerAlive
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.state_view import NOTHING_YET, StateView
from tanist.domain.states import DesiredState, MirrorState
from tanist.fetcher.assignment import FetcherThreadKey, PartitionKey, Report
from tanist.fetcher.metrics import FRESH_SECONDS, Scraped, WorkerCollector
from tanist.fetcher.totals import WorkerTotals
from tanist.kafka.wire.clock import SystemClock
from tests.builders import a_mirror

TOPICS: Final = 1_000
PARTITIONS: Final = 10
CHUNKS: Final = 50
ROUNDS: Final = 9
MIRROR: Final = MirrorName("dr")
CLOCK: Final = SystemClock()


def _state(keys: list[PartitionKey], spec: MirrorSpec) -> StateView:
    now = CLOCK.now()
    records = [
        spec,
        WorkerAlive(worker="w", version="1", host="h", started_at=now, at=now),
        *(
            TopicDesired(
                mirror=MIRROR,
                topic=f"topic-{n}",
                desired=DesiredState.MIRRORING,
                source_topic_id="id",
                partitions=PARTITIONS,
                changed_at=now,
            )
            for n in range(TOPICS)
        ),
        *(
            PartitionObserved(mirror=MIRROR, partition=key.partition, state=MirrorState.MIRRORING, row=102, at=now)
            for key in keys
        ),
    ]
    for chunk in range(CHUNKS):
        ends = tuple(
            SourceEnd(spec.names.at_source(key.partition), SourceOffset(9), SourceOffset(9), at=now)
            for key in keys[chunk::CHUNKS]
        )
        records.append(SourceEnds(mirror=MIRROR, chunk=chunk, ends=ends, at=now))
    return StateView({each.key: each for each in records})


def main() -> None:
    """Print the processor time of a scrape."""
    spec = a_mirror(MIRROR)
    keys = [PartitionKey(MIRROR, MirrorPartition(f"topic-{t}", n)) for t in range(TOPICS) for n in range(PARTITIONS)]
    end = SourceOffset(1_000)
    reports = {
        key: Report(
            position=SourceOffset(1_000 - (n % 100 == 0)),
            source_high_watermark=end,
            source_last_stable=end,
            uncopied_at=EpochMs(1) if n % 100 == 0 else None,
            records=10,
            bytes=1_000,
        )
        for n, key in enumerate(keys)
    }
    totals = WorkerTotals()
    thread = totals.of_thread(FetcherThreadKey(MIRROR, BrokerId(1), 0))
    for n in range(TOPICS):
        thread.of_topic(f"topic-{n}").copied(10, 1_000, 5)
    state = _state(keys, spec)

    def scrape() -> Scraped:
        return Scraped(
            now=CLOCK.now(),
            state=StateView(dict(state.items())),  # as it is after each record that is written
            groups=NOTHING_YET,
            assigned=dict.fromkeys(keys),
            reports=reports,
            totals=totals,
            dead_threads={},
            held=frozenset({MIRROR}),
            verdicts={},
        )

    seconds, sizes = [], []
    for _ in range(ROUNDS):
        registry = CollectorRegistry()
        registry.register(WorkerCollector(scrape, CLOCK))
        began = time.process_time()
        sizes.append(len(generate_latest(registry)))
        seconds.append(time.process_time() - began)
    print(
        f"a scrape of {len(keys):,} partitions of {TOPICS:,} topics: {1000 * median(seconds):.0f} ms of processor, "
        f"{sizes[0]:,} bytes; at most one in {FRESH_SECONDS:.0f} s"
    )


if __name__ == "__main__":
    main()
