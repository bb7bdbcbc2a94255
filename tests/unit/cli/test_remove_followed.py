"""`tanist mirrors remove` of a mirror that somebody else copies."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from tanist.cli import options
from tanist.cli.options import Session
from tanist.domain.copier import Copier
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tests.builders import a_command
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist

REMOVE = ("mirrors", "remove", "mm", "--destination", "west", "--json")


@pytest.fixture
def west(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedCluster:
    """The destination of a mirror of orders that MirrorMaker 2 copies; commands are led to it."""
    east, west = (GuardedCluster(name).with_topic("orders", 1, 10) for name in ("east", "west"))
    request = FollowRequest(mirror="mm", copied_by=Copier.MM2, include=("orders",))
    follow(request, east.side(), west.side(), a_command())
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n')
    monkeypatch.setenv("TANIST_CONFIG", str(file))
    monkeypatch.setattr(Session, "destination", lambda _: west.side())
    return west


@pytest.mark.parametrize(("answer", "more", "forgotten"), [("y", (), True), ("n", (), False), ("n", ("--yes",), True)])
def test_on_a_terminal_it_is_forgotten_once_confirmed(
    tanist: Tanist,
    west: GuardedCluster,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    more: tuple[str, ...],
    *,
    forgotten: bool,
) -> None:
    """It was forgotten at once, while `mirrors delete` asked."""
    monkeypatch.setattr(options, "on_terminal", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
    done = tanist(*REMOVE, *more)
    assert (west.view(STATE_TOPIC).mirror("mm") is None) is forgotten
    assert ("Forget mirror mm of west?" in done.err) is not bool(more)
    if forgotten:
        assert done.code == 0, done.err
        assert "forgot mirror mm, and touched none of its topics" in done.err
    else:
        assert (done.code, "ABORTED: not confirmed (nothing was changed)" in done.err) == (1, True)


def test_a_dry_run_does_not_ask(tanist: Tanist, west: GuardedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "on_terminal", lambda: True)
    done = tanist(*REMOVE, "--dry-run")
    assert (done.code, "would forget mirror mm" in done.err) == (0, True)
    assert west.view(STATE_TOPIC).mirror("mm") is not None


@pytest.mark.parametrize(
    "more", [("--keep-copy",), ("--exclude", "orders"), ("--keep-copy", "--topic", "orders"), ("--topic", "orders")]
)
def test_its_topics_are_not_taken_out_one_by_one(tanist: Tanist, west: GuardedCluster, more: tuple[str, ...]) -> None:
    """--keep-copy asked for --topic first, which is refused as well."""
    refused = tanist(*REMOVE, *more)
    assert (refused.code, refused.errors) == (2, ["COPIED_BY_ANOTHER"])
    assert west.view(STATE_TOPIC).mirror("mm") is not None
