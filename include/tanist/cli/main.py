"""The entry of the console script. What takes half a second to import is in `app`."""

from __future__ import annotations

import os
import signal
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command. Until everything is imported nothing has begun: Ctrl-C just ends the process."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background job ignores it
    if ours:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from tanist.cli.app import run  # noqa: PLC0415 -- see above

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
