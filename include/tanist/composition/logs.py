"""How a long-running command logs: one line an event, verb first, then its fields."""

from __future__ import annotations

import logging
import sys

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FieldsFormatter(logging.Formatter):
    """`2026-11-21 03:12:07,118 INFO wrote offset run partition=orders-0 why=ahead`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in vars(record).items() if name not in _PLAIN)
        head, newline, trace = super().format(record).partition("\n")
        return f"{head}{fields}{newline}{trace}"


def log_to_stderr(level: int = logging.INFO) -> None:
    """Once, by the shell that owns the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FieldsFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
