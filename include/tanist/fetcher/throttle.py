"""What the threads of this worker may read now, by the limits of their mirrors; and which mirrors a quota mutes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.limits import LimitKey, LimitShare
    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Clock


class FetchPermit(NamedTuple):
    """What a thread may fetch now.

    `wait`: seconds until any of the partitions that may not be read yet may be; None: all may be read now.
    `fetch_bytes`: most bytes of the whole fetch, and `of_topic`, by its limit, of a topic; None: no limit.
    `spent`: the limits under which nothing may be read now.
    """

    wait: float | None = None
    fetch_bytes: int | None = None
    of_topic: Mapping[LimitKey, int] = {}
    spent: frozenset[LimitKey] = frozenset()

    def wait_ms(self, most: int) -> int:
        """How long a fetch may wait for records, so that it does not outlast the wait of others; at most `most`."""
        return most if self.wait is None else max(1, min(most, int(1000 * self.wait)))

    def allows(self, limits: Sequence[LimitKey]) -> bool:
        """Whether a partition under `limits` may be read now."""
        return self.spent.isdisjoint(limits)


_FREE: Final = FetchPermit()


class Throttle:
    """Of one worker, for all its threads: any thread may call anything."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._budgets: dict[LimitKey, Budget] = {}
        self._muted: dict[MirrorName, float] = {}

    def share(self, shares: Mapping[LimitKey, LimitShare]) -> None:
        """The shares of this worker from now on; a limit that is missing has gone."""
        now = self._clock.monotonic()
        with self._lock:
            held = self._budgets
            self._budgets = {
                key: held[key].shared(share, now) if key in held else Budget(share) for key, share in shares.items()
            }

    def permit(self, limits: Iterable[tuple[LimitKey, ...]]) -> FetchPermit:
        """What may be fetched of partitions under `limits`, one entry for each partition."""
        wanted = {key for each in limits for key in each}
        if not wanted:
            return _FREE
        now = self._clock.monotonic()
        with self._lock:
            budgets = {key: self._budgets[key] for key in wanted if key in self._budgets}
        spent = frozenset(key for key, each in budgets.items() if each.free_at > now)
        free = {key: each.fetch_bytes for key, each in budgets.items() if key not in spent}
        return FetchPermit(
            wait=min((budgets[key].free_at - now for key in spent), default=None),
            fetch_bytes=min((size for key, size in free.items() if not key.topic), default=None),
            of_topic={key: size for key, size in free.items() if key.topic},
            spent=spent,
        )

    def read(self, sizes: Mapping[LimitKey, int]) -> None:
        """So many bytes were read under these limits."""
        now = self._clock.monotonic()
        with self._lock:
            for key, size in sizes.items():
                if key in self._budgets:
                    self._budgets[key] = self._budgets[key].spent(size, now)

    def mute(self, mirror: MirrorName, seconds: float) -> None:
        """The destination makes a mirror wait, all of whose partitions are in the same transactions."""
        with self._lock:
            self._muted[mirror] = max(self._muted.get(mirror, 0.0), self._clock.monotonic() + seconds)

    def is_muted(self, mirror: MirrorName) -> bool:
        """Whether `mirror` must not append now."""
        return self._clock.monotonic() < self._muted.get(mirror, 0.0)
