"""Connects a reconciliation to its clusters: the Spark job that compares its topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.domain.reconciliation.job import ReconciliationJob
from tanist.spark_submit.submission import Submission

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.domain.reconciliation.job import PositionRequest
    from tanist.usecases.reconciliation.pair import Paired
    from tanist.wiring.registry import ClusterRegistry

APPLICATION: Final = "offset_reconciliation.py"


def reconciliation(
    registry: ClusterRegistry,
    destination: str,
    paired: Paired,
    positions: tuple[PositionRequest, ...],
    folder: Path,
    *,
    publish: bool = False,
) -> Submission:
    """The job that reconciles `paired`. `publish`: it leaves what `found_partitions` reads.

    Raises:
        Misconfigured: no such cluster. MissingDependency: no Java.
    """
    from tanist.spark_submit.jars import java  # noqa: PLC0415

    java()
    job = ReconciliationJob(
        run=uuid4().hex[:12],
        source=registry.cluster(paired.source).endpoint,
        destination=registry.cluster(destination).endpoint,
        pairs=paired.pairs,
        positions=positions,
        publish=publish,
    )
    return Submission(application=APPLICATION, job=job, folder=folder.absolute(), brief=False)
