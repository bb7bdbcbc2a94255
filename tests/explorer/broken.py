"""Each rule of the model that guards an invariant, broken: the model does then what no broker does."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from tests.explorer.product import (
    GuardedCluster,
    MemoryFencing,
    MemoryGroups,
    MemoryOpening,
    MemoryProducerFencing,
    MemoryStateStore,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fakes.positions import MemoryTransaction


def _accepted(*_asked: Any, **_named: Any) -> None:
    """Nothing is done, and the answer says that it was."""


def _never_fenced(store: MemoryStateStore, *asked: Any) -> Any:
    cluster: Any = vars(store)["_cluster"]
    if (writer := vars(store)["_writer"]) in cluster.operators:
        vars(store)["_epoch"] = cluster.operators[writer]
    return _APPEND(store, *asked)


def _any_epoch(cluster: GuardedCluster, at: Any, producer: int, _epoch: int, count: int = 1) -> bool:
    cluster.grow(at, count, producer)
    return True


def _whoever_is_last(groups: MemoryGroups, transactional_id: str, _epoch: int) -> MemoryTransaction:
    return groups.transactions[transactional_id]


def _without_members(groups: MemoryGroups, transactional_id: str, epoch: int, name: str, wanted: Any) -> Any:
    group = groups.group(name)
    held, group.members = group.members, 0
    try:
        return _SEND(groups, transactional_id, epoch, name, wanted)
    finally:
        group.members = held


_APPEND: Final = MemoryStateStore.append
_SEND: Final = MemoryGroups.send
BREAKS: Final[dict[str, tuple[Any, str, Callable[..., Any]]]] = {
    "who opens a mirror's state fences who had it open": (MemoryStateStore, "append", _never_fenced),
    "a barrier is written where it is said to be": (MemoryProducerFencing, "_fence_producer", _accepted),
    "a fence stands where it is said to": (MemoryFencing, "_apply", _accepted),
    "a lifted fence is gone": (MemoryFencing, "_lift", _accepted),
    "opening takes WRITE from the mirror": (
        MemoryOpening, "open", lambda _self, topics, *_rest: dict.fromkeys(topics),
    ),
    "a group with members is not moved": (MemoryGroups, "send", _without_members),
    "of two that move groups the later one alone commits": (MemoryGroups, "_owned", _whoever_is_last),
    "behind a barrier no old writer gets in": (GuardedCluster, "append", _any_epoch),
}  # fmt: skip


DIRECTED: Final = {
    "a lifted fence is gone": "tests/unit/usecases/failover/test_source_fences.py::"
    "test_a_fence_whose_answer_was_lost_is_lifted_by_the_abort",
    "a group with members is not moved": "tests/contracts/test_positions.py::"
    "test_a_group_with_members_is_counted_and_keeps_its_positions_to_itself[memory-classic]",
    "of two that move groups the later one alone commits": "tests/unit/usecases/failover/test_group_positions.py::"
    "test_a_sync_that_is_fenced_by_commands_that_wake_commits_again_and_then_leaves_it[1-True]",
    "behind a barrier no old writer gets in": "tests/contracts/test_failover_ports.py::"
    "test_behind_a_barrier_no_old_writer_gets_in_and_asking_writes_nothing[memory]",
}
"""Rules that no story needs, as another one covers for them: what notices that they are broken."""


@contextmanager
def broken(rule: str) -> Iterator[None]:
    """The model without `rule`."""
    owner, name, instead = BREAKS[rule]
    with patch.object(owner, name, instead):
        yield
