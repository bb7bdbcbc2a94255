"""The trigger that hosts the fetcher, with a stub for it: started, heard, started again, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tanist.airflow import host
from tanist.airflow.fetcher_process import Ended, FetcherProcess
from tanist.airflow.host import FetcherHost, describe_events, pause_after
from tanist.airflow.worker import RemoteConnections
from tanist.domain.errors import Misconfigured, TimedOut
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.processes import Process, started_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

INCLUDE = Path(__file__).parents[2] / "include"
WAITS = """
    import signal, sys, threading
    signal.signal(signal.SIGTERM, lambda *_: (print("leaving", file=sys.stderr, flush=True), sys.exit(0)))
    print('{"level": "warning", "event": "ready", "fields": {"slices": [1, 2]}}', file=sys.stderr, flush=True)
    threading.Event().wait(60)
"""
IS_DEAF = """
    import signal, sys, threading
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", file=sys.stderr, flush=True)
    threading.Event().wait(60)
"""


def stub(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


class Heard(list[tuple[str, str, dict[str, Any]]]):
    """What a child's log said."""

    def __call__(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        self.append((level, event, dict(fields)))

    async def until(self, event: str) -> None:
        async with asyncio.timeout(10):
            while event not in [each[1] for each in self]:  # noqa: ASYNC110 -- a list has no event
                await asyncio.sleep(0.01)


async def lends(name: str) -> Mapping[str, Any]:
    if name != "east":
        raise Misconfigured(f"connection {name!r} is not there")
    return {"bootstrap.servers": "e:9092", "sasl.password": "S3cret"}


def in_a_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())


def process(pid: int) -> Process:
    return Process(pid, started_at(pid) or "ended")


# ── a child ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_child_is_heard_line_by_line() -> None:
    """Its own lines keep level and fields; what a library prints is an event by itself; the last ones are kept."""
    says = """
        import sys
        print('{"level": "error", "event": "no", "fields": {"why": "because"}}', file=sys.stderr)
        print("%3|rdkafka|FAIL", file=sys.stderr)
        print("x" * 100_000, file=sys.stderr)
        print('{"neither": "ours"}', file=sys.stderr)
        sys.exit(3)
    """

    async def run() -> None:
        heard = Heard()
        ended = await (await FetcherProcess.start(stub(says), heard, lends)).ended()
        assert heard[:2] == [("error", "no", {"why": "because"}), ("info", "%3|rdkafka|FAIL", {})]
        assert heard[-1] == ("info", '{"neither": "ours"}', {})
        assert ended.code == 3
        assert ended.last[0] == "ERROR no why=because"

    in_a_loop(run)


def test_a_child_is_lent_the_connections_it_asks_for_and_told_why_not() -> None:
    """Over its pipes: nothing of it is in its arguments or its environment."""
    asks = """
        import json, os, sys
        for name in ("east", "nowhere"):
            print(json.dumps({"connection": name}), flush=True)
            print(sys.stdin.readline().strip(), file=sys.stderr)
        print("S3cret" in str(os.environ) + str(sys.argv), file=sys.stderr)
    """

    async def run() -> None:
        heard = Heard()
        await (await FetcherProcess.start(stub(asks), heard, lends)).ended()
        lent, refused, leaked = [event for _, event, _ in heard]
        assert json.loads(lent)["extra"]["sasl.password"] == "S3cret"
        assert json.loads(refused) == {"connection": "nowhere", "error": "connection 'nowhere' is not there"}
        assert leaked == "False"

    in_a_loop(run)


def test_a_child_is_asked_to_leave_before_it_is_made_to() -> None:
    async def run() -> None:
        heard = Heard()
        child = await FetcherProcess.start(stub(WAITS), heard, lends)
        await heard.until("ready")
        await child.stop()
        assert heard[-1][1] == "leaving"
        assert child.process.returncode == 0
        await child.stop()  # again: nothing

    in_a_loop(run)


def test_a_child_that_hears_nothing_is_killed() -> None:
    async def run() -> None:
        heard = Heard()
        child = await FetcherProcess.start(stub(IS_DEAF), heard, lends)
        await heard.until("ready")
        await child.stop(grace=0.2)
        assert child.process.returncode == -signal.SIGKILL

    in_a_loop(run)


# ── the trigger ───────────────────────────────────────────────────────────────────────────────────────────────────


class Hosted(FetcherHost):
    """Hosts a stub, and lends what the tests have."""

    def __init__(self, code: str = WAITS) -> None:
        super().__init__("west")
        self.code, self.heard = code, Heard()

    def command(self) -> list[str]:
        return stub(self.code)

    def _log_event(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        self.heard(level, event, fields)

    @property
    def pid(self) -> int:
        assert self._child
        return self._child.process.pid


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "FIRST_SECONDS", 0.05)


