"""However `tanist` ends, the job ends too, and its secrets with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.errors import Misconfigured
from tanist.domain.validation.job import ValidationJob
from tanist.spark import main
from tanist.spark_submit.scratch import private_folder
from tanist.spark_submit.submission import Submission, bound
from tests.kafka.fetcher.rig import until
from tests.spark.test_command import job, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[2]

COMMAND: Final = """
    import sys
    from pathlib import Path
    from tanist.cli import app, main
    from tanist.cli.output import guard
    from tanist.spark_submit.submission import Submission
    from tanist.spark_submit.submit import submit
    from tanist.kafka.wire.clock import SystemClock
    from tests.spark.test_command import job

    @app.app.command("submits")
    def submits():
        with guard():
            submission = Submission(application="data_validation.py", job=job(), folder=Path("results"))
            submit(submission, SystemClock().deadline(60), lambda line: print(line, flush=True))

    sys.argv = ["tanist", "submits"]
    main.main()
"""
SPARK: Final = """\
    #!/bin/sh
    while [ "$1" != --job ]; do shift; done
    mkdir "$SPARK_LOCAL_DIRS/blockmgr-1" "$TMPDIR/spark-1" && touch "$TMPDIR/spark-1/temp_shuffle"
    PYSPARK_GATEWAY_PORT=1 PYTHONPATH=$REAL "$PYSPARK_PYTHON" "$DRIVER" "$@" &
    wait
"""
DRIVER: Final = """
    import os, sys, threading
    from contextlib import nullcontext
    from pathlib import Path
    from tanist.spark import main

    def endless(spark, job, tell):
        tell(f"{os.getppid()} {os.getpid()} {os.environ['TMPDIR']}")
        threading.Event().wait(60)

    main.session, main.validate = lambda *_: nullcontext(), endless
    main.validation(Path(sys.argv[2]), Path(sys.argv[4]))
"""


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    """The processes of a test do not inherit that SIGHUP is ignored, as it is where the tests run below nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A `tanist` that has submitted a job; in place of Spark a shell, in place of what it computes a wait."""
    spark = tmp_path / "stub" / "pyspark"
    (spark / "bin").mkdir(parents=True)
    (spark / "__init__.py").touch()
    submit = spark / "bin" / "spark-submit"
    submit.write_text(dedent(SPARK))
    submit.chmod(0o700)
    driver = tmp_path / "driver.py"
    driver.write_text(dedent(DRIVER))
    (tmp_path / "tmp").mkdir()
    real = f"{ROOT / 'include'}:{ROOT}"
    paths = {"PYTHONPATH": f"{spark.parent}:{real}", "REAL": real, "DRIVER": str(driver)}
    with subprocess.Popen(
        [sys.executable, "-c", dedent(COMMAND)],
        cwd=tmp_path,
        env=os.environ | paths | {"TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("sign", "code", "told"),
    [
        (signal.SIGINT, 130, "ended by Ctrl-C"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGHUP, 129, "ended by SIGHUP"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_a_signal_leaves_no_secret_and_no_process(
    command: subprocess.Popen[str], tmp_path: Path, sign: signal.Signals, code: int, told: str
) -> None:
    """Neither what became of spark-submit nor the job's Python; the job's file is gone once it is read."""
    assert command.stdout
    assert command.stderr
    assert command.stdout.readline() == "Spark starts\n"
    session, scratch = begun(command)
    assert all(map(runs, session))
    assert {file.name for file in scratch.iterdir()} == {"lock", "blockmgr-1", "spark-1"}  # job.json is read
    command.send_signal(sign)
    assert command.wait(20) == code
    until(lambda: not any(map(runs, session)), 20)
    assert told in command.stderr.read()
    until(lambda: not list(tmp_path.glob("tmp/*")), 20)


def begun(command: subprocess.Popen[str]) -> tuple[list[int], Path]:
    """The pids of what became of spark-submit and of the job's Python, and their private folder."""
    assert command.stdout
    submitted, driver, scratch = command.stdout.readline().split()
    return [int(submitted), int(driver)], Path(scratch)


def test_kill_9_of_the_jvm_leaves_no_folder(command: subprocess.Popen[str], tmp_path: Path) -> None:
    """The job's Python ends with it, and the command ends as it does without a result."""
    assert command.stdout
    assert command.stdout.readline() == "Spark starts\n"
    session, _ = begun(command)
    os.kill(session[0], signal.SIGKILL)
    command.wait(20)
    until(lambda: not any(map(runs, session)), 20)
    assert not list(tmp_path.glob("tmp/*"))


