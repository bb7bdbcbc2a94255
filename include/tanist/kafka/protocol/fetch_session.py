"""What a broker remembers of the fetches of one connection, so that they name only what has changed (KIP-227).

It remembers the partitions that were asked for, and answers about those alone that have news: records, other ends, or
an error. It may forget all of them at any time, when others need the room of its cache
(`max.incremental.fetch.session.cache.slots`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.kafka.protocol.frames import SessionFetch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.kafka.protocol.frames import FetchPosition, FetchVersion

_LAST_EPOCH: Final = (1 << 31) - 1


class FetchSession:
    """Of one connection. One fetch at a time: `next` makes it, and either `answered` or `ended` follows."""

    def __init__(self) -> None:
        self._id = self._epoch = 0
        self._version: FetchVersion | None = None
        self._known: Mapping[tuple[Any, int], FetchPosition] = {}
        """By what the version calls the topic: one that was created again is another one."""

    def next(self, version: FetchVersion, positions: Sequence[FetchPosition]) -> SessionFetch:
        """The fetch of `positions`, in a new session where there is none that could go on.

        Topics have names in some versions and ids in others, so a session has one version.
        """
        if version is not self._version:
            self._version, self._epoch = version, 0
        before = self._known if self._epoch else {}
        self._known = {(version.topic_of(each), each.partition): each for each in positions}
        changed = [each for key, each in self._known.items() if before.get(key) != each]
        forgotten = [each for key, each in before.items() if key not in self._known]
        return SessionFetch(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """The broker goes on with this session; 0: it has none, or has no room for one."""
        self._id = session_id
        self._epoch = (self._epoch % _LAST_EPOCH) + 1 if session_id else 0

    def ended(self) -> None:
        """The broker has refused the fetch: the next one begins another session, and ends this one."""
        self._epoch = 0

    @property
    def goes_on(self) -> bool:
        """Whether the last fetch that was made is one of a session that had begun before."""
        return self._epoch > 0
