"""Evidence in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tanist.domain.failover.evidence import Evidence


class MemorySink:
    """The port `Sink`. `kept`: what was flushed last."""

    def __init__(self) -> None:
        self.kept: Evidence | None = None

    def flush(self, evidence: Evidence) -> None:
        assert evidence.broken_at() is None
        self.kept = evidence

    def before(self) -> Evidence | None:
        return self.kept
