"""Many small cases in one validation: each plants topics of its own, and reads what was found of them.

A case a job costs several times more, for the same statements: Spark plans every frame of a job anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from tanist.domain.names import MirrorPartition
from tanist.domain.validation.job import Level
from tanist.spark.validation import validate
from tests.spark.asking import told, validation_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.kafka.fetcher.rig import Rig


@dataclass(frozen=True)
class Ground:
    """Where one case plants.

    `topic`: its name for topics. `meanwhile`: what happens when the bounds are fixed and before the logs are read.
    `odd`: what is on record of a partition that is not just mirrored.
    """

    rig: Rig
    level: Level
    topic: str
    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    odd: dict[MirrorPartition, dict[str, Any]] = field(default_factory=dict)


Case: TypeAlias = "Callable[[Ground], Sequence[MirrorPartition]]"


@dataclass(frozen=True)
class Look:
    """What one validation has found of all cases."""

    level: Level
    result: dict[str, Any]
    planted: Mapping[Case, Sequence[MirrorPartition]]

    def of(self, case: Case) -> list[dict[str, Any]]:
        """Of each partition of `case`, in its order."""
        found = {(each["topic"], each["partition"]): each for each in self.result["partitions"]}
        return [found[at.topic, at.partition] for at in self.planted[case]]


def looked(spark: SparkSession, rig: Rig, level: Level, cases: Sequence[Case]) -> Look:
    """All `cases` planted, and validated once."""
    grounds = {case: Ground(rig, level, f"{case.__name__.replace('_', '-')}-{uuid4().hex[:8]}") for case in cases}
    planted = {case: tuple(case(ground)) for case, ground in grounds.items()}
    job = validation_job(rig, [at for found in planted.values() for at in found], level)
    odd = {at: changes for ground in grounds.values() for at, changes in ground.odd.items()}
    job = replace(
        job, partitions=tuple(replace(each, **odd.get(MirrorPartition(*each.partition), {})) for each in job.partitions)
    )
    happened: list[str] = []

    def report(stage: str) -> None:
        if stage.startswith(f"{level}:"):
            happened.append(stage)
            for ground in grounds.values():
                for happens in ground.meanwhile:
                    happens()

    result = told(validate(spark, job, report))
    assert len(happened) == (level is not Level.RANGES), "the logs are read once"
    return Look(level, result, planted)
