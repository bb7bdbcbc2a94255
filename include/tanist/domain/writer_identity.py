"""Who writes the copies of a mirror: what of a log is its own, and what shows that its workers are fenced there.

There are two kinds, and the type checker names whoever has to tell them apart: `ProducerIds` of a mirror with identical
offsets, and `TransactionalWriter` of one with mapped offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeAlias

from tanist.domain.gap_markers import LAST_EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import MirrorName, ProducerId

_SHORT: Final = 8  # characters of a mirror id, which is a UUID: its first group
COPYING_EPOCH: Final = 0
"""The producer epoch in which workers append records."""
FENCED_EPOCH: Final = 1
"""The epoch that fences a producer of records. That of gap markers is fenced by the last one: workers raise its epoch
after a rejection."""


class ProducerIds(NamedTuple):
    """The producer ids of a mirror with identical offsets: data, gap markers, and the fill up to the log start.

    They must be known while all workers are down, so they are in the spec of the mirror.
    """

    data: ProducerId
    marker: ProducerId
    start: ProducerId

    @classmethod
    def stored(cls, ids: Sequence[ProducerId]) -> Self | None:
        """As a record holds them; None: it holds none, as those of earlier versions."""
        return cls(*ids) if len(ids) == len(cls._fields) else None

    def is_known(self, producer_id: int) -> bool:
        """Whether it is one of the mirror's."""
        return producer_id in self

    def may_have_written(self, producer_id: int, *, control: bool) -> bool:
        """Whether such a batch can be the mirror's; any other is a foreign write."""
        if producer_id == self.data:  # records, or the fence of a promotion
            return True
        return producer_id == (self.marker if control else self.start)

    def has_copied(self, producer_id: int, *, control: bool) -> bool:
        """Whether such a batch holds records of the source."""
        return producer_id == self.data and not control

    def is_fenced_by(self, producer_id: int, epoch: int) -> bool:
        """Whether this epoch of a producer shows that the mirror's are fenced."""
        return (producer_id == self.data and epoch >= FENCED_EPOCH) or self._is_last_fence(producer_id, epoch)

    def ends_reserve(self, producer_id: int, epoch: int) -> bool:
        """Whether a batch behind what was copied is the last producer fence, or not the mirror's at all.

        Up to there the log has gap markers and no record of the new primary.
        """
        return self._is_last_fence(producer_id, epoch) or producer_id not in self

    def _is_last_fence(self, producer_id: int, epoch: int) -> bool:
        return producer_id == self.marker and epoch == LAST_EPOCH


class ProducerEpoch(NamedTuple):
    """The producer id and the epoch in which a coordinator has ended a transaction."""

    producer_id: int
    epoch: int


class TransactionalWriter(NamedTuple):
    """Who writes one partition of a mirror with mapped offsets: the owner of a transactional id.

    `fence`: in which epoch the failover on record has ended a transaction of the id in this partition; None: none has.
    Coordinators change producer ids and raise epochs by themselves, so both are recorded when they are used.
    `last`: what the last transaction of the partition has committed; None: not known, or nothing.
    `in_transactions`: whether its batches are in transactions, of which a leader may ask the coordinator.
    """

    transactional_id: str
    fence: ProducerEpoch | None = None
    last: CopiedPosition | None = None
    in_transactions: bool = True

    def is_known(self, _producer_id: int) -> bool:
        """True: a position beside the log says what of the source is in it, and nothing rests on who wrote its end."""
        return True


WriterIdentity: TypeAlias = ProducerIds | TransactionalWriter
MarkingWriter: TypeAlias = ProducerIds
"""The kind that fills gaps with markers, so that offsets stay identical; who only asks it need not know of its ids."""


def transactional_id_prefix(mirror: MirrorName, mirror_id: str) -> str:
    """What the transactional ids of a mirror begin with. A later mirror of its name has another one.

    It begins with `tanist-`, for which the login of mirrors has WRITE.
    """
    return f"tanist-{mirror}-{mirror_id[:_SHORT]}"


class _HasTransactionalId(Protocol):
    """A `MirrorSpec`, whose module knows this one."""

    @property
    def transactional_id(self) -> str: ...


def transactional_id_of(spec: _HasTransactionalId, state_partition: int) -> str:
    """In whose transactions the partitions of one state partition are copied to a mirror with mapped offsets.

    Only the worker that holds the lease of that state partition may use it.
    """
    return f"{spec.transactional_id}-{state_partition}"
