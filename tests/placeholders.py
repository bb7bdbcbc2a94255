"""Words in a printed command that stand for a value that nobody has filled in."""

from __future__ import annotations

import re
from typing import Final

_COMMAND: Final = re.compile(r"`(tanist\s[^`]+)`")
_STANDS_FOR_A_VALUE: Final = re.compile(
    r"(?:^|\s)(?:--[a-z-]+[ =])?(?:NAME|HASH|REGEX|TOPIC|TEXT|GROUP|FILE|STEP|ID|N)(?=\s|$)"
)


def left_in(text: str) -> list[str]:
    """The commands in `text` that cannot be typed as they stand."""
    return [found for found in _COMMAND.findall(text) if _STANDS_FOR_A_VALUE.search(found)]
