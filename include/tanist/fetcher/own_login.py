"""This worker's principal at the destination, reported in its heartbeat, because no other process can determine it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.logins import MirrorLogin, PrincipalUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.state_view import StateView
    from tanist.ports.access import Access
    from tanist.ports.clock import Clock

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 1.5
"""The longest wait of the coordination thread, which has heartbeats to send."""
MOST_TOPICS: Final = 50
"""Only the first topics are checked: ACLs are mostly granted by prefix."""
NOBODY: Final = MirrorLogin(None)
"""Of a cluster without an authorizer."""


class OwnLogin:
    """Owned by the coordination thread. If it cannot be determined, the last value stays.

    Before there is one, that of an earlier process of this worker stays, as its heartbeat has it: a plan would have
    another hash as soon as the brokers have answered.
    """

    def __init__(self, access: Access, clock: Clock, worker: str) -> None:
        """`worker`: the id of this worker in the state topic."""
        self._access, self._clock, self._worker = access, clock, worker
        self._seen: MirrorLogin | None = None
        self._at = float("-inf")
        self._asked_of: list[str] = []

    def seen(self, view: StateView) -> MirrorLogin:
        """Our login, and whether ACLs for its principal apply to it, on mirror topics and failed-over topics."""
        now, topics = self._clock.monotonic(), sorted({topic.topic for topic in view.topics()})[:MOST_TOPICS]
        if self._seen is None or now - self._at >= EVERY_SECONDS or topics != self._asked_of:
            self._at, self._asked_of = now, topics
            self._look(topics)
        return self._seen or self._stored(view)

    def _stored(self, view: StateView) -> MirrorLogin:
        held = next((each for each in view.workers() if each.worker == self._worker), None)
        return NOBODY if held is None else MirrorLogin(held.principal, held.unbound)

    def _look(self, topics: Sequence[str]) -> None:
        try:
            found = self._access.login(topics, self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except PrincipalUnknown as nameless:
            self._seen = MirrorLogin(None, nameless.reason)
        except TanistError as why:
            log.warning("our rights were not told", extra={"error": why.name, "reason": why.reason})
        else:
            self._seen = MirrorLogin(found.login.principal, found.unbound) if found.authorizer else NOBODY
