"""One topic of the source that can be added to a mirror, and what becomes of it at the destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.records import TopicDesired
from tanist.domain.states import DesiredState
from tanist.ports.topics import NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.topic_configs import TopicConfigs
    from tanist.ports.topics import TopicFacts

_WRITERS_UNKNOWN: Final = (
    "who may write to it at the source is not known (that needs DESCRIBE on Cluster kafka-cluster there): a failover "
    "grants nobody WRITE"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic that can be added. `name`: of its copy. `changes`: configs to alter if the mirror topic exists already.

    `writers_known`: whether `deferred_acls` are those of the source, which this login may not read everywhere.

    `copy_starts`: as `TopicDesired` has them, of a topic that is adopted; of one that `continues`, because it was
    detached, the ends of its copy. `source_starts`: as there, too.
    """

    name: str
    source: TopicFacts
    configs: TopicConfigs
    replication_factor: int | None
    deferred_acls: tuple[AclEntry, ...] = ()
    writers_known: bool = True
    exists: bool = False
    changes: Mapping[str, str | None]
    copy_starts: tuple[int, ...] = ()
    source_starts: tuple[int, ...] = ()
    continues: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not at the destination as it is at the source."""
        found = [f"{self.name}: {name} is not copied: {why}" for name, why in self.configs.dropped]
        if not self.writers_known:
            found.append(f"{self.name}: {_WRITERS_UNKNOWN}")
        return tuple(found)

    def new_topic(self) -> NewTopic:
        return NewTopic(
            name=self.name,
            partitions=self.source.partitions,
            replication_factor=self.replication_factor,
            configs=self.configs.now,
        )

    def desired(self, spec: MirrorSpec, promotion_epoch: int, now: EpochMs) -> TopicDesired:
        return TopicDesired(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            topic=self.name,
            desired=DesiredState.MIRRORING,
            source_topic_id=self.source.topic_id,
            partitions=self.source.partitions,
            offsets=spec.offsets,
            deferred_configs=self.configs.deferred,
            deferred_acls=self.deferred_acls,
            promotion_epoch=promotion_epoch,
            copy_starts=self.copy_starts,
            source_starts=self.source_starts,
            changed_at=now,
        )
