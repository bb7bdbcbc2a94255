"""Which strategies of translation serve a topic, in which order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured
from tanist.domain.selection import pattern_problems, topic_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

STRATEGIES: Final = ("map", "reconciled", "mm2", "timestamp")
"""What a mirror may be set to. Which of them can serve a topic turns out when its positions are translated."""


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """One setting of a mirror: `strategy` for the topics whose whole name `topics` matches."""

    strategy: str
    topics: str = ".*"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`mm2`, or `mm2=REGEX` for some topics.

        Raises:
            Misconfigured: there is no such strategy, or REGEX is no regular expression.
        """
        strategy, _, topics = text.partition("=")
        if strategy not in STRATEGIES:
            raise Misconfigured(f"--strategy {text!r}: {strategy!r} is not one of {', '.join(STRATEGIES)}")
        if problems := pattern_problems([topics or ".*"]):
            raise problems[0]
        return cls(strategy, topics or ".*")


def preferred(topic: str, choices: Sequence[StrategyChoice], otherwise: Sequence[str]) -> tuple[str, ...]:
    """The names of the strategies for a topic: those that were chosen for it, in their order; else `otherwise`."""
    chosen = dict.fromkeys(each.strategy for each in choices if topic_pattern(each.topics).fullmatch(topic))
    return tuple(chosen) or tuple(otherwise)
