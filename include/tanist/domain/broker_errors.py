"""Error codes of the Kafka protocol: one table, and classes for those that the code refers to by name.

The table follows org.apache.kafka.common.protocol.Errors. Every row is a class (`BY_CODE`); it has a name in Python
only if some module raises or catches it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Row(NamedTuple):
    """One code: Kafka's name, whether it is retriable, and the operator action."""

    code: int
    name: str
    retriable: bool
    operator_action: str


# fmt: off
TABLE: Final = tuple(map(Row._make, (
    (1, "OFFSET_OUT_OF_RANGE", False,
     "the offset is outside the log: compare it with the start and end offsets of the partition"),
    (2, "CORRUPT_MESSAGE", True,
     "none: the request is sent again; if this recurs, check the network path to the broker"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True, "check that the topic exists and that this principal has DESCRIBE on it"),
    (5, "LEADER_NOT_AVAILABLE", True,
     "none if it passes (a leader election is in progress); otherwise restart the brokers of this partition"),
    (6, "NOT_LEADER_OR_FOLLOWER", True, "none: the leader is looked up again"),
    (7, "REQUEST_TIMED_OUT", True,
     "check the replicas of this partition: the broker timed out waiting for them, and the append may have succeeded"),
    (8, "BROKER_NOT_AVAILABLE", True, "none if it passes; otherwise restart the broker"),
    (9, "REPLICA_NOT_AVAILABLE", True, "none if it passes; otherwise restart the broker"),
    (10, "MESSAGE_TOO_LARGE", False,
     "raise max.message.bytes of the topic named above; a value of 0 or 78 is a source fence"),
    (12, "OFFSET_METADATA_TOO_LARGE", False, "raise offset.metadata.max.bytes of the brokers: its default is 4096"),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", True, "none: the coordinator is loading its log"),
    (15, "COORDINATOR_NOT_AVAILABLE", True,
     "none if it passes; otherwise restart the brokers of the coordinator's topic"),
    (16, "NOT_COORDINATOR", True, "none: the coordinator is looked up again"),
    (17, "INVALID_TOPIC_EXCEPTION", False,
     "clients cannot do this to an internal topic or to this name: choose another topic"),
    (18, "RECORD_LIST_TOO_LARGE", False,
     "raise segment.bytes of the topic named above: a batch must fit into one segment"),
    (19, "NOT_ENOUGH_REPLICAS", True, "restore the replicas: fewer than min.insync.replicas are in sync"),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", True,
     "restore the replicas; the append is in the leader's log and may become committed"),
    (25, "UNKNOWN_MEMBER_ID", False, "the group has active members: stop them, or let them commit their own offsets"),
    (27, "REBALANCE_IN_PROGRESS", True, "none: the group is rebalancing"),
    (29, "TOPIC_AUTHORIZATION_FAILED", False,
     "grant this principal the operation on the topic named above; a DENY rule may be a source fence"),
    (30, "GROUP_AUTHORIZATION_FAILED", False, "grant this principal the operation on the group named above"),
    (31, "CLUSTER_AUTHORIZATION_FAILED", False, "grant this principal the operation on the cluster"),
    (32, "INVALID_TIMESTAMP", False,
     "raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic named above"),
    (33, "UNSUPPORTED_SASL_MECHANISM", False, "choose a SASL mechanism that the listener offers"),
    (34, "ILLEGAL_SASL_STATE", False,
     "this listener does not use SASL: correct the security_protocol of the connection"),
    (35, "UNSUPPORTED_VERSION", False, "upgrade the broker: it is too old for this request"),
    (36, "TOPIC_ALREADY_EXISTS", False, "none: the topic exists already"),
    (37, "INVALID_PARTITIONS", False, "choose a larger number: partitions can only be added"),
    (38, "INVALID_REPLICATION_FACTOR", False, "choose a replication factor that the cluster has brokers for"),
    (40, "INVALID_CONFIG", False, "correct the value: see the reason"),
    (41, "NOT_CONTROLLER", True, "none: the controller is looked up again"),
    (42, "INVALID_REQUEST", False, "report it: this is a bug in Tanist or in the broker"),
    (44, "POLICY_VIOLATION", False, "a policy of this cluster forbids the change: see the reason"),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", True,
     "none: another writer appended; the log is read again before the next append"),
    (46, "DUPLICATE_SEQUENCE_NUMBER", True, "none: this batch was appended before; the log is read again"),
    (47, "INVALID_PRODUCER_EPOCH", False, "none: a newer producer epoch fenced this writer; it stops"),
    (48, "INVALID_TXN_STATE", False, "check the transaction: `tanist mirrors describe` names the partition"),
    (49, "INVALID_PRODUCER_ID_MAPPING", False,
     "none: the transactional id has a newer producer id; this producer stops"),
    (50, "INVALID_TRANSACTION_TIMEOUT", False, "raise transaction.max.timeout.ms of the brokers: see the reason"),
    (51, "CONCURRENT_TRANSACTIONS", True, "none: the previous transaction is still completing"),
    (52, "TRANSACTION_COORDINATOR_FENCED", False,
     "none: a marker with a later epoch is already in the log; nothing was appended"),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False,
     "grant this principal the operation on the transactional id named above"),
    (54, "SECURITY_DISABLED", False, "none: this cluster has no authorizer, so it has no ACLs"),
    (55, "OPERATION_NOT_ATTEMPTED", True, "none: another partition of the request was refused, and is named above"),
    (56, "KAFKA_STORAGE_ERROR", True, "check the disks of the broker named above"),
    (58, "SASL_AUTHENTICATION_FAILED", False, "check the user, the password and the SASL mechanism"),
    (59, "UNKNOWN_PRODUCER_ID", True, "none: the broker no longer remembers the producer id; the log is read again"),
    (68, "NON_EMPTY_GROUP", False, "stop the members of this group first"),
    (69, "GROUP_ID_NOT_FOUND", False, "check the group id: no such group exists, or it is of another type"),
    (70, "FETCH_SESSION_ID_NOT_FOUND", True, "none: the broker has forgotten what was fetched; it is asked for again"),
    (71, "INVALID_FETCH_SESSION_EPOCH", True, "none: the broker has missed a fetch; everything is asked for again"),
    (74, "FENCED_LEADER_EPOCH", True, "none: the leader is looked up again"),
    (75, "UNKNOWN_LEADER_EPOCH", True, "none: the metadata of this broker is out of date; it is asked again"),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", False, "choose a compression codec that the broker supports"),
    (78, "OFFSET_NOT_AVAILABLE", True, "none: the new leader does not know its high watermark yet"),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", True, "restore the preferred replica"),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True, "restart a broker with a replica of this partition"),
    (84, "ELECTION_NOT_NEEDED", False, "none: the preferred replica is already the leader"),
    (87, "INVALID_RECORD", False,
     "correct the records or the topic's configuration: see the reason (a compacted topic refuses null keys)"),
    (88, "UNSTABLE_OFFSET_COMMIT", True,
     "none: an open transaction holds offsets of this group; they are requested again"),
    (89, "THROTTLING_QUOTA_EXCEEDED", True, "wait, or raise the quota of this principal"),
    (90, "PRODUCER_FENCED", False, "none: a newer producer has taken over; this one stops"),
    (100, "UNKNOWN_TOPIC_ID", True, "the topic was deleted, or deleted and re-created: compare the topic ids"),
    (103, "INCONSISTENT_TOPIC_ID", False, "the topic was deleted and re-created: compare the topic ids"),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", True, "none: topics are named in another way; everything is asked for again"),
)))
# fmt: on