def test_kill_9_of_everything_at_once_is_swept_by_the_next_start(
    command: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who would have removed the folder is dead; a folder that somebody holds stays."""
    assert command.stdout
    assert command.stdout.readline() == "Spark starts\n"
    session, scratch = begun(command)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    with private_folder() as another:
        assert scratch.is_dir()
        assert another.is_dir()
        guard = parent(session[0])
        for pid in (command.pid, guard, *session):
            os.kill(pid, signal.SIGSTOP)
        for pid in (guard, command.pid, *session):
            os.kill(pid, signal.SIGKILL)
        command.wait(20)
        until(lambda: not any(map(runs, [guard, *session])), 20)
        assert (scratch / "spark-1" / "temp_shuffle").exists()
        with private_folder():
            assert not scratch.exists()
            assert another.is_dir()
    assert not list(tmp_path.glob("tmp/*"))


def test_kill_9_of_a_tasks_supervisor_ends_the_job(tmp_path: Path) -> None:
    """Its child, which has started the job, may live on: a retry would run beside it."""
    folder = tmp_path / "tanist-job-1"
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"]) as supervisor:
        command = bound(["sh", "-c", "echo $$; sleep 60; :"], folder, supervisor.pid)
        environment = os.environ | {"PYTHONPATH": str(ROOT / "include")}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            child = int(process.stdout.readline())
            assert runs(child)
            supervisor.kill()
            assert process.wait(20) == 128 + signal.SIGKILL
            assert not runs(child)
    assert not folder.exists()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(("sign", "nohup"), [(signal.SIGTERM, False), (signal.SIGHUP, False), (signal.SIGTERM, True)])
def test_a_fetcher_ends_in_order_whatever_signal_tells_it_to(sign: signal.Signals, nohup: bool) -> None:
    """Exit code 0, as ever: the command's own path of signals is not the fetcher's. A closed terminal is one, too."""
    fetcher = """
        import signal, sys, threading
        from tanist.cli import app, main
        from tanist.cli.output import guard
        from tanist.fetcher import service

        class Service:
            alive, failed, rounds = True, None, 0
            def start(self): print("started", flush=True)
            def stop(self): print("stopped", flush=True)

        @app.app.command("copies")
        def copies():
            with guard():
                service.run_until_told(Service(), threading.Event(), lambda _: None)

        sys.argv = ["tanist", "copies"]
        main.main()
    """
    before = ["nohup"] if nohup else []
    with subprocess.Popen(
        [*before, sys.executable, "-c", dedent(fetcher)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "include")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        if nohup:
            process.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        process.send_signal(sign)
        assert process.wait(10) == 0
        assert process.stdout.read() == "stopped\n"


def test_a_signal_that_comes_while_the_fetcher_begins_to_wait_ends_it() -> None:
    """The handler waited for the lock of the event that the interrupted thread held, and the fetcher for ever."""
    fetcher = """
        import os, signal, threading
        from tanist.fetcher import service

        stop = threading.Event()

        class Service:
            alive, failed, rounds = True, None, 0
            def start(self):
                with stop._cond:
                    os.kill(os.getpid(), signal.SIGTERM)
            def stop(self): print("stopped", flush=True)

        service.run_until_told(Service(), stop, lambda _: None)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(fetcher)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "include")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == "stopped\n"


def test_a_signal_that_comes_again_does_not_disturb_the_tidying_up() -> None:
    """GNU timeout sends it to the command, and then to the whole group."""
    tidy = """
        import sys, threading
        from tanist.cli import app, main
        from tanist.cli.output import guard

        @app.app.command("works")
        def works():
            with guard():
                try:
                    print("works", flush=True)
                    threading.Event().wait(60)
                finally:
                    print("tidies up", flush=True)
                    sys.stdin.readline()
                    print("tidy", flush=True)

        sys.argv = ["tanist", "works"]
        main.main()
    """
    with subprocess.Popen(
        [sys.executable, "-c", dedent(tidy)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "include")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "works\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "tidies up\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(10) == 143
        assert process.stdout.read() == "tidy\n"


# ── the job itself ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_holds_no_job_stays_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("{}")
    with pytest.raises(Misconfigured):
        main.read(file, ValidationJob)
    assert file.exists()


@pytest.mark.parametrize("work", [main.validation, main.reconciliation])
def test_a_job_that_cannot_be_read_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], work: Callable[[Path, Path], int]
) -> None:
    """One line, and 2; 1 would mean that the copy differs. The folder is made first."""
    assert work(tmp_path / "none", tmp_path / "new" / "folder") == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("error: INVALID_CONFIG: ")
    assert (tmp_path / "new" / "folder" / "error.json").exists()
    (tmp_path / "file").touch()
    assert work(tmp_path / "none", tmp_path / "file" / "folder") == 2
    assert "cannot be written" in capsys.readouterr().out


def test_a_bug_of_a_job_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """70, one line, and the traceback for the log."""

    def crash(name: str, *_: object) -> None:
        raise KeyError(f"{name}\nand more")

    monkeypatch.setattr(main, "session", crash)
    Submission(application="data_validation.py", job=job(), folder=tmp_path).write(tmp_path / "job.json")
    assert main.validation(tmp_path / "job.json", tmp_path) == 70
    reported = capsys.readouterr()
    assert len(reported.out.splitlines()) == 1
    assert "INTERNAL: KeyError" in reported.out
    assert "Traceback" in reported.err
