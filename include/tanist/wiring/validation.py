"""Connects a validation to its clusters: the Spark job that compares a mirror with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.domain.selection import Selection
from tanist.domain.validation.job import ValidationJob
from tanist.spark_submit.submission import Submission
from tanist.usecases.validation.prepare import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.domain.names import MirrorName
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.validation.prepare import ValidationRequest
    from tanist.wiring.registry import ClusterRegistry

APPLICATION: Final = "data_validation.py"


def validation(
    registry: ClusterRegistry,
    destination: Cluster,
    mirror: MirrorName,
    request: ValidationRequest,
    folder: Path,
    context: CommandContext,
) -> Submission:
    """The job that validates `mirror`, after the cluster ids of both clusters were checked.

    Raises:
        UnknownMirror, TopicNotInMirror, AnotherCluster, MissingDependency; SourceSilent; CouldNotTell: the destination
        does not answer.
    """
    from tanist.spark_submit.jars import java  # noqa: PLC0415

    java()
    Selection(request.include, request.exclude).check()  # before any cluster is asked
    clusters = registry.open_mirror(destination, mirror, context, any_copier=True)
    spec, prepared = clusters.spec, prepare(clusters, request, context)
    job = ValidationJob(
        run=uuid4().hex[:12],
        mirror=spec.mirror,
        level=prepared.level,
        source=registry.cluster(spec.source).endpoint,
        destination=registry.cluster(destination.name).endpoint,
        data_id=spec.data_id,
        partitions=prepared.partitions,
    )
    return Submission(application=APPLICATION, job=job, folder=folder.absolute())
