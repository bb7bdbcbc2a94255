"""How a thread of the fetcher ends, and who hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import Stopped
from tanist.domain.names import EpochMs
from tanist.domain.records import STATE_TOPIC
from tanist.fetcher.coordination import Worker
from tanist.fetcher.group_tail import GroupTails
from tanist.fetcher.rounds import RoundThread
from tanist.fetcher.service import Parts, Service
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.membership import MemoryGroup, MemoryMembership
from tests.fakes.state import WORKER, MemoryStateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


class Rounds(RoundThread):
    def __init__(self, *rounds: Callable[[Rounds], object]) -> None:
        super().__init__("test")
        self.to_do, self.did = list(rounds), list[str]()

    def _round(self) -> None:
        self.did.append("round")
        self.to_do.pop(0)(self)

    def _finish(self) -> None:
        self.did.append("finish")

    def _close(self) -> None:
        self.did.append("close")


def raising(why: BaseException) -> Callable[[Rounds], object]:
    def do(_: Rounds) -> None:
        raise why

    return do


def test_what_was_begun_is_finished_by_a_thread_that_is_stopped_in_time() -> None:
    thread = Rounds(lambda _: None, Rounds.stop)
    thread.run()
    assert (thread.did, thread.rounds, thread.died) == (["round", "round", "finish", "close"], 2, None)


def test_a_thread_that_is_interrupted_finishes_nothing_and_has_not_died() -> None:
    thread = Rounds(raising(Stopped("at once")))
    thread.run()
    assert (thread.did, thread.died) == (["round", "close"], None)


def test_what_a_thread_dies_of_is_kept_and_it_lets_go_of_what_it_holds() -> None:
    bug = KeyError("a bug")
    thread = Rounds(raising(bug))
    thread.run()
    assert (thread.did, thread.died) == (["round", "close"], bug)


def test_a_worker_ends_when_a_thread_beside_its_coordination_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on without: positions of groups were not followed any more, and nobody said so."""
    bug, clock = KeyError("a bug"), JumpingClock()

    def look(_: GroupTails) -> None:
        raise bug

    monkeypatch.setattr(GroupTails, "_look", look)
    monkeypatch.setattr("tanist.fetcher.group_tail.LOOK_SECONDS", 0.0)
    state = MemoryStateStore(MemoryCluster(), STATE_TOPIC, WORKER)
    service = Service(
        Parts(
            worker=Worker(id="w1", version="1", host="h", started_at=EpochMs(0)),
            destination=Endpoint(name="west", bootstrap=(Address("127.0.0.1", 1),)),
            resolve=lambda name: Endpoint(name=name, bootstrap=(Address("127.0.0.1", 1),)),
            state=state,
            maps=state,
            membership=lambda renew: MemoryMembership(MemoryGroup(4, clock), renew),
            clock=clock,
            state_partitions=4,
            remembered_ms=1,
            groups=state,
        )
    )
    assert service.failed is None
    [tails] = service._beside
    tails.run()
    assert service.failed is bug
