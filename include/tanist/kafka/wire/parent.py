"""A process that ends with its parent, whatever that one dies of."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import Final

PR_SET_PDEATHSIG: Final = 1
ORPHANED: Final = 75
_LOOK_SECONDS: Final = 1.0


def end_with(parent: int) -> None:
    """Have this process killed when `parent` has ended: by the kernel where it can (Linux), else by looking."""
    bind_to(parent)
    threading.Thread(target=_watch, args=(parent, threading.Event()), name="parent", daemon=True).start()


def bind_to(parent: int) -> None:
    """The part of it that outlives exec: the kernel's, on Linux. Ends this process if `parent` has ended already."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was too late to be told
        os._exit(ORPHANED)


def _watch(parent: int, never: threading.Event) -> None:
    while os.getppid() == parent:
        never.wait(_LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
