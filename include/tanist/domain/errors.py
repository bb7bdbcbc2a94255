"""All errors of Tanist, each with the operator's next step.

    TanistError
    ├── Refused                     check failed or refused, nothing was changed       exit 1
    │   ├── UnknownMirror, MirrorExists, TopicAlreadyInMirror, TopicNotInMirror, ...   names of KIP-1279
    ├── Misconfigured               the command line or the configuration is wrong     exit 2
    ├── CouldNotTell                a fact could not be read, nothing was changed      exit 3
    ├── Interrupted                 partial: run it again                              exit 4
    ├── BrokerError                 a broker answered with an error code               exit 3
    └── PartitionBroken             one partition cannot be copied; others continue    exit 1

The message names the thing and the reason, the class names the next step. Whether to try again belongs to the error
(`retriable`), never to a list kept elsewhere.
"""

from __future__ import annotations

from typing import ClassVar, Final

from tanist.domain.filled import filled


class TanistError(Exception):
    """An error for an operator: the message names the item and the reason, the class the next step."""

    name: ClassVar[str] = "INTERNAL"
    operator_action: ClassVar[str] = "this is a bug in Tanist: report it with the output of `tanist state dump`"
    retriable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 70
    state_explains: ClassVar[bool] = False
    """Whether the state of its mirror may be the cause, so that the next step of the mirror leads on from here. It does
    not from a name, a topic or an address that was typed, a missing right, or a cluster without an answer."""
    mirror: str = ""
    destination: str = ""
    topic: str = ""
    plan: str = ""
    """Of what was refused: its mirror, where that is, the topic to leave out, the plan to go on with; or empty"""

    @property
    def action(self) -> str:
        """The next step, with the values of its commands where they are known."""
        return self.action_for(self.topic)

    def action_for(self, *topics: str) -> str:
        return filled(
            self.operator_action, mirror=self.mirror, destination=self.destination, topics=topics, plan=self.plan
        )

    @property
    def reason(self) -> str:
        """The message alone, without name and action; its commands name their mirror where it is known."""
        return filled(super().__str__(), mirror=self.mirror, destination=self.destination, topics=(), plan="")

    def __str__(self) -> str:
        return f"{self.name}: {self.reason} ({self.action})"


# ── refused ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Refused(TanistError):
    name, exit_code, state_explains = "REFUSED", 1, True
    operator_action = "nothing was changed"


class UnknownMirror(Refused):
    name, state_explains = "UNKNOWN_MIRROR", False
    operator_action = "see `tanist mirrors list`"


class MirrorExists(Refused):
    name, state_explains = "MIRROR_ALREADY_EXISTS", False
    operator_action = "choose another name, or change the existing mirror with `tanist mirrors alter`"


class TopicAlreadyInMirror(Refused):
    name, state_explains = "TOPIC_ALREADY_IN_MIRROR", False
    operator_action = "a destination topic can belong to one mirror only: see `tanist mirrors list`"


class TopicNotInMirror(Refused):
    name = "TOPIC_NOT_IN_MIRROR"
    operator_action = "see `tanist mirrors describe`"


class UnknownTopic(Refused):
    name, state_explains = "UNKNOWN_TOPIC", False
    operator_action = "check the regular expression: it must match the whole name of a source topic"


class TopicFenced(Refused):
    name = "TOPIC_FENCED"
    operator_action = (
        "leave the topic out if it was failed over. Else lift the source fence first (`fence lift` of the mirror that "
        "has set it, or remove the ACL or the config yourself), because it would be copied; nothing was changed"
    )


class GroupNotInMirror(Refused):
    name, state_explains = "GROUP_NOT_IN_MIRROR", False
    operator_action = "`tanist groups list` shows the groups whose committed offsets are kept; nothing was changed"


class MirrorNotEmpty(Refused):
    name = "MIRROR_NOT_EMPTY"
    operator_action = "remove its topics first: `tanist mirrors remove --topic '.*'`"


class MirrorLocked(Refused):
    """Another operation changes the same mirror, or an unfinished failover holds its lock."""

    name = "MIRROR_LOCKED"
    operator_action = "wait for it, or end an unfinished failover (`tanist failover status`), then run this again"


class RunUnderWay(MirrorLocked):
    """Another failover of the mirror is unfinished, or another process runs this one."""

    name = "RUN_UNDER_WAY"
    operator_action = "see `tanist failover status`; nothing was changed"


class PastReturn(Refused):
    """A failover is past its point of no return: producers of the mirror may be fenced already."""

    name = "PAST_POINT_OF_NO_RETURN"
    operator_action = "complete the failover (`tanist failover run --plan HASH`): it can no longer be undone"


