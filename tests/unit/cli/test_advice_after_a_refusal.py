"""The next step behind a refusal."""

from __future__ import annotations

import pytest

from tanist.cli.advice import explains, other_than
from tanist.domain.errors import (
    AuthorizationFailed,
    GroupNotInMirror,
    MirrorLocked,
    TanistError,
    UnknownMirror,
    UnknownTopic,
    Unreachable,
)
from tanist.domain.names import MirrorName
from tanist.domain.next_steps.step import Guidance, NextStage, NextStep
from tanist.domain.problems import Problems

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


@pytest.mark.parametrize("kind", [AuthorizationFailed, GroupNotInMirror, UnknownMirror, UnknownTopic, Unreachable])
def test_a_wrong_name_a_missing_right_and_a_silent_cluster_are_explained_by_no_mirror(kind: type[TanistError]) -> None:
    """Behind them the next step of the mirror is about something else."""
    locked, refusal = MirrorLocked("eve@host"), kind("x")
    assert explains(locked)
    assert explains(Problems([locked, locked]))
    assert not explains(refusal)
    assert not explains(Problems([locked, refusal]))
