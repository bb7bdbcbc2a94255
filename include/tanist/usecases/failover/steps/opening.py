"""The mirror's WRITE is taken, and given to whoever had it at the source: where there is an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.usecases.failover.work import Done, NotYet

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    opening = work.clusters.destination.opening
    held = {topic.topic: topic.held_rules for topic in work.wanted()}
    answers = opening.open(held, work.run.by)
    if failed := [f"{topic}: {error}" for topic, error in answers.items() if error is not None]:
        raise NotYet(f"{len(failed)} topic(s) could not be opened: {'; '.join(failed[:3])}")
    given = {topic: [str(rule) for rule in rules] for topic, rules in held.items()}
    return Done({"topics": sorted(answers), "authorizer": work.facts.destination_authorizer, "writers": given})
