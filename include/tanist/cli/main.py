"""The entry point of the console script. Imports that take half a second are in `app`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command in order: Ctrl-C, `kill` and `timeout`, a terminal that is closed."""
LOOKING: Final = frozenset({"next", "status"})
"""The commands of `tanist.cli.looking`."""
_COLLECT_AFTER: Final = 100_000
"""Objects: a command that makes many rows makes no cycles of them, and looking for some took a quarter of its time."""


def main() -> None:
    """Run the command. Before everything is imported a signal just ends the process."""
    ours = [sign for sign in ENDS if signal.getsignal(sign) is not signal.SIG_IGN]  # nohup, a shell's background job
    for sign in ours:
        signal.signal(sign, lambda number, _: os._exit(128 + number))
    run = _command_line()
    for sign in ours:
        signal.signal(sign, _interrupt)
    collect_rarely()
    run()


def collect_rarely() -> None:
    """Look for cycles among the objects of a command alone, and rarely: what is imported by now stays anyway."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def _command_line() -> Callable[[], None]:
    """What runs the command line of this process."""
    if sys.argv[1:2] and sys.argv[1] in LOOKING:
        from tanist.cli import looking  # noqa: PLC0415 -- see above

        return looking.run
    from tanist.cli import app  # noqa: PLC0415

    return app.run


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    """Handle a signal once: `timeout` sends it twice, and cleaning up must not be interrupted, except by Ctrl-C."""
    for sign in ENDS[1:]:
        signal.signal(sign, lambda *_: None)
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    main()
