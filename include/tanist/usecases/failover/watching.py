"""Who still writes to a source: its logs are watched to their very ends, and markers of transactions are no records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.logs import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteActivity:
    """Since the look before. `unreported`: does not answer, or what it has taken cannot be read yet."""

    data: tuple[TopicPartition, ...]
    unreported: tuple[TopicPartition, ...]


@dataclass(slots=True)
class Watch:
    """The first look is what later ones are compared with."""

    logs: Logs
    partitions: Sequence[TopicPartition]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Up to here each log has been judged."""

    def look(self, by: Deadline) -> WriteActivity:
        """Raises CouldNotTell: nobody answers at all."""
        found = self.logs.true_ends(self.partitions, by)
        now = {at: end for at, end in found.items() if not isinstance(end, TanistError)}
        new = {at: end for at, end in now.items() if at not in self.ends}
        moved = {at: (self.ends[at], end) for at, end in now.items() if at in self.ends and end != self.ends[at]}
        judged = self.logs.only_control(moved, by) if moved else {}
        data = tuple(at for at, only in judged.items() if only is False)
        blind = tuple(at for at, only in judged.items() if isinstance(only, TanistError))
        self.ends |= new | {at: end for at, (_, end) in moved.items() if at not in blind}
        return WriteActivity(data=data, unreported=(*(at for at in self.partitions if at not in now), *blind))
