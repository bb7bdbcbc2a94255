"""The mirror's WRITE is taken, and what kept everybody else off goes: where there is an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.failover.work import Done, NotYet

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    opening = work.clusters.destination.opening
    answers = opening.open(work.intent.names, work.run.by)
    if failed := [f"{topic}: {error}" for topic, error in answers.items() if error is not None]:
        raise NotYet(f"{len(failed)} topic(s) could not be opened: {'; '.join(failed[:3])}")
    return Done({"topics": sorted(answers), "authorizer": work.facts.destination_authorizer})