@pytest.mark.usefixtures("quick")
def test_a_killed_child_is_told_and_started_again() -> None:
    async def run() -> None:
        trigger = Hosted()
        events: AsyncIterator[Any] = trigger.run()
        pids: set[int] = set()
        for _ in range(2):
            next_event = asyncio.ensure_future(anext(events))
            await trigger.heard.until("ready")
            trigger.heard.clear()
            pids.add(trigger.pid)
            os.kill(trigger.pid, signal.SIGKILL)
            event = await next_event
            assert event.payload["exit_code"] == -signal.SIGKILL
            assert event.payload["destination"] == "west"
            assert event.payload["last_lines"] == ["WARNING ready slices=[1, 2]"]
        next_event = asyncio.ensure_future(anext(events))
        await trigger.heard.until("ready")
        assert len(pids | {trigger.pid}) == 3
        next_event.cancel()
        with pytest.raises(asyncio.CancelledError):
            await next_event
        assert trigger.heard[-1][1] == "leaving"
        assert started_at(trigger.pid) is None

    in_a_loop(run)


STANDS_STILL = """
    import json, sys, threading
    from tanist.airflow.worker import Pulse
    tell = Pulse(1)
    tell(1)
    print("ready", file=sys.stderr, flush=True)
    while not threading.Event().wait(0.05):
        tell(1)  # its main thread lives, what it should do stands still
"""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("freeze", [False, True], ids=["stands still", "frozen"])
def test_a_fetcher_that_hangs_is_started_again(monkeypatch: pytest.MonkeyPatch, freeze: bool) -> None:
    """Nothing was copied any more until somebody noticed: the process lived, so it was left alone."""
    monkeypatch.setattr(host, "HUNG_SECONDS", 3.0)
    monkeypatch.setenv("PYTHONPATH", str(INCLUDE))

    async def run() -> None:
        trigger = Hosted(STANDS_STILL)
        events: Any = trigger.run()
        async with aclosing(events):
            first = asyncio.ensure_future(anext(events))
            await trigger.heard.until("ready")
            if freeze:
                os.kill(trigger.pid, signal.SIGSTOP)
            event = await first
            assert event.payload["exit_code"] == -signal.SIGKILL
            assert event.payload["last_lines"][-1] == "ERROR does not respond and is killed silent_seconds=3.0"
            trigger.heard.clear()
            second = asyncio.ensure_future(anext(events))
            await trigger.heard.until("ready")
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second

    in_a_loop(run)


def test_a_child_that_goes_round_is_left_alone() -> None:
    """However long it lives; and one that waits for a connection waits for us."""
    goes = """
        import sys, time
        from tanist.airflow import worker
        worker._PULSE_SECONDS = 0.0
        tell = worker.Pulse(1)
        for n in range(40):
            tell(n)
            time.sleep(0.1)
    """

    async def run() -> None:
        child = await FetcherProcess.start([*stub(goes)], Heard(), lends)
        ended = await child.ended(patience=3.0)
        assert (ended.code, ended.seconds > 3.9) == (0, True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(INCLUDE))
        in_a_loop(run)


@pytest.mark.usefixtures("quick")
def test_the_log_of_a_child_is_the_triggers_log_whatever_its_fields_are_called() -> None:
    """A line that cannot be logged would end the trigger, and with it the child, again and again."""
    fields = {"destination": "west", "event": "e", "level": "l", "logger": "x", "exc_info": "y", "self": 1, "pid": 7}
    line = json.dumps({"level": "warning", "event": "said", "fields": fields})

    async def run() -> None:
        trigger = Hosted(f"import sys; print({line!r}, file=sys.stderr)")
        trigger._log_event = partial(FetcherHost._log_event, trigger)  # type: ignore[method-assign]
        events: Any = trigger.run()
        async with aclosing(events):
            with structlog.testing.capture_logs() as logs:
                event = await anext(events)
        assert event.payload["exit_code"] == 0
        assert [(log["log_level"], log["destination"], log["pid"]) for log in logs] == [("warning", "west", 7)]

    in_a_loop(run)


