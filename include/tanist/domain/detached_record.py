"""The record of a detached topic; `domain.detached` has what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tanist.domain.names import EpochMs, MirrorName, ProducerId  # the codec reads the annotations
from tanist.domain.records import PartitionObserved, TopicDesired  # noqa: TC001
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

UNKNOWN_ID: Final = ProducerId(-1)
"""In the records of an earlier version."""


@stored("detached", "mirror", "topic", policy=RecordPolicy(compared=True, moves=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetached(MirrorRecord):
    """A topic that was detached at the cluster `cluster_id`, which has its copy.

    `kept`: its desired state before that, with whom it denies WRITE. `observed`: its partitions, as they were last
    reported, and how far they were copied. `data_id`: of the mirror that has written the copy, as each reversal gives a
    mirror new ones; UNKNOWN_ID: it is not on record. It goes with the mirror when that is reversed, and means
    nothing there until the mirror comes back.
    """

    mirror: MirrorName
    topic: str
    cluster_id: str
    kept: TopicDesired
    observed: tuple[PartitionObserved, ...] = ()
    at: EpochMs
    mirror_id: str = ""
    data_id: ProducerId = UNKNOWN_ID
