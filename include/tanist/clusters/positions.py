"""Positions of consumer groups over our own wire: the port `Positions`.

librdkafka takes one group in a call and drops groups of other protocols; with thousands of groups that decides between
seconds and minutes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.errors import TanistError
from tanist.ports.positions import Committed, GroupFacts
from tanist.wire.groups import StoredPosition, commit_positions, fetch_positions, list_groups, member_counts
from tanist.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import CommittedOf, Outcome
    from tanist.wire.groups import ListedGroup

_A = TypeVar("_A")

COMMITTERS: Final = 12
"""Connections that commit side by side. A broker takes one request of a connection after the other, and since 4.0 a
coordinator answers a commit after `group.coordinator.append.linger.ms` (5 ms): one connection makes 200 groups/s."""
_EMPTY: Final = {"Empty", "Dead"}


class KafkaPositions:
    """Owned by one thread; commits go out over connections of their own, side by side."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._router = Router(endpoint, "tanist-groups")
        self._committers: list[Router] = []

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]:
        listed = list_groups(self._router, by).groups
        asked = {group: each.kind for group, each in listed.items() if each.state not in _EMPTY}
        counts = member_counts(self._router, asked, by) if asked else {}
        return {group: _facts(each, counts.get(group)) for group, each in listed.items()}

    def committed(self, groups: Sequence[str], by: Deadline) -> Mapping[str, CommittedOf | TanistError]:
        found = fetch_positions(self._router, groups, by) if groups else {}
        return {
            group: stored if isinstance(stored, TanistError) else {at: _committed(each) for at, each in stored.items()}
            for group, stored in found.items()
        }

    def commit(
        self, positions: Mapping[str, Mapping[TopicPartition, Committed]], by: Deadline
    ) -> Mapping[str, Outcome | TanistError]:
        """Groups are dealt out to the connections by turns, so that each coordinator is kept busy by all of them."""
        groups = sorted(positions)
        hands = [groups[first::COMMITTERS] for first in range(min(COMMITTERS, len(groups)))]
        while len(self._committers) < len(hands):
            self._committers.append(Router(self._router.endpoint, "tanist-groups"))

        def work(router: Router, hand: Sequence[str]) -> Mapping[str, Outcome | TanistError]:
            mine = {group: {at: StoredPosition(*each) for at, each in positions[group].items()} for group in hand}
            return _each(hand, lambda: commit_positions(router, mine, by))

        with ThreadPoolExecutor(max(1, len(hands))) as pool:
            done = pool.map(work, self._committers, hands)
        return {group: outcome for part in done for group, outcome in part.items()}

    def close(self) -> None:
        for router in (self._router, *self._committers):
            router.close()


def _each(groups: Sequence[str], ask: Callable[[], Mapping[str, _A | TanistError]]) -> Mapping[str, _A | TanistError]:
    """The answers, or for every group the error that hit them all."""
    try:
        return ask()
    except TanistError as error:
        return dict.fromkeys(groups, error)


def _facts(each: ListedGroup, count: int | TanistError | None) -> GroupFacts:
    members = 0 if each.state in _EMPTY else None if isinstance(count, TanistError) else count
    return GroupFacts(group=each.group, kind=each.kind, state=each.state, members=members)


def _committed(stored: StoredPosition | TanistError) -> Committed | TanistError:
    return stored if isinstance(stored, TanistError) else Committed(stored.offset, stored.metadata)
