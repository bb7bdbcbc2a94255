"""Whether a destination's logs are prefixes of the source's, so that a mirror can adopt them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.adoption import AdoptableLog, CandidateLog
    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline


class LogPrefixes(Protocol):
    """Of a source and a destination."""

    def adoptable(
        self, partitions: Mapping[TopicPartition, CandidateLog], by: Deadline
    ) -> Mapping[TopicPartition, AdoptableLog | TanistError]:
        """Compare the last batches of each destination log with the source, record by record, and both at the start.

        Reserved offsets are not compared. NotAPrefix names the first differing offset, TailAtDestination also that the
        log has records in reserved offsets, MirrorTopicPromoted the producer fence; any other error means that it is
        not known.
        """
        ...
