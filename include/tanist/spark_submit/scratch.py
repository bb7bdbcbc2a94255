"""The private folder of one job: its file, and all that Spark, the JVM and Python write on this machine meanwhile.

    TMP/tanist-job-*/lock       held by everyone who uses the folder; the kernel drops it when they die
    TMP/tanist-job-*/job.json   the job, until it is read; it holds secrets
    TMP/tanist-job-*/...        Spark's blocks, shuffles and sessions, temporary files of the JVM and of Python

Only its owner can look into it. A folder that nobody holds any more is removed by whoever makes the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.kafka.wire.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "tanist-job-"
_BEGUN: Final = "tanist-begun-"
_LOCK: Final = "lock"
_ABANDONED_SECONDS: Final = 3600.0
"""After which a folder without a lock, as a kill between two lines leaves it, belongs to nobody."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder, gone at the end; those that nobody holds are gone first."""
    _sweep(Path(tempfile.gettempdir()))
    begun = Path(tempfile.mkdtemp(prefix=_BEGUN))
    folder = begun.with_name(begun.name.replace(_BEGUN, _PREFIX))
    try:
        with held(begun):
            begun.rename(folder)  # it is not seen before it is held
            yield folder
    finally:
        for each in (begun, folder):
            shutil.rmtree(each, ignore_errors=True)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody sweeps `folder` meanwhile."""
    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def _sweep(parent: Path) -> None:
    """Folders of this user in `parent` that nobody holds."""
    for folder in [*parent.glob(f"{_PREFIX}*"), *parent.glob(f"{_BEGUN}*")]:
        with suppress(OSError):
            if folder.lstat().st_uid == os.getuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    lock = folder / _LOCK
    if folder.name.startswith(_BEGUN) or not lock.exists():
        return SystemClock().now() / 1000 - folder.lstat().st_mtime > _ABANDONED_SECONDS
    with lock.open("a") as mine:
        try:
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
