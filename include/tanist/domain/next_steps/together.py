"""One command for several mirrors that stand alike: after the loss of a datacenter there are many."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.commands import approve_all_command, plan_all_command, run_all_command
from tanist.domain.failover.many import NamedPlan
from tanist.domain.next_steps.step import Guidance, NextStage, NextStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def together(found: Sequence[Guidance]) -> tuple[NextStep, ...]:
    """What goes on with at least two of these mirrors at once: run before approve before plan."""
    return (*_run(found), *_approve(found), *_plan(found))


def _plans(found: Sequence[Guidance]) -> list[NamedPlan]:
    return [NamedPlan(each.destination, each.mirror, each.plan) for each in found if each.plan]


def _run(found: Sequence[Guidance]) -> Iterator[NextStep]:
    if len(plans := _plans([each for each in found if each.stage is NextStage.APPROVED])) > 1:
        yield NextStep(command=run_all_command(plans), why=f"{len(plans)} mirrors have an approved plan")


def _approve(found: Sequence[Guidance]) -> Iterator[NextStep]:
    asked = [each for each in found if each.stage is NextStage.PLANNED]
    first = sum(each.stage is NextStage.SOURCE_SILENT for each in found)
    if len(plans := _plans(asked)) > 1 >= first:
        yield NextStep(
            command=approve_all_command(plans),
            why=f"{len(plans)} mirrors have a plan that covers what is so now",
            decision="approve the failovers of all of them",
        )


def _plan(found: Sequence[Guidance]) -> Iterator[NextStep]:
    silent: dict[str, list[Guidance]] = defaultdict(list)
    for each in found:
        if each.stage is NextStage.SOURCE_SILENT:
            silent[each.source].append(each)
    for source, mirrors in sorted(silent.items()):
        if len(mirrors) > 1:
            yield NextStep(
                command=plan_all_command(Mode.UNPLANNED, source=source),
                why=f"{source} does not answer, and is the source of {len(mirrors)} mirrors",
                decision="fail all of them over without it",
            )
