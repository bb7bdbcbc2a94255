"""Error codes of the Kafka protocol that somebody can act on, each a class (org.apache.kafka.common.protocol.Errors).

`retriable` says whether asking again can help without anybody doing something; the table from code to class is
`protocol.codes.BY_CODE`.
"""

from __future__ import annotations

from tanist.domain.errors import BrokerError


class OffsetOutOfRange(BrokerError):
    name, code, retriable = "OFFSET_OUT_OF_RANGE", 1, False
    operator_action = "the log does not reach there (any more): see the partition's start and end"


class CorruptMessage(BrokerError):
    name, code, retriable = "CORRUPT_MESSAGE", 2, True
    operator_action = "none: it is sent again; if it comes back, check network and memory between us and the broker"


class UnknownTopicOrPartition(BrokerError):
    name, code, retriable = "UNKNOWN_TOPIC_OR_PARTITION", 3, True
    operator_action = "check that the topic exists and that this principal may DESCRIBE it"


class LeaderNotAvailable(BrokerError):
    name, code, retriable = "LEADER_NOT_AVAILABLE", 5, True
    operator_action = "none if it passes: an election is going on; else bring the partition's brokers back"


class NotLeader(BrokerError):
    name, code, retriable = "NOT_LEADER_OR_FOLLOWER", 6, True
    operator_action = "none: the leader is looked up again"


class RequestTimedOut(BrokerError):
    name, code, retriable = "REQUEST_TIMED_OUT", 7, True
    operator_action = (
        "look at the replicas of this partition: the broker waited for them in vain; the append may have landed"
    )


class BrokerNotAvailable(BrokerError):
    name, code, retriable = "BROKER_NOT_AVAILABLE", 8, True
    operator_action = "none if it passes; else bring the broker back"


class ReplicaNotAvailable(BrokerError):
    name, code, retriable = "REPLICA_NOT_AVAILABLE", 9, True
    operator_action = "none if it passes; else bring the broker back"


class MessageTooLarge(BrokerError):
    name, code, retriable = "MESSAGE_TOO_LARGE", 10, False
    operator_action = "raise max.message.bytes of the topic named; a value of 0 or 78 is a fence"


class CoordinatorLoading(BrokerError):
    name, code, retriable = "COORDINATOR_LOAD_IN_PROGRESS", 14, True
    operator_action = "none: the coordinator is still reading its log"


class CoordinatorNotAvailable(BrokerError):
    name, code, retriable = "COORDINATOR_NOT_AVAILABLE", 15, True
    operator_action = "none if it passes; else bring the brokers of the coordinator's topic back"


class NotCoordinator(BrokerError):
    name, code, retriable = "NOT_COORDINATOR", 16, True
    operator_action = "none: the coordinator is looked up again"


class InvalidTopic(BrokerError):
    name, code, retriable = "INVALID_TOPIC_EXCEPTION", 17, False
    operator_action = "no client may do this to this topic: choose another"


class RecordListTooLarge(BrokerError):
    name, code, retriable = "RECORD_LIST_TOO_LARGE", 18, False
    operator_action = "raise segment.bytes of the topic named: a batch must fit into a segment"


class NotEnoughReplicas(BrokerError):
    name, code, retriable = "NOT_ENOUGH_REPLICAS", 19, True
    operator_action = "bring replicas back into sync: fewer than min.insync.replicas are"


class NotEnoughReplicasAfterAppend(BrokerError):
    name, code, retriable = "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 20, True
    operator_action = "bring replicas back into sync; the append is in the leader's log and may survive"


class UnknownMember(BrokerError):
    name, code, retriable = "UNKNOWN_MEMBER_ID", 25, False
    operator_action = "the group has active members: stop them, or leave their positions to them"


class RebalanceInProgress(BrokerError):
    name, code, retriable = "REBALANCE_IN_PROGRESS", 27, True
    operator_action = "none: the group is settling"


