"""Powers modulo a prime, of many exponents at once: two table lookups each."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tanist.spark.reconciliation.pairing import Longs

PRIME: Final = np.uint64(2**31 - 1)
"""Products of two numbers below it fit into 64 bits. As a mask it keeps 31 bits."""
_ORDER: Final = int(PRIME) - 1
_LOW_BITS: Final = 16
_LOW: Final = 1 << _LOW_BITS


class Powers:
    """Of `base`, a number that is not 0 modulo `PRIME`; tables are made when they are first needed."""

    def __init__(self, base: int) -> None:
        self._base = base

    def __call__(self, exponents: Longs) -> NDArray[np.uint64]:
        """`base` to the power of each, modulo `PRIME`; a negative exponent divides (Fermat's little theorem)."""
        reduced = exponents % _ORDER
        found: NDArray[np.uint64] = self._low[reduced & (_LOW - 1)] * self._high[reduced >> _LOW_BITS] % PRIME
        return found

    @cached_property
    def _low(self) -> NDArray[np.uint64]:
        return _first_powers(self._base, _LOW)

    @cached_property
    def _high(self) -> NDArray[np.uint64]:
        return _first_powers(pow(self._base, _LOW, int(PRIME)), _ORDER // _LOW + 1)


def _first_powers(base: int, count: int) -> NDArray[np.uint64]:
    found = np.ones(1, np.uint64)
    while len(found) < count:
        found = np.append(found, found * np.uint64(pow(base, len(found), int(PRIME))) % PRIME)
    return found[:count]
