"""The entry of the console script. What takes half a second to import is in `app`."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from types import FrameType

ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a command in order: Ctrl-C, `kill` and `timeout`, a terminal that is closed."""


def main() -> None:
    """Run the command. Until everything is imported nothing has begun: a signal just ends the process."""
    ours = [sign for sign in ENDS if signal.getsignal(sign) is not signal.SIG_IGN]  # nohup, a shell's background job
    for sign in ours:
        signal.signal(sign, lambda number, _: os._exit(128 + number))
    from tanist.cli.app import run  # noqa: PLC0415 -- see above

    for sign in ours:
        signal.signal(sign, _interrupt)
    run()


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    """Once: `timeout` sends its signal twice, and what is being tidied up must not be interrupted. Ctrl-C may be."""
    for sign in ENDS[1:]:
        signal.signal(sign, lambda *_: None)
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    main()
