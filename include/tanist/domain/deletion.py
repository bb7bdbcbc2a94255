"""A source topic that was deleted: told from one that a broker does not know yet, or that nobody could look up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName

DELETED_AFTER_LOOKS: Final = 3
DELETED_AFTER_SECONDS: Final = 5.0


class SourceTopicDeleted(TanistError):
    """The partition stops; its records stay at the destination."""

    name, exit_code = "SOURCE_TOPIC_DELETED", 1
    operator_action = (
        "the mirror topic keeps its records: to use it, or to mirror a new topic of that name, "
        "take it out of the mirror (`tanist mirrors remove`)"
    )


@dataclass(frozen=True, slots=True)
class Absence:
    """How often in a row every broker of the source has said that a topic does not exist.

    Only looks count in which all brokers have answered, and their controller as well. `since`: of the first such look,
    monotonic seconds.
    """

    since: float
    looks: int = 1

    def again(self) -> Absence:
        """After another such look."""
        return replace(self, looks=self.looks + 1)

    def is_deleted(self, now: float) -> bool:
        """Whether that is enough: one broker, or one moment, proves nothing. `now`: monotonic seconds."""
        return self.looks >= DELETED_AFTER_LOOKS and now - self.since >= DELETED_AFTER_SECONDS


def deleted(topic: str, mirror: MirrorName, looks: int) -> SourceTopicDeleted:
    """What is reported of the partitions of `topic`."""
    return SourceTopicDeleted(
        f"topic {topic!r} of mirror {mirror!r} was deleted at the source: all brokers of it said so {looks} times"
    )