_ROWS: Final = {row.code: row for row in TABLE}
_KINDS: Final[dict[int, type[BrokerError]]] = {}


class CodedError(BrokerError):
    """An error code of the table: a subclass gets its name, its action and whether it is retriable from there."""

    def __init_subclass__(cls, code: int, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.code, cls.name, cls.retriable, cls.operator_action = _ROWS[code]
        _KINDS[code] = cls


# fmt: off
class OffsetOutOfRange(CodedError, code=1): ...
class UnknownTopicOrPartition(CodedError, code=3): ...
class LeaderNotAvailable(CodedError, code=5): ...
class NotLeader(CodedError, code=6): ...
class MessageTooLarge(CodedError, code=10): ...
class OffsetMetadataTooLarge(CodedError, code=12): ...
class CoordinatorLoading(CodedError, code=14): ...
class CoordinatorNotAvailable(CodedError, code=15): ...
class NotCoordinator(CodedError, code=16): ...
class RecordListTooLarge(CodedError, code=18): ...
class NotEnoughReplicas(CodedError, code=19): ...
class UnknownMember(CodedError, code=25): ...
class RebalanceInProgress(CodedError, code=27): ...
class TopicAuthorizationFailed(CodedError, code=29): ...
class GroupAuthorizationFailed(CodedError, code=30): ...
class ClusterAuthorizationFailed(CodedError, code=31): ...
class InvalidTimestamp(CodedError, code=32): ...
class UnsupportedSaslMechanism(CodedError, code=33): ...
class IllegalSaslState(CodedError, code=34): ...
class TopicAlreadyExists(CodedError, code=36): ...
class InvalidPartitions(CodedError, code=37): ...
class InvalidReplicationFactor(CodedError, code=38): ...
class InvalidConfig(CodedError, code=40): ...
class NotController(CodedError, code=41): ...
class PolicyViolation(CodedError, code=44): ...
class OutOfOrderSequence(CodedError, code=45): ...
class InvalidProducerEpoch(CodedError, code=47): ...
class InvalidTxnState(CodedError, code=48): ...
class InvalidProducerIdMapping(CodedError, code=49): ...
class ConcurrentTransactions(CodedError, code=51): ...
class TransactionCoordinatorFenced(CodedError, code=52): ...
class TransactionalIdAuthorizationFailed(CodedError, code=53): ...
class SecurityDisabled(CodedError, code=54): ...
class OperationNotAttempted(CodedError, code=55): ...
class FencedLeaderEpoch(CodedError, code=74): ...
class UnknownLeaderEpoch(CodedError, code=75): ...
class UnsupportedCompression(CodedError, code=76): ...
class OffsetNotAvailable(CodedError, code=78): ...
class ElectionNotNeeded(CodedError, code=84): ...
class InvalidRecord(CodedError, code=87): ...
class UnstableOffsetCommit(CodedError, code=88): ...
class ProducerFenced(CodedError, code=90): ...
class UnknownTopicId(CodedError, code=100): ...
class InconsistentTopicId(CodedError, code=103): ...
# fmt: on

for _row in TABLE:
    if _row.code not in _KINDS:
        type(_row.name, (CodedError,), {}, code=_row.code)

BY_CODE: Final[Mapping[int, type[BrokerError]]] = MappingProxyType(_KINDS)
"""The class of every code of the table."""
