"""How often a mirror with mapped offsets delivers a record."""

from __future__ import annotations

from enum import StrEnum


class Delivery(StrEnum):
    """How often a record of the source is in the read-committed view of the mirror topic.

    At least once: batches are in no transaction, positions are committed behind them, and what was appended and not
    committed when a worker died is appended again.
    """

    EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
