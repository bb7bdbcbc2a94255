"""A transaction of group positions commits only what every coordinator has answered for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tanist.domain.errors import ConnectionLost
from tanist.domain.names import TopicPartition
from tanist.kafka.wire import group_commits
from tanist.kafka.wire.group_commits import GroupCommits
from tanist.kafka.wire.transactions import Producer
from tanist.ports.clock import Deadline
from tanist.ports.positions import CommitChange, CommittedPosition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pytest

    from tanist.kafka.wire.router import Router

AT = TopicPartition("orders", 0)
WAS, NEW = CommittedPosition(5, ""), CommittedPosition(9, "")
LOST = ConnectionLost("the answer of the coordinator was lost")


@dataclass
class Coordinators:
    """Those of the groups and of the transaction: the answer to a commit of a `silent` group is lost."""

    silent: frozenset[str]
    sent: list[str] = field(default_factory=list)
    ended: list[tuple[tuple[str, ...], bool]] = field(default_factory=list)
    name: str = "tanist-dr/groups/0"
    producer: Producer = field(default_factory=Producer)
    closed: bool = False

    def version(self, _request: object, _low: int, high: int) -> int:
        return high

    def begin(self, _by: Deadline) -> None:
        self.sent.clear()

    def ask(self, _request: object, _by: Deadline) -> None: ...

    def pause(self, _seconds: float, _by: Deadline) -> None: ...

    def call(self, request: Any, _by: Deadline) -> Any:
        self.sent.append(request.group_id)
        if request.group_id in self.silent:
            raise LOST
        partition = SimpleNamespace(partition_index=AT.partition, error_code=0)
        return SimpleNamespace(topics=[SimpleNamespace(name=AT.topic, partitions=[partition])])

    def end(self, _by: Deadline, *, commit: bool) -> None:
        self.ended.append((tuple(self.sent), commit))


def test_a_transaction_with_a_group_whose_answer_was_lost_is_never_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its position may be pending: nobody has read it again, and it would be committed with the others."""
    coordinators = Coordinators(silent=frozenset({"b"}))

    def asked(_router: object, groups: Sequence[str], by: Deadline, ask: Callable[..., Any]) -> Any:
        return ask(coordinators, groups, by) if groups else {}

    def committed(_connection: object, groups: Mapping[str, object], _by: Deadline) -> Any:
        return {group: {AT: WAS} for group in groups}

    monkeypatch.setattr(group_commits, "ask_once", asked)
    monkeypatch.setattr(group_commits, "fetch_committed", committed)
    commits = GroupCommits(cast("Router", coordinators), coordinators.name)
    monkeypatch.setattr(commits, "_owned", coordinators)
    change = {AT: CommitChange(WAS, NEW)}
    outcome = commits.commit({"a": change, "b": change}, Deadline(time.monotonic() + 0.05), lambda: None)
    assert coordinators.ended == [(("a", "b"), False), (("a",), True)]
    assert outcome == {"a": {AT: None}, "b": LOST}
