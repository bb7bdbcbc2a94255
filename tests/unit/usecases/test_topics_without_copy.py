"""Topics that only a returned old source has, beside those that a mirror copies, has failed over, or copies to."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failback.survey import topics_only_there
from tanist.usecases.mirror import ReturnedMirror
from tanist.usecases.mirrors.create import CreateRequest, create
from tests.builders import a_command, a_topic
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.failover import GuardedCluster


def test_only_topics_of_the_filters_are_named_that_no_mirror_has_at_either_cluster() -> None:
    east, west = GuardedCluster("east"), GuardedCluster("west")
    for name in ("a.left", "a.back", "a.other-mirror", "b", "__a.internal"):
        east.with_topic(name)
    create(CreateRequest(mirror="dr", include=("a[.]left",)), east.side(), west.side(), a_command())
    spec = west.view(STATE_TOPIC).mirror(MirrorName("dr"))
    assert spec is not None
    topic = a_topic("a.back", mirror=MirrorName("back"), source_topic_id="")
    east.with_topic(STATE_TOPIC).write(STATE_TOPIC, topic)
    west.write(STATE_TOPIC, replace(topic, mirror=MirrorName("third"), topic="a.other-mirror"))
    east.with_topic("a.only-there")
    wide = replace(spec, include=("a[.].*",))
    clusters = ReturnedMirror(
        spec=wide, source=east.side(), destination=west.side(), pair=pair_with(), from_source=nowhere
    )
    assert topics_only_there(clusters, a_command()) == ("a.only-there",)
