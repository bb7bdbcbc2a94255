"""The next step behind a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.cli.advice import explains, other_than
from tanist.domain.errors import (
    AuthorizationFailed,
    GroupNotInMirror,
    MirrorExists,
    MirrorLocked,
    TanistError,
    TopicAlreadyInMirror,
    UnknownMirror,
    UnknownTopic,
    Unreachable,
)
from tanist.domain.names import MirrorName
from tanist.domain.next_steps.step import Guidance, NextStage, NextStep
from tanist.domain.problems import Problems
from tanist.domain.states import MirrorState
from tests.unit.cli.in_memory import MemoryRegistry, three_mirrors, use
from tests.unit.usecases.test_detached import Prefixes

if TYPE_CHECKING:
    from tests.kafka.cli.conftest import Tanist

COMMAND = "tanist mirrors add dr --destination west --topic q"
FOUND = Guidance(
    mirror=MirrorName("dr"),
    destination="west",
    stage=NextStage.MIRRORING,
    steps=(NextStep(command=COMMAND, why="it matches"), NextStep(command="tanist fetcher run", why="nobody copies")),
)


@pytest.mark.parametrize(
    "typed",
    [
        "mirrors add dr --destination west --topic q",
        "mirrors add dr -d west --topic q",
        "mirrors add dr --topic q",
        "mirrors add dr --topic q --reason why",
    ],
    ids=["as printed", "short", "by the environment", "with a reason"],
)
def test_what_was_refused_a_moment_ago_is_not_advised_again(typed: str) -> None:
    assert [each.command for each in other_than(FOUND, typed.split()).steps] == ["tanist fetcher run"]


def test_another_topic_is_another_command() -> None:
    assert len(other_than(FOUND, ["mirrors", "add", "dr", "--destination", "west", "--topic", "p"]).steps) == 2


@pytest.mark.parametrize(
    "kind",
    [
        AuthorizationFailed,
        GroupNotInMirror,
        MirrorExists,
        TopicAlreadyInMirror,
        UnknownMirror,
        UnknownTopic,
        Unreachable,
    ],
)
def test_a_wrong_name_a_missing_right_and_a_silent_cluster_are_explained_by_no_mirror(kind: type[TanistError]) -> None:
    """Behind them the next step of the mirror is about something else."""
    locked, refusal = MirrorLocked("eve@host"), kind("x")
    assert explains(locked)
    assert explains(Problems([locked, locked]))
    assert not explains(refusal)
    assert not explains(Problems([locked, refusal]))


def test_a_name_or_a_topic_that_is_taken_leads_to_no_step_of_the_mirror_that_was_named(
    monkeypatch: pytest.MonkeyPatch, tanist: Tanist
) -> None:
    """`next:` went on with that mirror, whatever had been refused."""
    orders, stock, _ = three_mirrors()
    use(monkeypatch, (orders, stock))
    monkeypatch.setattr(MemoryRegistry, "log_prefixes", lambda *_: Prefixes(stock.east, stock.west))
    for world in (orders, stock):
        world.observe(MirrorState.FAILED, world.partitions[0], error="RECORD_TOO_LARGE")
        assert "next: tanist mirrors resume" in tanist("next", world.mirror).out
    stock.east.with_topic("orders", 2, 10)
    where = ("--destination", "west")
    taken = tanist("mirrors", "create", "orders", *where, "--source", "east", "--topic", "other")
    topic = tanist("mirrors", "add", "stock", *where, "--topic", "orders")
    assert (taken.errors, topic.errors) == (["MIRROR_ALREADY_EXISTS"], ["TOPIC_ALREADY_IN_MIRROR"])
    assert [each for each in (taken.err + topic.err).splitlines() if each.startswith("next:")] == []
