"""Which configs of the copies a failover asks for: one that is not asked for is neither judged nor set back."""

from __future__ import annotations

from tanist.domain.failover.takeover import judged_configs
from tanist.domain.topic_configs import KEEPS_RECORDS
from tests.builders import a_topic


def test_what_a_takeover_sets_and_what_keeps_records_is_asked_for() -> None:
    """Also a config that was not held back: somebody may have set it on the copy."""
    held = a_topic("a", deferred_configs=(("min.insync.replicas", "2"),))
    assert judged_configs([held, a_topic("b")]) == {*KEEPS_RECORDS, "min.insync.replicas"}