class TopicAuthorizationFailed(BrokerError):
    name, code, retriable = "TOPIC_AUTHORIZATION_FAILED", 29, False
    operator_action = "grant this principal the operation on the topic named; a DENY is a fence"


class GroupAuthorizationFailed(BrokerError):
    name, code, retriable = "GROUP_AUTHORIZATION_FAILED", 30, False
    operator_action = "grant this principal the operation on the group named"


class ClusterAuthorizationFailed(BrokerError):
    name, code, retriable = "CLUSTER_AUTHORIZATION_FAILED", 31, False
    operator_action = "grant this principal the operation on the cluster"


class InvalidTimestamp(BrokerError):
    name, code, retriable = "INVALID_TIMESTAMP", 32, False
    operator_action = "widen message.timestamp.before.max.ms and after.max.ms of the topic named"


class UnsupportedSaslMechanism(BrokerError):
    name, code, retriable = "UNSUPPORTED_SASL_MECHANISM", 33, False
    operator_action = "use a mechanism that the listener offers"


class IllegalSaslState(BrokerError):
    name, code, retriable = "ILLEGAL_SASL_STATE", 34, False
    operator_action = "this listener has no login: correct security_protocol of the connection"


class UnsupportedRequestVersion(BrokerError):
    name, code, retriable = "UNSUPPORTED_VERSION", 35, False
    operator_action = "the broker is older than what this needs"


class TopicAlreadyExists(BrokerError):
    name, code, retriable = "TOPIC_ALREADY_EXISTS", 36, False
    operator_action = "none: it is there already"


class InvalidPartitions(BrokerError):
    name, code, retriable = "INVALID_PARTITIONS", 37, False
    operator_action = "partitions can only be added"


class InvalidReplicationFactor(BrokerError):
    name, code, retriable = "INVALID_REPLICATION_FACTOR", 38, False
    operator_action = "choose a replication factor that the cluster has brokers for"


class InvalidConfig(BrokerError):
    name, code, retriable = "INVALID_CONFIG", 40, False
    operator_action = "the broker does not accept this value: see the reason"


class NotController(BrokerError):
    name, code, retriable = "NOT_CONTROLLER", 41, True
    operator_action = "none: the controller is looked up again"


class InvalidRequest(BrokerError):
    name, code, retriable = "INVALID_REQUEST", 42, False
    operator_action = "this is a bug of ours, or of the broker: report it"


class PolicyViolation(BrokerError):
    name, code, retriable = "POLICY_VIOLATION", 44, False
    operator_action = "a policy of this cluster forbids it: see the reason"


class OutOfOrderSequence(BrokerError):
    name, code, retriable = "OUT_OF_ORDER_SEQUENCE_NUMBER", 45, True
    operator_action = "none: somebody else appended; the log is read again before the next append"


class DuplicateSequence(BrokerError):
    name, code, retriable = "DUPLICATE_SEQUENCE_NUMBER", 46, True
    operator_action = "none: this batch was appended before; the log is read again"


class InvalidProducerEpoch(BrokerError):
    name, code, retriable = "INVALID_PRODUCER_EPOCH", 47, False
    operator_action = "none: a newer writer or a barrier has taken over; this one stops"


class InvalidTxnState(BrokerError):
    name, code, retriable = "INVALID_TXN_STATE", 48, False
    operator_action = "look at the transaction: `tanist mirrors describe` names it"


class InvalidProducerIdMapping(BrokerError):
    name, code, retriable = "INVALID_PRODUCER_ID_MAPPING", 49, False
    operator_action = "none: the transactional id has another producer id by now; this producer stops"


class InvalidTransactionTimeout(BrokerError):
    name, code, retriable = "INVALID_TRANSACTION_TIMEOUT", 50, False
    operator_action = "raise transaction.max.timeout.ms of the brokers: see the reason"


class ConcurrentTransactions(BrokerError):
    name, code, retriable = "CONCURRENT_TRANSACTIONS", 51, True
    operator_action = "none: the last transaction is still ending"


