"""Topics get what the mirror held off them: retention, compaction, compression, replicas in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.failover.takeover import missing
from tanist.ports.topics import TopicFacts
from tanist.usecases.failover.step import Done, must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.usecases.failover.step import StepContext


def do(context: StepContext) -> Done:
    """Compaction first touches a log once nobody compares it with the source any more."""
    side = context.clusters.destination
    topics = side.topics
    described = topics.describe(context.intent.names, context.command.by)
    done: dict[str, dict[str, str | None]] = {}
    failed: dict[str, TanistError] = {}
    for topic in context.wanted():
        facts = described[topic.topic]
        if not isinstance(facts, TopicFacts):
            failed[topic.topic] = facts
            continue
        changes = missing(topic, facts.replication_factor, facts.configs)
        context.session.confirm()
        error = topics.alter_configs(topic.topic, changes, context.command.by)
        if error is not None:
            failed[topic.topic] = named(error, side, f"ALTER_CONFIGS on Topic {topic.topic}")
        done[topic.topic] = changes
        context.checkpoint("configs:one")
    must_all(failed, "topic(s) could not be configured")
    return Done({"altered": done})
