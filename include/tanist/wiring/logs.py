"""Logs of long-running processes: one line for each event, verb first, then its fields."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a log record: its `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


class FieldsFormatter(logging.Formatter):
    """For people: `2026-11-21 03:12:07,118 INFO wrote offset run partition=orders-0 why=ahead`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        reported = "".join(f" {name}={value}" for name, value in fields(record).items())
        head, newline, trace = super().format(record).partition("\n")
        return f"{head}{reported}{newline}{trace}"


class JsonFormatter(logging.Formatter):
    """For a parent process: `{"level": "info", "event": "wrote offset run", "fields": {"partition": "orders-0"}}`."""

    def format(self, record: logging.LogRecord) -> str:
        reported = {"level": record.levelname.lower(), "event": super().format(record), "fields": fields(record)}
        return json.dumps(reported, default=str)


def log_to_stderr(formatter: logging.Formatter | None = None, level: int = logging.INFO) -> None:
    """Log to standard error. Called once, by the entry point; without a formatter in the format for people."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter or FieldsFormatter())
    logging.basicConfig(level=level, handlers=[handler])
