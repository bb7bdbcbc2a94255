"""A validation as a test asks for it, and its result as a test reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tanist.domain.validation.job import PartitionRequest, ValidationJob
from tanist.domain.validation.page import as_page
from tanist.domain.validation.result import DifferenceKind, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tanist.domain.names import MirrorPartition
    from tanist.domain.validation.job import Level
    from tests.kafka.fetcher.rig import Rig


def validation_job(rig: Rig, partitions: Iterable[MirrorPartition], level: Level, **changes: Any) -> ValidationJob:
    job = ValidationJob(
        run="r",
        mirror=rig.spec.mirror,
        level=level,
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        data_id=rig.spec.data_id,
        partitions=tuple(PartitionRequest(partition=at, runs=rig.offsets(at).runs) for at in partitions),
        settle_seconds=0.0,
    )
    return replace(job, **changes)


def validated(spark: SparkSession, job: ValidationJob) -> dict[str, Any]:
    from tanist.spark.validation import validate  # noqa: PLC0415

    return told(validate(spark, job, lambda _: None))


def told(result: dict[str, Any]) -> dict[str, Any]:
    """`result`, of which a file and a page can be made."""
    assert canonical(result)
    assert as_page(result).startswith("<!doctype html>")
    return result


def kinds(partition: dict[str, Any]) -> dict[str, int]:
    """How many differences of each kind."""
    return {name: partition[name] for name in DifferenceKind if partition[name]}


def named(partition: dict[str, Any], kind: str) -> list[tuple[int | None, int | None, str]]:
    """Offsets in the source and in the copy, and what is said about them."""
    found = [each for each in partition["differences"] if each["kind"] == kind]
    return [(each["source"], each["destination"], each["detail"]) for each in found]
