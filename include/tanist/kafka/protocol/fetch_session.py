"""What a broker remembers of the fetches of one client, so that they name only what has changed (KIP-227).

It remembers the partitions that were asked for, reads all of them at each fetch, and answers about those alone that
have news: records, other ends, or an error. One that has just been added is always answered about. The broker may
forget all of them at any time, when others need the room of its cache (`max.incremental.fetch.session.cache.slots`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.kafka.protocol.frames import FETCH_BY_ID, SessionFetch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.kafka.protocol.frames import FetchPosition, FetchVersion

_LAST_EPOCH: Final = (1 << 31) - 1


class FetchSession:
    """One fetch at a time: `next` makes it, and either `answered` or `ended` follows."""

    def __init__(self) -> None:
        self._id = self._epoch = 0
        self._version: FetchVersion | None = None
        self._known: dict[tuple[str, int], FetchPosition] = {}

    def next(
        self,
        version: FetchVersion,
        positions: Sequence[FetchPosition],
        forgotten: Iterable[tuple[str, int]] | None = None,
    ) -> SessionFetch:
        """The fetch of `positions`, in a new session where there is none that could go on.

        Topics have names in some versions and ids in others, so a session has one version. `forgotten`: None:
        `positions` are all that is read; else they are what is new or has moved, and these partitions leave.
        """
        if version is not self._version:
            self._version, self._epoch = version, 0
        wanted = {(each.topic, each.partition): each for each in positions}
        gone = [key for key in self._known if key not in wanted] if forgotten is None else forgotten
        left = [self._known.pop(key) for key in gone if key in self._known]
        changed: list[FetchPosition] = []
        for key, each in wanted.items():
            before = self._known.get(key)
            if before == each:
                continue
            if before is not None and version.topic_of(before) != version.topic_of(each):
                left.append(before)  # a topic that was created again is another one
            self._known[key] = each
            changed.append(each)
        if self._epoch:
            return SessionFetch(self._id, self._epoch, changed, left)
        return SessionFetch(self._id, 0, list(positions if forgotten is None else self._known.values()), [])

    def answered(self, session_id: int) -> None:
        """The broker goes on with this session; 0: it has none, or has no room for one."""
        self._id = session_id
        self._epoch = (self._epoch % _LAST_EPOCH) + 1 if session_id else 0

    def ended(self) -> None:
        """The broker has refused the fetch, or was not reached: the next one begins another session, and ends this."""
        self._epoch = 0

    @property
    def goes_on(self) -> bool:
        """Whether the last fetch that was made is one of a session that had begun before."""
        return self._epoch > 0

    @property
    def takes_ids(self) -> bool:
        """Whether partitions can be added by the ids of their topics: all that are in it were, or there are none."""
        return not self._known or self._version is FETCH_BY_ID
