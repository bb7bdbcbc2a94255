"""What a node tells about itself: whether it serves requests, or why it ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import PortTaken, ProcessFailed

if TYPE_CHECKING:
    from pathlib import Path

    from tanist_testkit.sandbox.jars import Release

LOG4J2: Final = """\
Configuration:
  status: ERROR
  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n%throwable"}}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: STDOUT}}
    Logger:
      - {name: kafka.server.KafkaRaftServer, level: INFO}
"""

_LOG4J1: Final = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.logger.kafka.server.KafkaServer=INFO
log4j.logger.org.apache.zookeeper.server.NIOServerCnxnFactory=INFO
"""

_STARTED: Final = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started|binding to port /")
"""What a node logs when it serves requests (a broker: once the controller has unfenced it), of old, ZooKeeper."""

_TAKEN: Final = "Address already in use"


def logging_of(release: Release) -> tuple[str, str]:
    """The name and the text of the file that says what a node logs."""
    return ("log4j.properties", _LOG4J1) if release.log4j1 else ("log4j2.yaml", LOG4J2)


def begin(log: Path) -> None:
    """Sets the log of the run before aside, as `*.previous.log`: what is read below is about this run."""
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))


def is_ready(log: Path) -> bool:
    """Whether the node has said that it has started."""
    return _STARTED.search(_text(log)) is not None


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
