"""Everything of the product that is played, by the names that it has now: nothing else here imports the product."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING
from unittest.mock import patch
from uuid import UUID

from tanist.domain.acl_entries import ANYBODY, AclEntry
from tanist.domain.checks import Mode, Readiness, Verdict
from tanist.domain.errors import TanistError, TimedOut, Unreachable
from tanist.domain.failover.approving import APPROVALS_TOPIC, Approval
from tanist.domain.failover.evidence import Evidence
from tanist.domain.failover.invariants import check_invariants
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.fences import FenceStatus, may_stand
from tanist.domain.names import EpochMs, MirrorName, ProducerId, SourceOffset, TopicPartition
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
    SourceEnd,
    SourceEnds,
    WorkerAlive,
)
from tanist.domain.selection import Selection
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState, Finding, MirrorState
from tanist.domain.translation import Proof
from tanist.fetcher.assignment import Report
from tanist.fetcher.fence_reconciler import EVERY_SECONDS, FenceReconciler, Guards
from tanist.fetcher.planning import Moment, next_observed, owned
from tanist.ports.clock import Deadline
from tanist.ports.cluster import Cluster
from tanist.ports.positions import CommittedPosition, ProofResult
from tanist.usecases import cluster_ids, state_topics
from tanist.usecases.command import CommandContext
from tanist.usecases.failover import abort, fences, planning
from tanist.usecases.failover import run as running
from tanist.usecases.failover.context import Timeouts
from tanist.usecases.failover.journal import Tools
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_locked
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync as metadata_sync
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors import create as creating
from tanist.usecases.mirrors.create import CreateRequest as MirrorRequest
from tanist.usecases.mirrors.create import create
from tanist.usecases.silence import Silence
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
from tests.fakes.state import WORKER, MemoryStateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ANYBODY",
    "APPROVALS_TOPIC",
    "EVERY_SECONDS",
    "GROUPS_TOPIC",
    "OFFSETS_TOPIC",
    "ROUTE",
    "STATE_PARTITIONS",
    "STATE_TOPIC",
    "WORKER",
    "AclEntry",
    "Approval",
    "ApprovedPlan",
    "Chosen",
    "Cluster",
    "CommandContext",
    "CommittedPosition",
    "Deadline",
    "DesiredState",
    "EpochMs",
    "Evidence",
    "FailoverRun",
    "FenceReconciler",
    "FenceStatus",
    "Fences",
    "Finding",
    "GroupPosition",
    "GroupSyncStatus",
    "GuardedCluster",
    "Guards",
    "JumpingClock",
    "MemoryApprovals",
    "MemoryFencing",
    "MemoryGroup",
    "MemoryGroups",
    "MemoryOpening",
    "MemoryPositions",
    "MemoryProducerFencing",
    "MemoryReplicas",
    "MemoryStateStore",
    "MetadataRequest",
    "MirrorName",
    "MirrorRequest",
    "MirrorSpec",
    "MirrorState",
    "MirrorStatus",
    "Mode",
    "Moment",
    "Observer",
    "OffsetTailMode",
    "OpenMirror",
    "ProducerId",
    "Proof",
    "ProofResult",
    "Purpose",
    "Readiness",
    "Report",
    "RunStatus",
    "Selection",
    "Silence",
    "SourceEnd",
    "SourceEnds",
    "SourceOffset",
    "StateView",
    "StatusContext",
    "SyncRequest",
    "TanistError",
    "TimedOut",
    "Timeouts",
    "Tools",
    "TopicPartition",
    "Unreachable",
    "Verdict",
    "WorkerAlive",
    "abort",
    "administer",
    "check_invariants",
    "cluster_ids",
    "create",
    "desire",
    "fences",
    "may_stand",
    "metadata_sync",
    "mirror_lock",
    "next_observed",
    "observe",
    "owned",
    "planning",
    "repeatable",
    "running",
    "state_topics",
    "sync_locked",
]


@contextmanager
def repeatable() -> Iterator[None]:
    """The ids of mirrors are numbers instead of random ones: a plan's hash is the same each time."""
    numbers = count(1)
    with patch.object(creating, "uuid4", lambda: UUID(int=next(numbers))):
        yield
