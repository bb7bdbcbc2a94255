"""Everything of the product that is played, by the names that it has now: nothing else here imports the product."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING
from unittest.mock import patch
from uuid import UUID

from tanist.domain.acl_entries import ANYBODY, AclEntry
from tanist.domain.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResource
from tanist.domain.approval.entries import APPROVALS_TOPIC, Approval
from tanist.domain.checks import Mode, Readiness, Verdict
from tanist.domain.circle import locate
from tanist.domain.errors import TanistError, TimedOut, Unreachable
from tanist.domain.failback import pending as pending_tails
from tanist.domain.failback.decision import DecisionPlan, TailAction, TailClass
from tanist.domain.failback.pending import findings_of, left_undecided, pending
from tanist.domain.failback.reversal import Reversal
from tanist.domain.failover.evidence import Evidence
from tanist.domain.failover.facts import OpenTransaction
from tanist.domain.failover.invariants import check_invariants
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.fences import FencedTopic, FenceStatus, may_stand
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.names import (
    EpochMs,
    MirrorName,
    MirrorPartition,
    ProducerId,
    SourceOffset,
    SourcePartition,
    TopicPartition,
)
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_PARTITIONS,
    STATE_TOPIC,
    FailoverRun,
    Fences,
    GroupPosition,
    GroupSyncStatus,
    MirrorSpec,
    OffsetTailMode,
    RunStatus,
    TopicDesired,
    WorkerAlive,
)
from tanist.domain.selection import EVERY_TOPIC, Selection
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState, Finding, MirrorState
from tanist.domain.tails import FindingKind, TailStage, TopicTails, quarantine_topic
from tanist.domain.translation import Proof
from tanist.fetcher.assignment import Report
from tanist.fetcher.fence_reconciler import EVERY_SECONDS, FenceReconciler, Guards
from tanist.fetcher.planning import Moment, next_observed, owned
from tanist.ports.clock import Deadline
from tanist.ports.cluster import Cluster
from tanist.ports.positions import CommittedPosition, ProofResult
from tanist.usecases import snapshot
from tanist.usecases.command import CommandContext, Silence
from tanist.usecases.failback import (
    aborting,
    accepting,
    deciding,
    moving_state,
    old_source,
    recording,
    recreating,
    replay,
    rescue,
    reversal,
    reversal_route,
    reverse,
)
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failover import abort, fences, planning
from tanist.usecases.failover import run as running
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.failover.tools import GroupsMoved, Timeouts, Tools
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_locked
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.metadata import deleting
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync as metadata_sync
from tanist.usecases.mirror import OpenMirror, ReturnedMirror, spec_at
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors import create as creating
from tanist.usecases.mirrors.create import CreateRequest as MirrorRequest
from tanist.usecases.mirrors.create import create
from tanist.usecases.runs.runner import RowRunner, RunRow, RunTable
from tanist.usecases.status.observe import MirrorStatus, StatusContext, observe
from tests.fakes.clock import JumpingClock
from tests.fakes.failover import (
    GuardedCluster,
    MemoryApprovals,
    MemoryFencing,
    MemoryOpening,
    MemoryProducerFencing,
    MemoryReplicas,
)
from tests.fakes.positions import MemoryGroup, MemoryGroups, MemoryPositions
from tests.fakes.records import RecordedCluster, Written
from tests.fakes.state import WORKER, MemoryStateStore
from tests.fakes.tails import (
    MemoryDeletion,
    MemoryQuarantine,
    MemoryReplays,
    MemorySizes,
    MemoryTails,
    MemoryTransactions,
)
from tests.fakes.topics import MemoryTopics

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ANYBODY",
    "APPROVALS_TOPIC",
    "EVERY_SECONDS",
    "EVERY_TOPIC",
    "GROUPS_TOPIC",
    "OFFSETS_TOPIC",
    "ROUTE",
    "STATE_PARTITIONS",
    "STATE_TOPIC",
    "WORKER",
    "AclBinding",
    "AclEntry",
    "AclOperation",
    "AclPattern",
    "AclPermission",
    "AclResource",
    "Approval",
    "ApprovedPlan",
    "Chosen",
    "Cluster",
    "CommandContext",
    "CommittedPosition",
    "Deadline",
    "DecisionPlan",
    "DesiredState",
    "EpochMs",
    "Evidence",
    "FailoverRun",
    "FenceReconciler",
    "FenceStatus",
    "FencedTopic",
    "Fences",
    "Finding",
    "FindingKind",
    "GroupPosition",
    "GroupSyncStatus",
    "GroupsMoved",
    "GuardedCluster",
    "Guards",
    "JumpingClock",
    "MemoryApprovals",
    "MemoryDeletion",
    "MemoryFencing",
    "MemoryGroup",
    "MemoryGroups",
    "MemoryOpening",
    "MemoryPositions",
    "MemoryProducerFencing",
    "MemoryQuarantine",
    "MemoryReplays",
    "MemoryReplicas",
    "MemorySizes",
    "MemoryStateStore",
    "MemoryTails",
    "MemoryTopics",
    "MemoryTransactions",
    "MetadataRequest",
    "MirrorMove",
    "MirrorName",
    "MirrorPartition",
    "MirrorRequest",
    "MirrorSpec",
    "MirrorState",
    "MirrorStatus",
    "Mode",
    "Moment",
    "MoveStatus",
    "Observer",
    "OffsetTailMode",
    "OpenMirror",
    "OpenTransaction",
    "ProducerId",
    "Proof",
    "ProofResult",
    "Purpose",
    "Readiness",
    "RecordedCluster",
    "Report",
    "ReturnedMirror",
    "Reversal",
    "RowRunner",
    "RunRow",
    "RunStatus",
    "RunTable",
    "Selection",
    "Silence",
    "SourceEnd",
    "SourceEnds",
    "SourceOffset",
    "SourcePartition",
    "StateView",
    "StatusContext",
    "SyncRequest",
    "TailAction",
    "TailClass",
    "TailStage",
    "TanistError",
    "TimedOut",
    "Timeouts",
    "Tools",
    "TopicDesired",
    "TopicPartition",
    "TopicTails",
    "Unreachable",
    "Verdict",
    "WorkerAlive",
    "Written",
    "abort",
    "aborting",
    "accepting",
    "administer",
    "check_invariants",
    "create",
    "deciding",
    "deleting",
    "desire",
    "fences",
    "findings_of",
    "left_undecided",
    "locate",
    "may_stand",
    "metadata_sync",
    "mirror_lock",
    "moving_state",
    "next_observed",
    "observe",
    "old_source",
    "owned",
    "pending",
    "pending_tails",
    "planning",
    "quarantine_topic",
    "recording",
    "recreating",
    "repeatable",
    "replay",
    "rescue",
    "reversal",
    "reversal_route",
    "reverse",
    "running",
    "snapshot",
    "spec_at",
    "survey_and_record",
    "sync_locked",
]


@contextmanager
def repeatable() -> Iterator[None]:
    """The ids of mirrors are numbers instead of random ones: a plan's hash is the same each time."""
    numbers = count(1)
    with patch.object(creating, "uuid4", lambda: UUID(int=next(numbers))):
        yield
