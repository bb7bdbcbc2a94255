"""Messages of kafka-python that several threads use for the first time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RACE = """
import sys, threading
from tanist.kafka.wire import messages

sys.setswitchinterval(1e-6)
failures = []

def ask(kind, version, ready):
    request = kind(version=version)
    request.with_header(correlation_id=7, client_id="a thread")
    ready.wait()
    try:
        request.encode(header=True, framed=True)
        messages.read_answer(request, bytes([0, 0, 0, 7]) + bytes(400))
    except Exception as failure:
        failures.append(f"{kind.__name__} {version}: {type(failure).__name__} {failure}")

kinds = [getattr(messages, name) for name in messages.__all__ if name.endswith("Request")]
for kind in kinds:
    for version in range(kind.max_version + 1):
        ready = threading.Barrier(6)
        threads = [threading.Thread(target=ask, args=(kind, version, ready)) for _ in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
print(len(kinds), failures)
sys.exit(bool(failures))
"""


def test_the_first_use_of_a_message_by_several_threads_at_once_breaks_none_of_them() -> None:
    """`mirrors wait` died: a thread compiled a decoder while another had exchanged the class that it makes.

    In a process of its own: here every message may have been used before.
    """
    done = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, check=False, timeout=120, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 20, "the messages that we send"