class CopyDiffers(Refused):
    name = "COPY_DIFFERS"
    operator_action = "read the differences in the validation report; nothing was changed"


class SameCluster(Refused):
    name, state_explains = "SAME_CLUSTER", False
    operator_action = "source and destination must be different clusters: compare their bootstrap servers"


class AnotherCluster(Refused):
    name, state_explains = "CLUSTER_ID_MISMATCH", False
    operator_action = "correct its bootstrap servers: they lead to another cluster than when the mirror was created"


class DestinationNotEmpty(Refused):
    name, state_explains = "DESTINATION_TOPIC_NOT_EMPTY", False
    operator_action = "choose other topics, delete it if its records are not needed, or take it with --adopt"


class TopicMismatch(Refused):
    name, state_explains = "TOPIC_MISMATCH", False
    operator_action = "change the destination topic to match the source topic, or delete it and let Tanist create it"


class AuthorizationFailed(Refused):
    name, state_explains = "MIRROR_AUTHORIZATION_FAILED", False
    operator_action = "grant the permission named above and run the same command again"


class UnsafeStateTopic(Refused):
    name = "UNSAFE_STATE_TOPIC"
    operator_action = "configure it as compacted and replicated, or set `allow_small_state` for this cluster"


class NoStateTopic(Refused):
    name, exit_code = "NO_STATE_TOPIC", 3
    operator_action = (
        "no mirror was created there yet (`tanist mirrors create`), the connection leads to another cluster, "
        "or the topic was deleted: `tanist doctor` shows which cluster answers"
    )


class StateLogLost(Refused):
    name = "STATE_LOG_LOST"
    operator_action = "the state topic was deleted, re-created or truncated: find the cause before starting any worker"


class OperatorFenced(Refused):
    name = "OPERATOR_FENCED"
    operator_action = "another operator has just changed this mirror: see `tanist mirrors describe`, then decide again"


class PositionMoved(Refused):
    """The committed offset is no longer the one that the decision was based on (compare and set)."""

    name = "COMMITTED_OFFSET_MOVED"
    operator_action = "another client commits for this group, so its offset was left alone: run the same command again"


class GroupCommitFenced(Refused):
    """Another command has initialised our transactional id, or the transaction timed out: nothing was committed."""

    name = "GROUP_COMMIT_FENCED"
    operator_action = "another command commits offsets of this mirror: wait for it, then run the same command again"


class UnsupportedVersion(Refused):
    name, state_explains = "UNSUPPORTED_VERSION", False
    operator_action = "upgrade the broker: it is too old for this operation"


# ── misconfigured ─────────────────────────────────────────────────────────────────────────────────────────────────


class Misconfigured(TanistError):
    name, exit_code = "INVALID_CONFIG", 2
    operator_action = "correct it and run the same command again"


class TwoClusters(Misconfigured):
    """Brokers of different clusters answer under one name, so a request could reach either cluster."""

    name = "TWO_CLUSTERS"
    operator_action = "list the brokers of only one cluster in its bootstrap_servers; nothing was changed"


class InvalidMirrorName(Misconfigured):
    name = "INVALID_MIRROR_NAME"


class MissingDependency(Misconfigured):
    name = "MISSING_DEPENDENCY"
    operator_action = "install it and run the same command again"


class PortTaken(Misconfigured):
    name = "PORT_TAKEN"
    operator_action = "stop the process that listens there, or choose another port"


# ── could not tell ────────────────────────────────────────────────────────────────────────────────────────────────


class CouldNotTell(TanistError):
    name, exit_code, retriable = "UNKNOWN", 3, True
    operator_action = "restore access to the service that did not answer; nothing was changed"


class Unreachable(CouldNotTell):
    name = "UNREACHABLE"
    operator_action = "check the address, the network, and that the cluster is running; nothing was changed"


class SourceSilent(Unreachable):
    """The source of a mirror does not answer; the destination does."""

    name = "SOURCE_SILENT"
    operator_action = "the destination answers: check that the source is running and reachable; nothing was changed"


class TimedOut(CouldNotTell):
    name = "TIMED_OUT"
    operator_action = "check the cluster named above, or allow more time"


class TopicReplaced(CouldNotTell):
    """Whatever is read of it now is not what was asked for."""

    name, retriable = "TOPIC_REPLACED", False
    operator_action = "run the same command again: it reads the topic that is there now"


class AuthenticationFailed(CouldNotTell):
    name, retriable = "AUTHENTICATION_FAILED", False
    operator_action = "check the user, password, mechanism and certificates of this connection; nothing was changed"


