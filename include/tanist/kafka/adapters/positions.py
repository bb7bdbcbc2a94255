"""Committed offsets of consumer groups over `kafka.wire`: the port `Positions`.

librdkafka takes one group in a call and drops groups of other protocols; for thousands of groups that takes minutes
instead of seconds.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar, cast
from zlib import crc32

from tanist.domain.errors import TanistError
from tanist.kafka.wire.group_commits import Changes, GroupCommits
from tanist.kafka.wire.groups import client_ids, fetch_positions, list_groups
from tanist.kafka.wire.router import Router
from tanist.ports.positions import GroupFacts, GroupListing, unasked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import MirrorName, MirrorPartition
    from tanist.kafka.wire.groups import ListedGroup
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import CommitChange, CommittedOf, Outcome

_A = TypeVar("_A")

COMMITTERS: Final = 12
"""Transactional ids, and connections, that commit side by side. A broker takes one request of a connection after the
other, and since 4.0 a coordinator answers a commit after `group.coordinator.append.linger.ms` (5 ms).

A group always has the same one: so two commands, even of different releases, fence each other."""
_EMPTY: Final = {"Empty", "Dead"}


def commits_of(mirror: MirrorName, number: int) -> str:
    """A transactional id. No mirror's own is like it: '/' is in no name of a mirror."""
    return f"tanist-{mirror}/groups/{number}"


class KafkaPositions:
    """Owned by one thread; commits go out over connections of their own, side by side, on behalf of one mirror."""

    def __init__(self, router: Router, mirror: MirrorName) -> None:
        self._router = router
        self._mirror = mirror
        self._committers: dict[int, tuple[Router, GroupCommits]] = {}

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]:
        return self.listing(by).groups

    def listing(self, by: Deadline) -> GroupListing:
        listed, silent = list_groups(self._router, by)
        asked = {group: each.kind for group, each in listed.items() if each.state not in _EMPTY}
        members = client_ids(self._router, asked, by) if asked else {}
        return GroupListing(
            groups={group: _facts(each, members.get(group)) for group, each in listed.items()}, silent=silent
        )

    def committed(
        self, groups: Sequence[str], by: Deadline, *, stable: bool = True
    ) -> Mapping[str, CommittedOf | TanistError]:
        return fetch_positions(self._router, groups, by, stable=stable) if groups else {}

    def take_over(self, groups: Sequence[str], by: Deadline) -> None:
        def work(commits: GroupCommits, _: Sequence[str]) -> dict[str, TanistError]:
            commits.take_over(by)
            return {}

        self._side_by_side(groups, work)

    def commit(
        self,
        changes: Mapping[str, Mapping[MirrorPartition, CommitChange]],
        by: Deadline,
        confirm: Callable[[], None] = unasked,
    ) -> Mapping[str, Outcome | TanistError]:
        asked = _Confirmed(confirm)

        def work(commits: GroupCommits, hand: Sequence[str]) -> dict[str, Outcome | TanistError]:
            return commits.commit(cast("Changes", {group: changes[group] for group in hand}), by, asked)

        done = self._side_by_side(list(changes), work)
        if asked.refused is not None:
            raise asked.refused
        return done

    def _side_by_side(
        self, groups: Sequence[str], work: Callable[[GroupCommits, Sequence[str]], dict[str, _A | TanistError]]
    ) -> dict[str, _A | TanistError]:
        hands: defaultdict[int, list[str]] = defaultdict(list)
        for group in groups:
            hands[crc32(group.encode()) % COMMITTERS].append(group)

        def one(number: int) -> dict[str, _A | TanistError]:
            return _each(hands[number], lambda: work(self._committer(number), hands[number]))

        for number in hands:
            self._committer(number)
        with ThreadPoolExecutor(max(1, len(hands))) as pool:
            return {group: each for part in pool.map(one, hands) for group, each in part.items()}

    def _committer(self, number: int) -> GroupCommits:
        if number not in self._committers:
            router = Router(self._router.endpoint, "tanist-groups")
            self._committers[number] = (router, GroupCommits(router, commits_of(self._mirror, number)))
        return self._committers[number][1]

    def close(self) -> None:
        """Close the connections of the committers; the router stays open."""
        for router, _ in self._committers.values():
            router.close()


class _Confirmed:
    """Calls `confirm` by one thread at a time; after an error it is not called again."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._lock = Lock()
        self.refused: TanistError | None = None

    def __call__(self) -> None:
        with self._lock:
            if self.refused is not None:
                raise self.refused
            try:
                self._ask()
            except TanistError as error:
                self.refused = error
                raise


def _each(groups: Sequence[str], ask: Callable[[], dict[str, _A | TanistError]]) -> dict[str, _A | TanistError]:
    """The answers, or the common error for every group."""
    try:
        return ask()
    except TanistError as error:
        return dict.fromkeys(groups, error)


def _facts(each: ListedGroup, members: Sequence[str] | TanistError | None) -> GroupFacts:
    facts = GroupFacts(group=each.group, kind=each.kind, state=each.state, members=0 if each.state in _EMPTY else None)
    if members is None or isinstance(members, TanistError):
        return facts
    return replace(facts, members=len(members), client_ids=frozenset(members))
