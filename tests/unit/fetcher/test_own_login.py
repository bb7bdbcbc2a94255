"""A worker tells in its heartbeat who it is to the destination's authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.logins import Login, LoginSeen, MirrorLogin, Origin, PrincipalUnknown
from tanist.domain.names import EpochMs
from tanist.fetcher.coordination import EVERY_SECONDS, MOST_TOPICS, OwnLogin
from tests.builders import a_topic, a_view, a_worker
from tests.fakes.access import MemoryAccess
from tests.fakes.cluster import MemoryCluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline

OPEN = LoginSeen(login=Login("User:x", Origin.SASL), authorizer=False)


class Watched(MemoryAccess):
    """`asked`: of which topics, each time; `nameless`: nobody says who we are; `guarded`: there is an authorizer."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self.asked: list[list[str]] = []
        self.nameless, self.guarded = False, True

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        self.asked.append(list(topics))
        if self.nameless:
            raise PrincipalUnknown("nobody knows")
        return super().login(topics, by) if self.guarded else OPEN


def view(*topics: str) -> StateView:
    desired = [a_topic(name) for name in topics]
    return a_view(*desired)


def test_a_worker_asks_again_where_topics_have_changed_and_now_and_then() -> None:
    cluster = MemoryCluster()
    access = Watched(cluster)
    own = OwnLogin(access, cluster.clock, "w")
    for _ in range(3):
        assert own.seen(view("b", "a")) == MirrorLogin("User:approver")
    own.seen(view("a"))
    cluster.clock.wait(EVERY_SECONDS)
    own.seen(view("a"))
    assert access.asked == [["a", "b"], ["a"], ["a"]]


def test_a_worker_asks_about_its_first_topics_only() -> None:
    access = Watched(cluster := MemoryCluster())
    OwnLogin(access, cluster.clock, "w").seen(view(*(f"t{n:03}" for n in range(MOST_TOPICS + 5))))
    assert access.asked == [[f"t{n:03}" for n in range(MOST_TOPICS)]]


def test_what_is_not_told_any_more_stays_as_it_was_told() -> None:
    cluster = MemoryCluster()
    cluster.rules["a"] = ()
    own = OwnLogin(Watched(cluster), cluster.clock, "w")
    reported = own.seen(view("a"))
    assert "no ACL allows User:approver to write to a" in reported.unbound
    cluster.dead = True
    cluster.clock.wait(EVERY_SECONDS)
    assert own.seen(view("a")) == reported


def test_a_login_that_nobody_names_says_so_and_without_an_authorizer_nobody_is_anybody() -> None:
    cluster = MemoryCluster()
    access = Watched(cluster)
    own = OwnLogin(access, cluster.clock, "w")
    access.nameless = True
    assert own.seen(view("a")) == MirrorLogin(None, "nobody knows")
    access.nameless, access.guarded = False, False
    cluster.clock.wait(EVERY_SECONDS)
    assert own.seen(view("a")) == MirrorLogin(None)


def test_first_heartbeat_of_a_restarted_worker_keeps_the_login_that_is_stored() -> None:
    """It named no login, so the plans of the first seconds had another hash than those after them."""
    cluster = MemoryCluster()
    own = OwnLogin(Watched(cluster), cluster.clock, "w")
    records = [
        a_worker(name, at=EpochMs(9), principal=who, unbound=why)
        for name, who, why in (("v", "User:v", ""), ("w", "User:w", "it is a super user"))
    ]
    stored = a_view(*records)
    cluster.dead = True
    assert own.seen(stored) == MirrorLogin("User:w", "it is a super user")
    assert own.seen(view("a")) == MirrorLogin(None), "there is none before the first start"
    cluster.dead = False
    assert own.seen(stored) == MirrorLogin("User:approver"), "it asks again with the next heartbeat"
