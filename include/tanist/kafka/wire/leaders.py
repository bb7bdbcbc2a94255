"""One request about many partitions, grouped by leader, with a result for each partition.

A leader that is unknown, outdated or down is looked up again, and a request that changes nothing is repeated once, and
for a moment longer while a leader moves. For one that does (markers), the partition keeps its error, and the next call
uses the new leader.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from tanist.domain.broker_errors import (
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotLeader,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import (
    BrokerError,
    ConnectionLost,
    TanistError,
    TimedOut,
    Unreachable,
)
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.router import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tanist.domain.names import BrokerId
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_Q = TypeVar("_Q")
_A = TypeVar("_A")
_P = TypeVar("_P", bound=TopicPartition)
Answers: TypeAlias = "dict[_P, _A | TanistError]"
Ask: TypeAlias = "Callable[[Connection, Mapping[TopicPartition, _Q], Deadline], Answers[TopicPartition, _A]]"

_ELSEWHERE: Final = (
    NotLeader,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
    FencedLeaderEpoch,
    UnknownLeaderEpoch,
    ConnectionLost,
    Unreachable,
    TimedOut,
)
_MOVES: Final = (NotLeader, FencedLeaderEpoch, UnknownLeaderEpoch)
_PAUSES_SECONDS: Final = (0.0, 0.05, 0.2, 0.5)
"""Before a leader that has moved is looked up again: brokers learn of a new one at different times."""


def ask_leaders(
    router: Router, wanted: Mapping[_P, _Q], by: Deadline, ask: Ask[_Q, _A], *, again: bool = True
) -> Answers[_P, _A]:
    """`ask` each leader about its partitions. An error of one leader concerns only its partitions.

    Whichever side of a mirror the partitions are of: on the wire they are names, and what comes back is equal to them.

    Raises:
        Stopped: the router was interrupted. CouldNotTell: no broker reports leaders.
    """
    questions = cast("Mapping[TopicPartition, _Q]", wanted)
    leaders = router.leaders(questions)
    if unknown := {at.topic for at, leader in leaders.items() if leader is None}:
        router.refresh(sorted(unknown), by)
        leaders = router.leaders(questions)
    answers = _ask_once(router, questions, leaders, by, ask)
    kinds: tuple[type[TanistError], ...] = _ELSEWHERE
    for pause in _PAUSES_SECONDS if again else _PAUSES_SECONDS[:1]:
        failed = {at: answer for at, answer in answers.items() if isinstance(answer, TanistError)}
        elsewhere = {at: questions[at] for at, answer in failed.items() if isinstance(answer, kinds)}
        if not elsewhere:
            break
        with contextlib.suppress(TimedOut, Unreachable, ConnectionLost):  # what we have is the answer then
            if pause:
                router.pause(pause, by)
            router.refresh(sorted({at.topic for at in elsewhere}), by)
            if again:
                answers |= _ask_once(router, elsewhere, router.leaders(elsewhere), by, ask)
        kinds = _MOVES
    return cast("Answers[_P, _A]", answers)


def _ask_once(
    router: Router,
    questions: Mapping[TopicPartition, _Q],
    leaders: Mapping[TopicPartition, BrokerId | None],
    by: Deadline,
    ask: Ask[_Q, _A],
) -> Answers[TopicPartition, _A]:
    answers: Answers[TopicPartition, _A] = {}
    groups: defaultdict[BrokerId, dict[TopicPartition, _Q]] = defaultdict(dict)
    for at, leader in leaders.items():
        if leader is None:
            answers[at] = _why_unled(router, at)
        else:
            groups[leader][at] = questions[at]
    for index, (broker, group) in enumerate(groups.items()):
        answers |= router.ask(broker, group, share(by, len(groups) - index), ask)
    return answers


def _why_unled(router: Router, at: TopicPartition) -> BrokerError:
    try:
        router.leader(at)
    except BrokerError as error:
        return error
    return LeaderNotAvailable(f"{at} of cluster {router.endpoint.name!r}")


def result(each: Any, doing: str, of: object, value: _A) -> _A | TanistError:
    """`value`, or the error whose code is in `each`, in the context `doing` `of`: of thousands few need that text."""
    return value if each.error_code == NONE else error_for(each.error_code, f"{doing} {of}")


def value(answer: _A | TanistError) -> _A:
    """What a partition was answered; an error is raised."""
    if isinstance(answer, TanistError):
        raise answer
    return answer


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Topics in the order of their first partition, as requests want them."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for at in partitions:
        topics[at.topic].append(at.partition)
    return list(topics.items())


def each_partition(
    topics: Iterable[Any], name: str = "name", number: str = "partition_index"
) -> Iterable[tuple[TopicPartition, Any]]:
    """The partitions of an answer, flat. Two requests call these fields otherwise."""
    for topic in topics:
        for each in topic.partitions:
            yield TopicPartition(getattr(topic, name), getattr(each, number)), each