class WrongListener(CouldNotTell):
    """The listener does not use the protocol that this connection is configured for."""

    name, retriable = "WRONG_LISTENER", False
    operator_action = "make security_protocol and port of this connection match the listener; nothing was changed"


class MalformedFrame(CouldNotTell):
    """An answer that does not match its request; the connection is closed."""

    name = "MALFORMED_FRAME"
    operator_action = "none: the connection is reopened; if this recurs, a device on the network path modifies the data"


class ConnectionLost(CouldNotTell):
    name = "CONNECTION_LOST"
    operator_action = "none: the connection is reopened"


class DownloadFailed(CouldNotTell):
    name = "DOWNLOAD_FAILED"
    operator_action = "read the log named above, check the network and the proxy, and run the same command again"


class ProcessFailed(CouldNotTell):
    """A process that we started has ended by itself, or never became ready."""

    name, retriable = "PROCESS_FAILED", False
    operator_action = "read the log named above"


class Stopped(CouldNotTell):
    """A wait or a call was ended by our own shutdown."""

    name = "STOPPED"
    operator_action = "none: this process is stopping"


class Interrupted(TanistError):
    name, exit_code, retriable = "INTERRUPTED", 4, True
    operator_action = "run the same command again: it continues where this one stopped"


# ── a broker answered with an error code (the table is in broker_errors) ─────────────────────────────────────────


class BrokerError(TanistError):
    """An error code of the Kafka protocol. `code` is -1 where the class has none of its own."""

    name, exit_code = "BROKER_ERROR", 3
    operator_action = "check the cluster named above"
    code: ClassVar[int] = -1


# ── a partition cannot be copied any further ──────────────────────────────────────────────────────────────────────


_RESUME: Final = "then `tanist mirrors resume NAME --topic TOPIC`: it compares both logs and continues where they agree"
_START_AGAIN: Final = "copy the topic again from its start (`tanist mirrors remove --keep-copy`, docs/mirroring.md)"


class PartitionBroken(TanistError):
    """One partition fails alone. Not retriable: a person resumes its topic, or takes it out of the mirror."""

    name, exit_code = "PARTITION_BROKEN", 1
    operator_action = f"mend the cause, {_RESUME}"


class ForeignWrite(PartitionBroken):
    name = "FOREIGN_WRITE"
    operator_action = f"find the other writer, revoke its WRITE; its records stay: {_START_AGAIN}"


class CorruptBatch(PartitionBroken):
    name = "CORRUPT_BATCH"
    operator_action = f"nothing was written: check the disks of that broker, {_RESUME}"


class CompactionHole(PartitionBroken):
    name = "COMPACTION_HOLE"
    operator_action = "compaction removed records, and the mirror refuses holes: add it to one with `--holes copies`"


class UnsupportedBatch(PartitionBroken):
    name = "UNSUPPORTED_BATCH"
    operator_action = "rewrite the records of the topic at the source in a supported format: see the reason"


class Diverged(PartitionBroken):
    name = "DIVERGED"
    operator_action = f"compare both clusters (`tanist validate`): {_START_AGAIN}"


class SourceTruncated(PartitionBroken):
    name = "SOURCE_TRUNCATED"
    operator_action = "the source lost copied records: compare both (`tanist validate`) and decide which is right"


class SourceTopicRecreated(PartitionBroken):
    name = "SOURCE_TOPIC_RECREATED"
    operator_action = _START_AGAIN


class LogStartTooFar(PartitionBroken):
    name = "LOG_START_TOO_FAR"
    operator_action = f"raise --max-start-fill to what is needed (`tanist mirrors alter`), {_RESUME}"


class RecordTooLarge(PartitionBroken):
    name = "RECORD_TOO_LARGE"
    operator_action = f"raise max.message.bytes of the destination topic, {_RESUME}"


class PositionTooLarge(PartitionBroken):
    name = "POSITION_TOO_LARGE"
    operator_action = f"raise offset.metadata.max.bytes of the destination's brokers to its default, 4096, {_RESUME}"


class RecordRefused(PartitionBroken):
    name = "RECORD_REFUSED"
    operator_action = f"configure the destination topic to accept it (see the reason), {_RESUME}"


class MirrorProducerFenced(PartitionBroken):
    name = "SEALED"
    operator_action = "none: the topic was failed over, so this mirror must not write to it again"


class SourceReplaced(PartitionBroken):
    name = "SOURCE_REPLACED"
    operator_action = "another cluster took over: `tanist mirrors remove`, or `tanist mirrors add --promoted`"
