"""Files of JSON lines that are written and read back as a whole: a header, one record a line, a line that closes them.

The last line counts the records and has their SHA-256, so a file that is not complete, or was altered, is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Misconfigured
from tanist.settings.bounded import bounded_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_BYTES: Final = 1 << 30
"""Of a file that is read."""


class FileNotWritten(Misconfigured):
    name = "FILE_NOT_WRITTEN"
    operator_action = "give a file in a folder that exists and that you may write to"


class FileExists(Misconfigured):
    name = "FILE_EXISTS"
    operator_action = "give another file, or --overwrite; nothing was written"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """`name` and `version` are in the header, and so are the fields `head`, by their types.

    `title`: what such a file is, with its article. `invalid`: the error about a file that is none.
    """

    name: str
    version: int
    head: Mapping[str, type]
    title: str
    invalid: type[Misconfigured]


def lines(kind: LineFormat, head: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The file, line by line."""
    yield json.dumps({"format": kind.name, "version": kind.version, **head})
    digest, count = hashlib.sha256(), 0
    for record in records:
        line = json.dumps(record)
        digest.update(line.encode())
        count += 1
        yield line
    yield json.dumps({"records": count, "sha256": digest.hexdigest()})


def write(text: Iterable[str], file: Path, *, overwrite: bool = True) -> None:
    """The whole file, which its owner alone may read; or, if that fails, what was there before.

    Raises:
        FileNotWritten. FileExists: there is one, also if it appeared meanwhile, and `overwrite` is False.
    """
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # with mode 0600
        new = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as written:
                written.writelines(f"{line}\n" for line in text)
                written.flush()
                os.fsync(written.fileno())
            if overwrite:
                new.replace(file)
            else:
                file.hardlink_to(new)
        finally:
            new.unlink(missing_ok=True)
    except FileExistsError:
        raise FileExists(f"{file} exists") from None
    except OSError as error:
        raise FileNotWritten(f"{file}: {error.strerror or error}") from error


def read(kind: LineFormat, file: Path) -> tuple[dict[str, Any], Iterator[tuple[int, dict[str, Any]]]]:
    """The header of `file`, and its records with the numbers of their lines.

    Raises:
        kind.invalid: it cannot be read, is of a newer version, or is not complete. A record that is no JSON object
        raises it when the iterator comes to it.
    """
    try:
        found = bounded_text(file, MOST_BYTES).splitlines()
    except Misconfigured as error:
        raise kind.invalid(error.reason) from error
    if not found:
        raise kind.invalid(f"{file} is empty")
    head = _object(kind, file, 1, found[0])
    if head.get("format") != kind.name:
        raise kind.invalid(f"{file} is no {kind.title}: its first line has no format {kind.name!r}")
    if type(head.get("version")) is not int or not 1 <= head["version"] <= kind.version:
        raise kind.invalid(f"{file} has version {head.get('version')}, this Tanist reads up to {kind.version}")
    if not all(isinstance(head.get(name), of) for name, of in kind.head.items()):
        raise kind.invalid(f"{file}: its first line lacks one of {', '.join(kind.head)}")
    body, last = found[1:-1], _object(kind, file, len(found), found[-1])
    digest = hashlib.sha256()
    for line in body:
        digest.update(line.encode())
    if (last.get("records"), last.get("sha256")) != (len(body), digest.hexdigest()):
        raise kind.invalid(f"{file} is not complete, or was altered: its last line does not fit its records")
    return head, ((number, _object(kind, file, number, line)) for number, line in enumerate(body, 2))


def _object(kind: LineFormat, file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise kind.invalid(f"{file}, line {number}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise kind.invalid(f"{file}, line {number}: not a JSON object")
    return found
