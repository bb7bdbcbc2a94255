"""How much a transaction of a mirror may hold: less after one that took too long, more again after one that did not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

MOST_BYTES: Final = 64 << 20
LEAST_BYTES: Final = 16 << 10
"""The default of `batch.size` of producers: one batch is appended, however large, so less would change nothing."""


@dataclass(frozen=True, slots=True)
class TransactionSize:
    """`limit`: bytes of batches in one transaction, at most; a single batch may be larger."""

    limit: int = MOST_BYTES

    def failed(self, held: int) -> TransactionSize:
        """A transaction of `held` bytes was too old for the brokers, or had no answer in time.

        The next one is half as large, or the same would happen to it again. A small one had another reason.
        """
        if held <= LEAST_BYTES:
            return self
        return replace(self, limit=max(LEAST_BYTES, min(self.limit, held) // 2))

    def committed(self) -> TransactionSize:
        """A transaction was committed in time: the next one may be larger, by so little that few are in vain."""
        return replace(self, limit=min(MOST_BYTES, self.limit + max(LEAST_BYTES, self.limit // 8)))
