"""Files named by users: read to the end, within limits of size and time."""

from __future__ import annotations

import os
import select
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET_BYTES: Final = 64 << 10
CONFIGURATION_BYTES: Final = 1 << 20
LIST_BYTES: Final = 64 << 20
PEM_BYTES: Final = 16 << 20
"""Size limit; bundles of root certificates of operating systems have less than one MiB."""
WRITER_SECONDS: Final = 2.0
"""Time limit for the writer of a pipe (`<(vault read ...)` in a shell)."""
_PORTION: Final = 64 << 10


def bounded_text(file: Path, limit: int) -> str:
    """The text of `file`, of at most `limit` bytes.

    Raises:
        Misconfigured: the file is missing, too long, not UTF-8, or does not end in time; the message names the file and
        shows nothing of its content.
    """
    with _open(file) as handle:
        content = _content(file, handle, limit)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Misconfigured(f"{file} cannot be read: it is not UTF-8 text") from None


def pem_problem(file: Path) -> str:
    """Why `file` cannot be given to TLS; empty: it can. OpenSSL would read a device for ever."""
    if not file.exists():
        return f"{file} does not exist"
    if not file.is_file():
        return f"{file} is not a regular file"
    size = file.stat().st_size
    return f"{file} has {size} bytes, more than {PEM_BYTES}" if size > PEM_BYTES else ""


@contextmanager
def _open(file: Path) -> Iterator[int]:
    """Open without waiting for a writer (a named pipe)."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from error
    try:
        yield handle
    finally:
        os.close(handle)


def _content(file: Path, handle: int, limit: int) -> bytearray:
    found, ends = bytearray(), time.monotonic() + WRITER_SECONDS
    try:
        is_pipe = not stat.S_ISREG(os.fstat(handle).st_mode)
        while len(found) <= limit:
            if is_pipe and not select.select([handle], [], [], max(0.0, ends - time.monotonic()))[0]:
                raise Misconfigured(f"{file} cannot be read: it was not complete within {WRITER_SECONDS:.0f} s")
            portion = os.read(handle, _PORTION)
            if not portion:
                return found
            found += portion
    except OSError as error:
        raise _unreadable(file, error) from error
    raise Misconfigured(f"{file} cannot be read: it is longer than {limit} bytes")


def _unreadable(file: Path, error: OSError | ValueError) -> Misconfigured:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return Misconfigured(f"{file} cannot be read: {why}")
