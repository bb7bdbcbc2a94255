"""The one home of records that more than one test module needs: complete, and as plain as they get.

A test names only the fields that it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.lineage import TopicLineage
from tanist.domain.moves import MirrorMove, MoveStatus
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, ProducerId, SourcePartition
from tanist.domain.records import FailoverRun, MirrorSpec, PartitionObserved, RunStatus, TopicDesired, WorkerAlive
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState, MirrorState
from tanist.domain.writer_identity import ProducerIds
from tanist.usecases.command import CommandContext
from tanist_testkit.verify.traces import Place
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from tanist.domain.state_record import StateRecord

DR: Final = MirrorName("dr")
AT: Final = MirrorPartition("orders", 0)
AT_SOURCE: Final = SourcePartition("orders", 0)
HERE: Final = Place(*AT)
"""The same, where the testkit compares logs."""
IDS: Final = ProducerIds(ProducerId(1), ProducerId(2), ProducerId(3))
_BEGAN: Final = EpochMs(0)


def a_mirror(mirror: MirrorName = DR, **fields: Any) -> MirrorSpec:
    """From east to west, whose cluster ids are `e` and `w`."""
    plain: dict[str, Any] = {
        "source": "east",
        "destination": "west",
        "source_cluster_id": "e",
        "destination_cluster_id": "w",
        "data_id": IDS.data,
        "marker_id": IDS.marker,
        "start_id": IDS.start,
        "created_at": _BEGAN,
    }
    return MirrorSpec(mirror=mirror, **plain | fields)


def a_topic(topic: str = AT.topic, **fields: Any) -> TopicDesired:
    """A mirrored one, of one partition."""
    plain: dict[str, Any] = {
        "mirror": DR,
        "desired": DesiredState.MIRRORING,
        "source_topic_id": "id",
        "partitions": 1,
        "changed_at": _BEGAN,
    }
    return TopicDesired(topic=topic, **plain | fields)


def a_partition(state: MirrorState = MirrorState.MIRRORING, **fields: Any) -> PartitionObserved:
    """As its worker has observed it."""
    plain: dict[str, Any] = {"mirror": DR, "partition": AT, "row": 102, "at": _BEGAN}
    return PartitionObserved(state=state, **plain | fields)


def a_worker(worker: str = "w", **fields: Any) -> WorkerAlive:
    """Which says that it lives."""
    plain: dict[str, Any] = {"version": "1", "host": "h", "started_at": _BEGAN, "at": _BEGAN}
    return WorkerAlive(worker=worker, **plain | fields)


def a_run(**fields: Any) -> FailoverRun:
    """A failover that has begun, and nobody is at work."""
    plain: dict[str, Any] = {
        "mirror": DR,
        "plan": "cafe",
        "plan_json": "",
        "approval": "0-0",
        "approver": "carol",
        "runner": "",
        "status": RunStatus.RUNNING,
        "started_at": _BEGAN,
        "at": _BEGAN,
    }
    return FailoverRun(**plain | fields)


def a_lineage(*ends: int, topic: str = AT.topic, **fields: Any) -> TopicLineage:
    """Of the first promotion, at the cluster `w`. `ends`: of the records that were copied, by partition; no reserve."""
    plain: dict[str, Any] = {
        "mirror": DR,
        "promotion_epoch": 1,
        "old_cluster_id": "e",
        "new_cluster_id": "w",
        "old_ends": ends,
        "reserve_ends": ends,
        "at": EpochMs(1),
    }
    return TopicLineage(topic=topic, **plain | fields)


def a_move(status: MoveStatus = MoveStatus.MOVING, **fields: Any) -> MirrorMove:
    """A reversal to east."""
    plain: dict[str, Any] = {
        "mirror": DR,
        "destination": "east",
        "cluster_id": "e",
        "plan": "cafe",
        "plan_json": "{}",
        "approval": "0-0",
        "approver": "carol",
        "at": EpochMs(1),
    }
    return MirrorMove(status=status, **plain | fields)


def a_view(*records: StateRecord) -> StateView:
    """What is stored, and nothing else."""
    return StateView({each.key: each for each in records})


def a_command(clock: JumpingClock | None = None, *, dry_run: bool = False) -> CommandContext:
    """A command as use cases see it, with half a minute."""
    clock = clock or JumpingClock()
    return CommandContext(clock=clock, by=clock.deadline(30), dry_run=dry_run)