class TransactionCoordinatorFenced(BrokerError):
    name, code, retriable = "TRANSACTION_COORDINATOR_FENCED", 52, False
    operator_action = "none: a later marker is in the log already; nothing was appended"


class TransactionalIdAuthorizationFailed(BrokerError):
    name, code, retriable = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 53, False
    operator_action = "grant this principal the operation on the transactional id named"


class SecurityDisabled(BrokerError):
    name, code, retriable = "SECURITY_DISABLED", 54, False
    operator_action = "this cluster has no authorizer: access rules do not exist here"


class KafkaStorageError(BrokerError):
    name, code, retriable = "KAFKA_STORAGE_ERROR", 56, True
    operator_action = "check the disks of the broker named"


class LoginRefused(BrokerError):
    name, code, retriable = "SASL_AUTHENTICATION_FAILED", 58, False
    operator_action = "check user, password and mechanism"


class UnknownProducerId(BrokerError):
    name, code, retriable = "UNKNOWN_PRODUCER_ID", 59, True
    operator_action = "none: the broker has forgotten our id; the log is read again"


class NonEmptyGroup(BrokerError):
    name, code, retriable = "NON_EMPTY_GROUP", 68, False
    operator_action = "stop the members of this group first"


class GroupIdNotFound(BrokerError):
    name, code, retriable = "GROUP_ID_NOT_FOUND", 69, False
    operator_action = "no such group, or one of another type"


class FencedLeaderEpoch(BrokerError):
    name, code, retriable = "FENCED_LEADER_EPOCH", 74, True
    operator_action = "none: the leader is looked up again"


class UnknownLeaderEpoch(BrokerError):
    name, code, retriable = "UNKNOWN_LEADER_EPOCH", 75, True
    operator_action = "none: this broker is a step behind; it is asked again"


class UnsupportedCompression(BrokerError):
    name, code, retriable = "UNSUPPORTED_COMPRESSION_TYPE", 76, False
    operator_action = "the broker cannot store this codec"


class OffsetNotAvailable(BrokerError):
    name, code, retriable = "OFFSET_NOT_AVAILABLE", 78, True
    operator_action = "none: the leader is new and does not know its high watermark yet"


class PreferredLeaderNotAvailable(BrokerError):
    name, code, retriable = "PREFERRED_LEADER_NOT_AVAILABLE", 80, True
    operator_action = "bring the preferred replica back into sync"


class EligibleLeadersNotAvailable(BrokerError):
    name, code, retriable = "ELIGIBLE_LEADERS_NOT_AVAILABLE", 83, True
    operator_action = "bring a replica of this partition back"


class ElectionNotNeeded(BrokerError):
    name, code, retriable = "ELECTION_NOT_NEEDED", 84, False
    operator_action = "none: the right leader leads already"


class InvalidRecord(BrokerError):
    name, code, retriable = "INVALID_RECORD", 87, False
    operator_action = "the topic refuses these records: see the reason (a compacted topic refuses null keys)"


class UnstableOffsetCommit(BrokerError):
    name, code, retriable = "UNSTABLE_OFFSET_COMMIT", 88, True
    operator_action = "none: a transaction holds positions of this group; they are asked for again"


class ThrottlingQuotaExceeded(BrokerError):
    name, code, retriable = "THROTTLING_QUOTA_EXCEEDED", 89, True
    operator_action = "wait, or raise the quota of this principal"


class ProducerFenced(BrokerError):
    name, code, retriable = "PRODUCER_FENCED", 90, False
    operator_action = "none: a newer producer has taken over; this one stops"


class UnknownTopicId(BrokerError):
    name, code, retriable = "UNKNOWN_TOPIC_ID", 100, True
    operator_action = "the topic was deleted, or deleted and created again: compare the topic ids"


class InconsistentTopicId(BrokerError):
    name, code, retriable = "INCONSISTENT_TOPIC_ID", 103, False
    operator_action = "the topic was deleted and created again: compare the topic ids"
