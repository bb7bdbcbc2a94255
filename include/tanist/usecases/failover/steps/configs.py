"""Topics get what the mirror held off them: retention, compaction, compression, replicas in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import CouldNotTell
from tanist.domain.failover.takeover import missing
from tanist.ports.topics import TopicFacts
from tanist.usecases.failover.step import must_all
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.errors import TanistError
    from tanist.usecases.failover.step import StepContext


def do(context: StepContext) -> Done:
    """Compaction first touches a log once nobody compares it with the source any more."""
    side = context.destination
    topics = side.topics
    ours = context.taking_over()
    described = topics.describe([each.topic for each in ours], context.by)
    done: dict[str, dict[str, str | None]] = {}
    failed: dict[str, TanistError] = {}
    for topic in ours:
        facts = described[topic.topic]
        if not isinstance(facts, TopicFacts):
            failed[topic.topic] = facts
            continue
        changes = missing(topic, facts.replication_factor, facts.configs)
        error = _alter(context, topic.topic, changes, facts.configs)
        if error is not None:
            failed[topic.topic] = named(error, side, f"ALTER_CONFIGS on Topic {topic.topic}")
        done[topic.topic] = changes
        context.checkpoint("configs:one")
    must_all(failed, "topic(s) could not be configured")
    return Done({"altered": done})


def _alter(
    context: StepContext, topic: str, changes: Mapping[str, str | None], found: Mapping[str, str]
) -> TanistError | None:
    """Kafka alters a config whatever its value is by then, so the value is read again directly before.

    What somebody has altered since it was `found` is left to the next attempt, which confirms the lock before it looks:
    a run that was frozen while another one finished gets no further.
    """
    if not changes:
        return None
    by, topics = context.by, context.destination.topics
    context.session.confirm()
    now = topics.describe([topic], by)[topic]
    if not isinstance(now, TopicFacts):
        return now
    if moved := sorted(name for name in changes if now.configs.get(name) != found.get(name)):
        return CouldNotTell(f"{', '.join(moved)} was altered by somebody else a moment ago")
    return topics.alter_configs(topic, changes, context.session.confirm_action())
