"""Divergent tails: where the log of an old source and the mirror partition that has taken over part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.failback.survey import TailCounts
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """What a mirror partition has of its old source: up to `end`; `last_epoch`: the source's leader epoch there, or -1.

    `source_end`: the old source's log end.
    """

    end: int
    source_end: int
    last_epoch: int = -1


class DivergentTails(Protocol):
    """Of two clusters whose offsets are identical up to where they part. One item for each partition."""

    def common_ends(
        self, copied: Mapping[TopicPartition, CopiedSpan], by: Deadline
    ) -> Mapping[TopicPartition, int | TanistError]:
        """The end of the common prefix of both logs; records are compared, not only leader epochs."""
        ...

    def counts(
        self, tails: Mapping[TopicPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[TopicPartition, TailCounts | TanistError]:
        """What the old source has from the first offset up to the second one."""
        ...
