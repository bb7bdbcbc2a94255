"""What executors need of Python, taken from this installation: Tanist itself, and the packages that its jobs import.

    FOLDER/tanist.zip                       Tanist, on the executors' path as it is
    CACHE/packages/executors-DIGEST.zip     the packages, with compiled code: unpacked by Spark at each executor

The digest is of the packages' versions, this Python and this machine, which the executors' must be like.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import MissingDependency
from tanist.spark_submit.jars import cache_dir, locked

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = "tanist-packages"
"""Where an executor finds them, below its work directory."""
_NEEDED: Final = ("crc32c", "kafka-python", "numpy", "pyarrow", "xxhash")
_LEFT_OUT: Final = frozenset({"__pycache__", "tests", "include", "src"})
_QUICK: Final = 1
_TANIST: Final = Path(__file__).parents[1]


def tanist_in(folder: Path) -> Path:
    """Tanist, as one file of `folder`."""
    file = folder / "tanist.zip"
    with zipfile.ZipFile(file, "x", zipfile.ZIP_DEFLATED, compresslevel=_QUICK) as archive:
        for each in sorted(_TANIST.rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                archive.write(each, Path("tanist") / each.relative_to(_TANIST))
    return file


def packages() -> Path:
    """The packages, as one file; made the first time.

    Raises:
        MissingDependency: one is not installed.
    """
    versions = "\n".join(f"{name}=={_version(name)}" for name in _NEEDED)
    key = hashlib.sha256(f"{versions}\n{sys.version}\n{sysconfig.get_platform()}".encode()).hexdigest()[:16]
    file = cache_dir() / "packages" / f"executors-{key}.zip"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.with_suffix(".lock")):
            if not file.exists():
                _pack(file)
    return file


def _version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError as missing:
        raise MissingDependency(
            f"{name}, which Spark jobs need, is not installed: pip install 'tanist[spark]'"
        ) from missing


def _pack(file: Path) -> None:
    handle, parts = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with (
            os.fdopen(handle, "wb") as out,
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=_QUICK) as archive,
        ):
            for name in _NEEDED:
                for path, inside in _files(name):
                    archive.write(path, inside)
        Path(parts).replace(file)
    finally:
        Path(parts).unlink(missing_ok=True)


def _files(name: str) -> Iterator[tuple[Path, str]]:
    """Of an installed package: where each is, and what it is called below a folder of packages."""
    for each in distribution(name).files or ():
        if each.parts[0] != ".." and not _LEFT_OUT.intersection(each.parts[:-1]):
            yield Path(str(each.locate())), str(each)
