"""Topics get what the mirror held off them: retention, compaction, compression, replicas in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.failover.takeover import judged_configs, missing
from tanist.ports.topics import TopicFacts
from tanist.usecases.failover.step import must_all
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.usecases.failover.step import StepContext

_AT_ONCE: Final = 50
"""Topics that are altered with one request, directly after a look at them."""


def do(context: StepContext) -> Done:
    """Compaction first touches a log once nobody compares it with the source any more."""
    side = context.destination
    ours = context.taking_over()
    described = side.topics.describe([each.topic for each in ours], context.by, judged_configs(ours))
    failed = {name: facts for name, facts in described.items() if isinstance(facts, TanistError)}
    found = {name: facts for name, facts in described.items() if isinstance(facts, TopicFacts)}
    done = {
        topic.topic: missing(topic, facts.replication_factor, facts.configs)
        for topic in ours
        if (facts := found.get(topic.topic)) is not None
    }
    due = [topic for topic, changes in done.items() if changes]
    for first in range(0, len(due), _AT_ONCE):
        changes = {topic: done[topic] for topic in due[first : first + _AT_ONCE]}
        for topic, error in _alter(context, changes, found).items():
            if error is not None:
                failed[topic] = named(error, side, f"ALTER_CONFIGS on Topic {topic}")
        context.checkpoint("configs:some")
    must_all(failed, "topic(s) could not be configured")
    return Done({"altered": done})


def _alter(
    context: StepContext, changes: Mapping[str, Mapping[str, str | None]], found: Mapping[str, TopicFacts]
) -> dict[str, TanistError | None]:
    """Kafka alters a config whatever its value is by then, so the values are read again directly before.

    What somebody has altered since it was `found` is left to the next attempt, which confirms the lock before it looks:
    a run that was frozen while another one finished gets no further.
    """
    topics = context.destination.topics
    context.session.confirm()
    now = topics.describe(list(changes), context.by, {name for some in changes.values() for name in some})
    answers: dict[str, TanistError | None] = {
        topic: _moved(now[topic], found[topic], some) for topic, some in changes.items()
    }
    left = {topic: some for topic, some in changes.items() if answers[topic] is None}
    return answers | dict(topics.alter_configs(left, context.session.confirm_action()))


def _moved(now: TopicFacts | TanistError, found: TopicFacts, changes: Collection[str]) -> TanistError | None:
    """Why configs are not altered; None: they are as they were `found`."""
    if not isinstance(now, TopicFacts):
        return now
    if moved := sorted(name for name in changes if now.configs.get(name) != found.configs.get(name)):
        return CouldNotTell(f"{', '.join(moved)} was altered by somebody else a moment ago")
    return None
