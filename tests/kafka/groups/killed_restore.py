"""`tanist groups restore FILE` that kills itself before it ends its NUMBERth transaction: NUMBER FILE."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

from tanist.cli.main import main
from tanist.kafka.wire.connection import Connection
from tests.kafka.groups.freezing import END_TXN


def killed() -> None:
    """With these arguments of the command line."""
    number, file = sys.argv[1:]
    ended, call = count(1), Connection.call

    def counted(self: Connection, request: Any, by: Any) -> Any:
        if END_TXN == request.API_KEY and next(ended) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return call(self, request, by)

    Connection.call = counted  # type: ignore[method-assign]
    sys.argv = ["tanist", "groups", "restore", file, "--destination", "west", "--yes"]
    main()


if __name__ == "__main__":
    killed()
