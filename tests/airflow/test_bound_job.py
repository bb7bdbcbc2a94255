"""What a validation starts, and what becomes of it when its task is killed. Without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.processes import Process, started_at
from tests.airflow.conftest import SPARK, environment

INCLUDE: Final = Path(__file__).parents[2] / "include"
SUBMITS: Final = """
import sys
from tanist.airflow.validation import Validate
task = Validate(task_id="validate")
task._spark_binary = sys.argv[1]
task.env_vars = {"TMPDIR": sys.argv[2]}
task._get_hook().submit("application.py")
"""
SPARK_SUBMIT: Final = """#!/bin/sh
echo $$ > "$(dirname "$0")/pid.tmp"
mv "$(dirname "$0")/pid.tmp" "$(dirname "$0")/pid"
exec sleep 60
"""


def soon(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def test_the_job_of_a_validation_does_not_outlive_its_task(tmp_path: Path) -> None:
    """After kill -9 of the task its JVM lived on beside the one of the retry."""
    binary, written, scratch = tmp_path / "spark-submit", tmp_path / "pid", tmp_path / "scratch"
    scratch.mkdir()
    binary.write_text(SPARK_SUBMIT)
    binary.chmod(0o700)
    env = os.environ | environment(SPARK) | {"PYTHONPATH": str(INCLUDE)}
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", SUBMITS, str(binary), str(scratch)], env=env) as task:
        by = soon(60)
        while not written.exists() and task.poll() is None and by.left(time.monotonic()):
            time.sleep(0.05)  # noqa: TID251 -- another process writes it
        pid = int(written.read_text())
        job = Process(pid, started_at(pid) or "ended")
        assert job.alive
        task.kill()
    assert job.wait(soon(20))
    by = soon(20)
    while scratch.exists() and by.left(time.monotonic()):
        time.sleep(0.05)  # noqa: TID251 -- another process removes it
    assert not scratch.exists()
