"""Records that are written all the time, at a rate, while something copies them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TICK_SECONDS: Final = 0.005
FLUSH_SECONDS: Final = 90.0


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate`: records a second, one partition of the topic after another. `value`: of each record, when it is sent."""

    topic: str
    partitions: int
    rate: int
    value: Callable[[], bytes]


@contextmanager
def writing(options: Mapping[str, Any], pace: Pace) -> Iterator[None]:
    """A producer with these options of librdkafka, until the end."""
    over = Event()
    thread = Thread(target=_write, args=(options, pace, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _write(options: Mapping[str, Any], pace: Pace, over: Event) -> None:
    from confluent_kafka import Producer

    producer = Producer(dict(options))
    begun, sent = time.monotonic(), 0
    while not over.wait(TICK_SECONDS):
        due = int((time.monotonic() - begun) * pace.rate)
        while sent < due:
            try:
                producer.produce(pace.topic, pace.value(), partition=sent % pace.partitions)
                sent += 1
            except BufferError:
                producer.poll(TICK_SECONDS)
        producer.poll(0)
    producer.flush(FLUSH_SECONDS)