def test_the_event_loop_is_never_blocked_by_a_child(tmp_path: Path) -> None:
    """A triggerer whose loop is silent loses all its triggers. This child ends with 0 only if it turns meanwhile."""
    turned = tmp_path / "turned"
    chatters = f"""
        import os, sys, time
        for n in range(5_000): print('x' * 200, file=sys.stderr)
        by = time.monotonic() + 15
        while not (turned := os.path.exists({str(turned)!r})) and time.monotonic() < by: time.sleep(0.01)
        sys.exit(0 if turned else 1)
    """

    async def run() -> None:
        heard = Heard()
        child = await FetcherProcess.start(stub(chatters), heard, lends)
        listening = asyncio.ensure_future(child.ended())
        while not heard:  # noqa: ASYNC110 -- each is a turn
            await asyncio.sleep(0)
        for _ in range(1_000):
            await asyncio.sleep(0)
        turned.touch()
        assert (await listening).code == 0

    in_a_loop(run)


def test_the_pause_doubles_up_to_a_minute_and_begins_again_after_a_steady_life() -> None:
    pauses: list[float] = []
    for seconds in (1, 1, 1, 1, 1, 1, 1, 100, 1):
        pauses.append(pause_after(Ended(code=1, seconds=seconds, last=()), pauses[-1] if pauses else None))
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 2, 4]


def test_a_run_says_in_one_line_why_a_fetcher_ended_and_what_to_do() -> None:
    payload = {
        "destination": "west",
        "exit_code": 2,
        "lived_seconds": 0.4,
        "again_in_seconds": 2.0,
        "last_lines": ["ERROR INVALID_CONFIG: connection 'west' is not there"],
    }
    line, last = describe_events({"asset": [SimpleNamespace(extra={"payload": payload})]})
    assert line == (
        "The fetcher of west ended with exit code 2 after 0.4 s; it restarts after 2 s. "
        "Next step: correct the connection or the Variable named in its last log lines."
    )
    assert last.endswith("connection 'west' is not there")
    assert describe_events(None) == ["no fetcher has ended: nothing to report"]


HOSTS = """
    import asyncio, sys, textwrap
    from tanist.airflow.host import FetcherHost
    class Hosted(FetcherHost):
        def command(self):
            import os
            code = f"import threading; from tanist.kafka.wire.parent import end_with; end_with({os.getpid()}); " \\
                   "print('ready', file=__import__('sys').stderr, flush=True); threading.Event().wait(60)"
            return [sys.executable, "-c", code]
        def _log_event(self, level, event, fields):
            print(self._child.process.pid, flush=True)
    async def main():
        async for event in Hosted("west").run():
            pass
    asyncio.run(main())
"""


def test_a_killed_triggerer_leaves_no_child_behind(tmp_path: Path) -> None:
    """Not even one that is frozen."""
    with subprocess.Popen(
        stub(HOSTS), stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(INCLUDE)}, cwd=tmp_path
    ) as parent:
        assert parent.stdout
        child = process(int(parent.stdout.readline()))
        assert child.alive
        child.send(signal.SIGSTOP)
        parent.kill()
        assert child.wait(Deadline(time.monotonic() + 5))


def test_a_child_that_comes_too_late_to_see_its_parent_ends_itself() -> None:
    late = subprocess.run(
        [sys.executable, "-m", "tanist.airflow.worker", "west", "1"],
        env=os.environ | {"PYTHONPATH": str(INCLUDE)},
        timeout=20,
        check=False,
    )
    assert late.returncode == 75


# ── what the child does with what it is lent ──────────────────────────────────────────────────────────────────────


def parent(answers: list[dict[str, Any]]) -> tuple[RemoteConnections, threading.Thread]:
    """A parent that has these answers for the first question."""
    asked_out, asked_in = os.pipe()
    answer_out, answer_in = os.pipe()

    def serve() -> None:
        os.read(asked_out, 1000)
        for each in answers:
            os.write(answer_in, json.dumps(each).encode() + b"\n")
        os.close(answer_in)

    thread = threading.Thread(target=serve)
    thread.start()
    return RemoteConnections(asked_in, answer_out), thread


def test_a_connection_is_asked_for_once_and_late_answers_to_others_are_passed_over() -> None:
    lent, thread = parent(
        [
            {"connection": "north", "error": "late"},
            {"connection": "east", "extra": {"bootstrap.servers": "e:9092"}},
        ]
    )
    assert str(lent["east"].endpoint.bootstrap[0]) == "e:9092"
    thread.join(5)
    assert lent["east"] is lent["east"]
    with pytest.raises(TimedOut, match="ended before it returned connection 'west'"):
        lent["west"]


def test_a_refused_connection_is_wrong_configuration() -> None:
    lent, thread = parent([{"connection": "east", "error": "connection 'east' is not there"}])
    with pytest.raises(Misconfigured, match="is not there"):
        lent["east"]
    thread.join(5)
