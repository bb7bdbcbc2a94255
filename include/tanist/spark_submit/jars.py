"""Jars that no Python package brings, as those of Kafka: resolved once per user by pyspark's Ivy.

    CACHE/jars/NAME-VERSION/*.jar     complete, or not there at all
    CACHE/jars/NAME-VERSION.log       what Ivy said the last time
    CACHE/ivy/                        Ivy's own cache

CACHE is `$TANIST_CACHE`, or `tanist` in `$XDG_CACHE_HOME`, or in `~/.cache`. `$TANIST_IVY_SETTINGS` may name an Ivy
settings file, for a house with a repository of its own.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tanist.domain.errors import DownloadFailed, MissingDependency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


OLDEST: Final = 17
_TIMEOUT: Final = 20.0  # seconds
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')


def java() -> str:
    """The path of a Java that can run Kafka 4.

    Raises:
        MissingDependency: no `java` on PATH, one that does not run, or one older than 17; names what was found.
    """
    path = shutil.which("java")
    if path is None:
        raise MissingDependency(f"no `java` on PATH: a Java runtime (JRE or JDK), version {OLDEST} or newer, is needed")
    found = _VERSION.search(_version_of(path))
    if found is None:
        raise MissingDependency(f"{path} does not report its version: Java {OLDEST} or newer is needed")
    if int(found[1]) < OLDEST:
        raise MissingDependency(f"{path} is Java {found[1]}{found[2]}: Java {OLDEST} or newer is needed")
    return path


def _version_of(path: str) -> str:
    try:
        reported = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return reported.stderr + reported.stdout


@dataclass(frozen=True, slots=True)
class Module:
    """A published module by its coordinates, and what it does not name itself but cannot do without.

    `title`: its name in messages. `megabytes`: of all jars that are downloaded for it, 0 where nobody has measured it.
    """

    organisation: str
    name: str
    version: str
    beside: tuple[Module, ...] = ()
    title: str = ""
    megabytes: int = 0

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


_DOWNLOADED: Final = re.compile(r"\((\d+)kB\)$")
"""How Ivy ends the line of a file that it has downloaded."""


def cache_dir() -> Path:
    """Where downloads are kept, per user."""
    if own := os.environ.get("TANIST_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tanist"


def resolved(module: Module, say: Callable[[str], None] | None = None) -> Path:
    """The folder of the jars of `module` and of all that it needs; downloads them the first time.

    `say` hears how far a download is; without it a terminal shows it.

    Raises:
        MissingDependency: no Java, or no pyspark.
        DownloadFailed: Ivy could not resolve everything; names its log.
    """
    jars = cache_dir() / "jars" / str(module)
    if not jars.is_dir():
        jars.parent.mkdir(parents=True, exist_ok=True)
        with locked(jars.parent / f"{module}.lock"):
            if not jars.is_dir():
                _download(module, jars, say)
    return jars


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the file lock `path` against other processes; waits for them. The kernel drops it when we die."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _pyspark_jars() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingDependency("pyspark, whose Ivy downloads jars, is not installed: pip install 'tanist[spark]'")
    return Path(spec.origin).parent / "jars"


def _ivy_file(module: Module) -> str:
    wanted = "".join(
        f'<dependency org="{m.organisation}" name="{m.name}" rev="{m.version}" conf="default->default"/>'
        for m in (module, *module.beside)
    )
    return (
        '<ivy-module version="2.0"><info organisation="tanist" module="sandbox"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _ivy_command(work: Path) -> list[str]:
    settings = os.environ.get("TANIST_IVY_SETTINGS")
    return [
        *(java(), "-cp", f"{_pyspark_jars()}/*", "org.apache.ivy.Main"),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(cache_dir() / "ivy"), "-ivy", str(work / "ivy.xml"), "-confs", "default"),
        *("-types", "jar", "bundle", "-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"),
    ]


def _download(module: Module, jars: Path, say: Callable[[str], None] | None) -> None:
    log = jars.with_name(f"{module}.log")
    work = Path(tempfile.mkdtemp(prefix=f".{module}-", dir=jars.parent))
    try:
        (work / "ivy.xml").write_text(_ivy_file(module), encoding="utf-8")
        code = _run_ivy(_ivy_command(work), log, module, say)
        if code != 0 or not any((work / "jars").glob(f"{module}.jar")):
            raise DownloadFailed(f"{module} could not be downloaded (exit code {code}), log: {log}")
        (work / "jars").rename(jars)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(command: list[str], log: Path, module: Module, say: Callable[[str], None] | None) -> int:
    found = kilobytes = 0
    of = f" of {module.megabytes}" if module.megabytes else ""
    with (
        log.open("w", encoding="utf-8") as kept,
        _progress(quiet=say is not None) as progress,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as ivy,
    ):
        task = progress.add_task("", total=None)
        try:
            for line in ivy.stdout or ():
                kept.write(line)
                found += line.startswith("\tfound ")
                size = _DOWNLOADED.search(line)
                kilobytes += int(size[1]) if size else 0
                words = f"downloading {module.title or module}, {kilobytes // 1000}{of} MB ({found} modules found)"
                progress.update(task, description=words)
                if say:
                    say(words)
        except BaseException:
            ivy.kill()
            raise
    return ivy.returncode


def _progress(*, quiet: bool) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
