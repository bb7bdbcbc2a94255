"""Topics get what the mirror held off them: retention, compaction, compression, replicas in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.failover.takeover import missing
from tanist.ports.topics import TopicFacts
from tanist.usecases.failover.work import Done, must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """Compaction first touches a log once nobody compares it with the source any more."""
    side = work.clusters.destination
    topics = side.topics
    described = topics.describe(work.intent.names, work.context.by)
    done: dict[str, dict[str, str | None]] = {}
    failed: dict[str, TanistError] = {}
    for topic in work.wanted():
        facts = described[topic.topic]
        if not isinstance(facts, TopicFacts):
            failed[topic.topic] = facts
            continue
        changes = missing(topic, facts.replication_factor, facts.configs)
        work.confirm()
        error = topics.alter_configs(topic.topic, changes, work.context.by)
        if error is not None:
            failed[topic.topic] = named(error, side, f"ALTER_CONFIGS on Topic {topic.topic}")
        done[topic.topic] = changes
        work.tools.checkpoint("configs:one")
    must_all(failed, "topic(s) could not be configured")
    return Done({"altered": done})
