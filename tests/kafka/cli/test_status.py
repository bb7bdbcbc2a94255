"""`tanist status` while a source hangs."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.kafka.cli.conftest import section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.kafka.cli.conftest import Broker, Tanist

MIRRORS = 12


@pytest.mark.long  # unit/usecases/test_silent_sources.py
def test_one_source_that_hangs_delays_the_status_of_twelve_mirrors_once_and_blames_no_destination(
    tanist: Tanist, clusters: Mapping[str, SandboxCluster], east: Broker, configured: Path, topic_name: str
) -> None:
    """Each asked it again: 33 s for all of them, and on the page the healthy destination had not answered."""
    names = [f"{topic_name}-{n}" for n in range(MIRRORS)]
    for name in names:
        east.topic(name)
        assert tanist("mirrors", "create", name, "--source", "east", "-d", "west", "--topic", name).code == 0
    with socket.create_server(("127.0.0.1", 0)) as never_answers:
        hung = section(clusters["east"], through=f"127.0.0.1:{never_answers.getsockname()[1]}")
        configured.write_text(hung + section(clusters["west"]))
        for where in (("-d", "west"), ()):
            began = time.monotonic()
            answer = tanist("status", *where, "--json")
            took = time.monotonic() - began
            ours = {item["mirror"]: item for item in answer.items if item["mirror"] in names}
            assert len(ours) == MIRRORS
            assert {item["planned"] for item in ours.values()} == {"UNKNOWN"}
            assert {item["unplanned"] for item in ours.values()} == {"ACCEPT"}, "no worker has reported anything"
            checks = {check["name"]: check["verdict"] for check in ours[names[-1]]["checks"]}
            assert checks["destination"] == "PASS"
            assert took < 25, f"{took:.1f} s"
            print(f"status {' '.join(where)}: {took:.1f} s")  # noqa: T201


def test_three_sources_that_hang_delay_the_status_of_their_mirrors_by_the_time_of_one(
    tanist: Tanist, clusters: Mapping[str, SandboxCluster], east: Broker, configured: Path, topic_name: str
) -> None:
    """Each took its own 4 s, one after another: of a handful the page said nothing at all."""
    sources = ("north", "south", "middle")
    west, answers = section(clusters["west"]), section(clusters["east"])
    configured.write_text(west + "".join(answers.replace("clusters.east", f"clusters.{name}") for name in sources))
    names = {f"{topic_name}-{source}": source for source in sources}
    for name, source in names.items():
        east.topic(name)
        assert tanist("mirrors", "create", name, "--source", source, "-d", "west", "--topic", name).code == 0
    asked: list[float] = []
    with ExitStack() as stack:
        for source in sources:
            never_answers = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            threading.Thread(target=_notes_the_first_connection, args=(never_answers, asked), daemon=True).start()
            hung = section(clusters["east"], through=f"127.0.0.1:{never_answers.getsockname()[1]}")
            west += hung.replace("clusters.east", f"clusters.{source}")
        configured.write_text(west)
        found = {item["mirror"]: item["planned"] for item in tanist("status", "-d", "west", "--json").items}
    assert {name: found[name] for name in names} == dict.fromkeys(names, "UNKNOWN")
    assert len(asked) == len(sources)
    assert max(asked) - min(asked) < 4, "one source was asked after another had been waited for"


def _notes_the_first_connection(server: socket.socket, asked: list[float]) -> None:
    connection, _ = server.accept()
    asked.append(time.monotonic())
    with connection:
        threading.Event().wait(60)  # it stays open, and nobody answers
