"""Why a partition of the old source could not be surveyed."""

from __future__ import annotations

from tanist.domain.errors import CouldNotTell
from tanist.domain.failover.facts import SourceFacts, SourceState
from tanist.usecases.failback.survey import unread
from tanist.usecases.failover.source_seen import SourceSeen
from tests.builders import AT_SOURCE

ALIVE = SourceFacts(state=SourceState.ALIVE)


def test_a_leader_that_did_not_tell_its_end_is_not_reported_as_a_missing_partition() -> None:
    """Its other ends were read a moment later, from the next leader."""
    silent = SourceSeen(facts=ALIVE, unread={AT_SOURCE: CouldNotTell("its leader did not answer")})
    assert "its leader did not answer" in unread(AT_SOURCE, silent)
    assert unread(AT_SOURCE, SourceSeen(facts=ALIVE)) == "the old source does not have this partition"
