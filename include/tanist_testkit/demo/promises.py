"""What Tanist promises, what was expected and what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """`by_hand`: how to see it with stock tools; $EAST and $WEST are the bootstrap servers."""

    promise: str
    expected: str
    observed: str
    ok: bool
    by_hand: str

    def item(self) -> dict[str, Any]:
        """As `--json` shows it."""
        return {name: getattr(self, name) for name in ("promise", "expected", "observed", "ok", "by_hand")}


def none_of(promise: str, count: int, of: str, by_hand: str) -> Promise:
    """It must not have happened once."""
    observed = f"{count:,}" if count else f"0 of {of}"
    return Promise(promise=promise, expected="0", observed=observed, ok=count == 0, by_hand=by_hand)


def the_same(promise: str, expected: str, observed: str, by_hand: str) -> Promise:
    """Two texts must be equal."""
    return Promise(promise=promise, expected=expected, observed=observed, ok=expected == observed, by_hand=by_hand)
