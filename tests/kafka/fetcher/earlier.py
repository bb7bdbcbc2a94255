"""`tanist` as the version before wrote source ends: one time for all of a record, no silence; it reads nothing else.

`python -m tests.kafka.fetcher.earlier ARGUMENTS`
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tanist.cli.app import run
from tanist.domain.names import EpochMs
from tanist.fetcher import coordination
from tanist.fetcher.source_ends import source_ends
from tanist.kafka.protocol import stored
from tanist.kafka.protocol.stored import plain, reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.source_ends import SourceEnds

UNKNOWN: Final = ("at", "silent_since")
"""The fields of an end that it does not know."""


def stripped(record: Any) -> Any:
    """The JSON of a record of source ends without them; of anything else, as it is."""
    for end in record["ends"] if isinstance(record, dict) and {"ends", "chunk"} <= record.keys() else ():
        for name in UNKNOWN:
            end.pop(name, None)
        record.pop("written_at", None)
    return record


def earlier(known: dict[str, SourceEnds]) -> dict[str, SourceEnds]:
    """What it makes of the same reports."""
    return {
        key: replace(
            new, ends=tuple(replace(end, at=None, silent_since=None) for end in new.ends), written_at=EpochMs(0)
        )
        for key, new in known.items()
    }


def main() -> None:
    """With the arguments of the command line."""

    def reads(kind: Any) -> Callable[[Any], Any]:
        return lambda record: reader(kind)(stripped(record))

    def writes(record: Any, *, reveal: bool = False) -> Any:
        return stripped(plain(record, reveal=reveal))

    replaced: tuple[tuple[Any, str, Any], ...] = (
        (coordination, "source_ends", lambda *facts: earlier(source_ends(*facts))),
        (stored, "plain", writes),
        (stored, "reader", reads),
    )
    for module, name, other in replaced:
        setattr(module, name, other)
    run()


if __name__ == "__main__":
    main()
