"""One cluster of a command: the ports over one router, its state topics over one consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from tanist.domain.names import EpochMs
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_PARTITIONS, STATE_TOPIC
from tanist.kafka.adapters.access import KafkaAccess
from tanist.kafka.adapters.acls import KafkaAcls
from tanist.kafka.adapters.approvals import KafkaApprovals
from tanist.kafka.adapters.bounds import LogBoundsReader
from tanist.kafka.adapters.compacted_topic import WORKER, CompactedTopic, Shared, TopicLayout, operator_of
from tanist.kafka.adapters.divergent_tails import KafkaDivergentTails
from tanist.kafka.adapters.fencing import KafkaFencing
from tanist.kafka.adapters.log_pairs import KafkaLogPairs
from tanist.kafka.adapters.log_prefixes import KafkaLogPrefixes
from tanist.kafka.adapters.logs import KafkaLogInspection, KafkaLogs
from tanist.kafka.adapters.mirrormaker import KafkaMirrorMakerTopics
from tanist.kafka.adapters.opening import KafkaOpening
from tanist.kafka.adapters.positions import KafkaPositions
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.adapters.quarantine import KafkaQuarantine, KafkaReplays
from tanist.kafka.adapters.record_proofs import KafkaProofs
from tanist.kafka.adapters.record_times import KafkaRecordTimes
from tanist.kafka.adapters.replicas import KafkaOpenTransactions, KafkaReplicas
from tanist.kafka.adapters.state_reader import Follower
from tanist.kafka.adapters.tail import BRIEF_MS
from tanist.kafka.adapters.topics import KafkaConfigs, KafkaLogSizes, KafkaTopicDeletion, KafkaTopics
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline

PARTITIONS: Final = {STATE_TOPIC: STATE_PARTITIONS, OFFSETS_TOPIC: 1, GROUPS_TOPIC: 1}


class KafkaCluster:
    """The port `Cluster`. Used by one thread at a time; connects at the first request.

    `small_state`: state topics may have fewer than three replicas. `cluster_id`: if another cluster answers, every
    call raises AnotherCluster.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: str = "tanist",
        *,
        small_state: bool = False,
        cluster_id: str | None = None,
    ) -> None:
        self.name = endpoint.name
        self.bootstrap = endpoint.bootstrap_servers
        self.small_state = small_state
        self.router = Router(endpoint, client_id, cluster_id)
        self.topics = KafkaTopics(self.router)
        self.configs = KafkaConfigs(self.router)
        self.logs = KafkaLogs(self.router)
        self.access = KafkaAccess(self.router)
        self.acls = KafkaAcls(self.router)
        self.replicas = KafkaReplicas(self.router)
        self.fencing = KafkaFencing(self.router)
        self.producer_fencing = KafkaProducerFencing(self.router)
        self.opening = KafkaOpening(self.router)
        self.approvals = KafkaApprovals(self.router, allow_small=small_state)
        self.transactions = KafkaOpenTransactions(self.router)
        self.deletion = KafkaTopicDeletion(self.router)
        self.sizes = KafkaLogSizes(self.router)
        self.times = KafkaRecordTimes(self.router)
        self.replays = KafkaReplays(self.router)
        self.mirrormaker = KafkaMirrorMakerTopics(self.router)
        self._state = Shared(self.router, Follower(endpoint, BRIEF_MS))
        self._positions: dict[MirrorName, KafkaPositions] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pin_if_known(self, cluster_id: str | None) -> bool:
        """Accept only the cluster that has answered from now on, if it has that id (None: any); whether it has."""
        answered = self.router.cluster_id
        if answered is None or cluster_id not in {None, answered}:
            return False
        self.router.pinned = answered
        return True

    def certificates(self) -> dict[str, EpochMs]:
        """As the port has it."""
        return {which: EpochMs(until) for which, until in self.router.totals.certificates.items()}

    def positions(self, mirror: MirrorName) -> KafkaPositions:
        """Committed offsets of groups; commits use the transactional ids of `mirror`."""
        if mirror not in self._positions:
            self._positions[mirror] = KafkaPositions(self.router, mirror)
        return self._positions[mirror]

    def proofs(self, destination: KafkaCluster) -> KafkaProofs:
        """Compares records of this cluster with those of `destination`."""
        return KafkaProofs(self.router, destination.router)

    def divergent_tails(self, destination: KafkaCluster) -> KafkaDivergentTails:
        """Compares the logs of this cluster, an old source, with those of `destination`."""
        return KafkaDivergentTails(self.router, destination.router)

    def quarantine(self, destination: KafkaCluster) -> KafkaQuarantine:
        """Copies what only this cluster has, an old source, to quarantine topics of `destination`."""
        return KafkaQuarantine(self.router, destination.router, allow_small=destination.small_state)

    def log_prefixes(self, destination: KafkaCluster) -> KafkaLogPrefixes:
        """Compares the logs of `destination` with those of this cluster, their source."""
        return KafkaLogPrefixes(self.router, destination.router)

    def log_pairs(self, destination: KafkaCluster) -> KafkaLogPairs:
        """Pairs the records of `destination` with those of this cluster, their source."""
        return KafkaLogPairs(self.router, destination.router)

    def log_inspection(self) -> KafkaLogInspection:
        """Reads who has written the logs of this cluster."""
        return KafkaLogInspection(self.router)

    def open_store(
        self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False, appends: bool = False
    ) -> CompactedTopic:
        """A store over a state topic for the time of a command; with `mirror` as that mirror's operator.

        `appends`: without one it may append, too, and fences nobody.

        Raises:
            UnsafeStateTopic, UnknownTopicOrPartition, and what `CompactedTopic.open` raises.
        """
        return CompactedTopic.open(
            self.router.endpoint,
            topic,
            by,
            layout=TopicLayout(partitions=PARTITIONS[topic], allow_small=self.small_state),
            writer=operator_of(mirror, topic) if mirror else WORKER if appends else None,
            create=create,
            within=self._state,
        )

    def starts(self, topic: str, partitions: int, by: Deadline) -> Mapping[int, int]:
        """Per partition of `topic`, the offset of the first record."""
        return LogBoundsReader(self.router, topic, partitions).starts(by)

    def close(self) -> None:
        """Close all connections and stores."""
        self._state.follower.close()
        for positions in self._positions.values():
            positions.close()
        self.router.close()
