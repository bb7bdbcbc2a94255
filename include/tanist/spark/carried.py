"""Endpoints on their way to executors: certificates and keys travel as they are, not as names of files of this machine.

At the other end they are files again, in memory only (Linux; elsewhere private ones of the worker's temporary folder).
"""

from __future__ import annotations

import copyreg
import os
import tempfile
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tanist.domain.endpoint import Tls
from tanist.domain.errors import Misconfigured

_FILES: Final = ("ca_location", "certificate_location", "key_location")


def carry_files() -> None:
    """From now on whoever pickles a `Tls` sends its files along.

    Raises, when something is pickled:
        Misconfigured: a file cannot be read.
    """
    copyreg.pickle(Tls, _reduced)


def _reduced(tls: Tls) -> tuple[Any, ...]:
    values = {each.name: getattr(tls, each.name) for each in fields(tls)}
    names = {name: values.pop(name) for name in _FILES}
    files = {name: _contents(file) for name, file in names.items() if file}
    return _restored, (values, files)


def _contents(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Misconfigured(f"{name} cannot be read: {error.strerror}") from error


def _restored(values: dict[str, Any], files: dict[str, bytes]) -> Tls:
    carry_files()  # Spark plans in a Python of its own, which pickles again what it was sent
    there: dict[str, Any] = dict.fromkeys(_FILES) | {name: _file(contents) for name, contents in files.items()}
    return Tls(**there, **values)


@lru_cache(maxsize=16)
def _file(contents: bytes) -> str:
    """It stays as long as this process does."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("tanist")
        name = f"/proc/self/fd/{handle}"
    else:
        handle, name = tempfile.mkstemp(prefix="tanist-")
    view = memoryview(contents)
    while view:
        view = view[os.write(handle, view) :]
    return name
