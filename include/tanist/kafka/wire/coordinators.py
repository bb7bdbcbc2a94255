"""One request about many groups, sent to the coordinator of each, with a result for each group.

A coordinator that is loading, has moved or does not answer is looked up again for a few seconds. After that its groups
keep their error; the other groups are not delayed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tanist.domain.broker_errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    RebalanceInProgress,
    UnstableOffsetCommit,
)
from tanist.domain.errors import ConnectionLost, CouldNotTell, MalformedFrame, TanistError, Unreachable
from tanist.domain.names import BrokerId
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.messages import FindCoordinatorRequest
from tanist.kafka.wire.router import share
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router

_A = TypeVar("_A")
ByGroup: TypeAlias = "dict[str, _A | TanistError]"
AskCoordinator: TypeAlias = "Callable[[Connection, Sequence[str], Deadline], ByGroup[_A]]"

PATIENCE_SECONDS: Final = 3.0
"""How long groups without a coordinator are asked about again; the answer for all of them waits no longer."""
_PAUSE_SECONDS: Final = 0.1
_FIRST_WITH_KEY_LIST: Final = 4  # FindCoordinator, KIP-699
_OF_GROUPS: Final = 0
_MOST_KEYS: Final = 1_000
_PASSING: Final = (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    RebalanceInProgress,
    UnstableOffsetCommit,
    ConnectionLost,
    Unreachable,
)


def passing(answer: object) -> bool:
    """Whether a retry may succeed."""
    return isinstance(answer, _PASSING)


def ask_coordinators(router: Router, groups: Sequence[str], by: Deadline, ask: AskCoordinator[_A]) -> ByGroup[_A]:
    """`ask` the coordinator of each of `groups`.

    Raises:
        Stopped: the router was interrupted. CouldNotTell: no broker of the cluster answers.
    """
    patience = Deadline(min(by.at, time.monotonic() + PATIENCE_SECONDS))
    answers: ByGroup[_A] = {}
    left = list(dict.fromkeys(groups))
    while left:
        answers |= ask_once(router, left, by, ask)
        left = [group for group in left if passing(answers[group])]
        if not left or patience.left(time.monotonic()) <= _PAUSE_SECONDS:
            break
        router.pause(_PAUSE_SECONDS, by)
    return answers


def ask_once(router: Router, groups: Sequence[str], by: Deadline, ask: AskCoordinator[_A]) -> ByGroup[_A]:
    """As `ask_coordinators`, without a retry."""
    answers: ByGroup[_A] = {}
    at: defaultdict[BrokerId, list[str]] = defaultdict(list)
    for group, found in coordinators(router, groups, by).items():
        if isinstance(found, TanistError):
            answers[group] = found
        else:
            at[found].append(group)
    for index, (broker, its) in enumerate(at.items()):
        answers |= router.ask(broker, its, share(by, len(at) - index), ask)
    return answers


def coordinators(router: Router, groups: Sequence[str], by: Deadline) -> dict[str, BrokerId | TanistError]:
    """Who keeps the positions of each of `groups`, a thousand in one request where the broker can do that."""
    connection = router.any_connection(by)
    version = connection.version(FindCoordinatorRequest, 1, 4)
    if version < _FIRST_WITH_KEY_LIST:
        return {group: _alone(router, group, by) for group in groups}
    found: dict[str, BrokerId | TanistError] = {}
    for first in range(0, len(groups), _MOST_KEYS):
        keys = list(groups[first : first + _MOST_KEYS])
        request = FindCoordinatorRequest(key_type=_OF_GROUPS, coordinator_keys=keys, version=version)
        answer = connection.call(request, by)
        found |= {each.key: _coordinator(router, each) for each in answer.coordinators}
    silent = MalformedFrame(f"{connection.peer}: an answer without this group")
    return {group: found.get(group, silent) for group in groups}


def _alone(router: Router, group: str, by: Deadline) -> BrokerId | TanistError:
    try:
        return router.coordinator(group, by)
    except CouldNotTell:
        raise
    except TanistError as error:
        return error


def _coordinator(router: Router, each: Any) -> BrokerId | TanistError:
    if each.error_code != NONE:
        return error_for(each.error_code, f"coordinator of group {each.key!r}")
    router.learn_broker(BrokerId(each.node_id), each.host, each.port)
    return BrokerId(each.node_id)
