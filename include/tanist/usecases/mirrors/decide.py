"""Pure decisions about each topic that is to be added to a mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.errors import DestinationNotEmpty, TanistError, TopicAlreadyInMirror, TopicMismatch
from tanist.domain.records import TopicDesired
from tanist.domain.states import DesiredState
from tanist.domain.topic_configs import TopicConfigs, differences, plan_configs
from tanist.ports.topics import NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.holes import Holes
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.mirrors.observe import DestinationTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The inputs that all topics of one command share. `returning`: their logs are continued, so they have records.

    `adopting`: so are those of topics that have records, if they are prefixes of the source's. `replaced`: topics that
    are deleted at the destination, and created again.
    """

    destination: str
    owners: Mapping[str, MirrorName]
    known_configs: frozenset[str] | None
    replication_factor: int | None
    holes: Holes
    state_exists: bool = True
    returning: bool = False
    adopting: bool = False
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic that can be added. `changes`: configs to alter if the mirror topic exists already.

    `copy_starts`: as `TopicDesired` has them, of a topic that is adopted.
    """

    source: TopicFacts
    configs: TopicConfigs
    replication_factor: int | None
    deferred_acls: tuple[AclEntry, ...] = ()
    exists: bool = False
    changes: Mapping[str, str | None]
    copy_starts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.source.name

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
            deferred_configs=self.configs.deferred,
            deferred_acls=self.deferred_acls,
            promotion_epoch=promotion_epoch,
            copy_starts=self.copy_starts,
            changed_at=now,
        )


def owners(view: StateView) -> dict[str, MirrorName]:
    """Which mirror each topic of a destination belongs to."""
    return {topic.topic: topic.mirror for topic in view.mirrored()}


def plan_topic(source: TopicFacts, existing: DestinationTopic | None, situation: Situation) -> TopicPlan | TanistError:
    """How the mirror topic of `source` is created, or why it cannot be."""
    name = source.name
    if owner := situation.owners.get(name):
        return TopicAlreadyInMirror(f"{name!r} belongs to mirror {owner!r} of {situation.destination!r}")
    if existing and (problem := _unfit(source, existing, situation)):
        return problem
    replication_factor = existing.facts.replication_factor if existing else situation.replication_factor
    configs = plan_configs(
        source.configs,
        source.effective,
        known=situation.known_configs,
        replication_factor=replication_factor,
        holes=situation.holes,
    )
    return TopicPlan(
        source=source,
        configs=configs,
        replication_factor=replication_factor,
        exists=existing is not None,
        changes=differences(configs.now, existing.facts.configs) if existing else {},
    )


def _unfit(source: TopicFacts, existing: DestinationTopic, situation: Situation) -> TanistError | None:
    name, where = source.name, situation.destination
    if existing.records and not (situation.returning or situation.adopting):
        return DestinationNotEmpty(f"{name!r} on {where!r} is not empty: {existing.records} offsets are in use")
    if existing.facts.partitions != source.partitions:
        found, wanted = existing.facts.partitions, source.partitions
        return TopicMismatch(f"{name!r} has {found} partition(s) on {where!r}, {wanted} at the source")
    wanted_replicas = situation.replication_factor
    if wanted_replicas is not None and existing.facts.replication_factor != wanted_replicas:
        found = existing.facts.replication_factor
        return TopicMismatch(
            f"{name!r} has {found} replica(s) on {where!r}, but --replication-factor is {wanted_replicas}"
        )
    return None
