"""What a node tells about itself: whether it serves requests, or why it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import PortTaken, ProcessFailed

if TYPE_CHECKING:
    from pathlib import Path

LOG4J2: Final = """\
Configuration:
  status: ERROR
  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n%throwable"}}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: STDOUT}}
    Logger:
      - {name: kafka.server.KafkaRaftServer, level: INFO}
"""

_STARTED: Final = "Kafka Server started"
"""What a node logs when it serves requests; a broker only once the controller has unfenced it."""

_TAKEN: Final = "Address already in use"


def begin(log: Path) -> None:
    """Sets the log of the run before aside, as `*.previous.log`: what is read below is about this run."""
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))


def is_ready(log: Path) -> bool:
    """Whether the node has said that it has started."""
    return _STARTED in _text(log)


def failure(log: Path, who: str) -> PortTaken | ProcessFailed:
    """Why the node that wrote `log` has ended."""
    lines = _text(log).splitlines()
    if any(_TAKEN in line for line in lines):
        return PortTaken(f"{who}: one of its ports is taken, log: {log}")
    reported = next(
        (line for line in lines if " ERROR " in line or " FATAL " in line), lines[-1] if lines else "no reason"
    )
    return ProcessFailed(f"{who} ended: {reported[:300]}, log: {log}")


def _text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
