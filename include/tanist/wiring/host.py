"""This host: the checks of `tanist doctor`, and where its log goes."""

from __future__ import annotations

import json
import logging
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.checks import Check, Verdict
from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from tanist.wiring.registry import ClusterRegistry


PACKAGES: Final = ("tanist", "confluent-kafka", "kafka-python", "crc32c", "typer")


def host_checks(registry: ClusterRegistry) -> tuple[Check, ...]:
    """The checks of `tanist doctor` that need no cluster."""
    configured = ", ".join(registry.names())
    return (
        *(_package(name) for name in PACKAGES),
        _java(),
        Check(
            name="configuration",
            verdict=Verdict.PASS if configured else Verdict.FAIL,
            observed=f"{registry.settings.origin}: {configured or 'no clusters'}",
            reason="" if configured else "define your clusters in tanist.toml, or start some with `tanist sandbox up`",
        ),
    )


def _package(name: str) -> Check:
    try:
        return Check(name=f"package {name}", verdict=Verdict.PASS, observed=version(name))
    except PackageNotFoundError:
        return Check(name=f"package {name}", verdict=Verdict.FAIL, observed="missing", reason=f"pip install {name}")


def _java() -> Check:
    from tanist.spark_submit.jars import java  # noqa: PLC0415

    try:
        found = java()
    except TanistError as error:
        return Check(
            name="java",
            verdict=Verdict.FAIL,
            observed="missing",
            reason=f"{error.reason}; only the sandbox and Spark need it",
        )
    return Check(name="java", verdict=Verdict.PASS, observed=found)


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
