"""Whether a DENY by name would shut a login out, judged from rules and from what brokers tell the login itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANYBODY, AclEntry, writers
from tanist.domain.logins import (
    NOT_KNOWN_MS,
    MirrorLogin,
    forget_command,
    logins_of,
    not_known_yet,
    principals,
    unbound,
)
from tanist.domain.names import EpochMs
from tests.builders import a_worker

if TYPE_CHECKING:
    from tanist.domain.records import WorkerAlive

ME = "User:CN=mirror"
ALLOWED = AclEntry(ME, "*", allowed=True)
DENIED = AclEntry(ME, "*", allowed=False)
CLOSED = AclEntry(ANYBODY, "*", allowed=False)


def sign(may: bool, *rules: AclEntry) -> str:
    return unbound(ME, {"t": may}, {"t": rules})


def test_a_right_that_rules_explain_says_nothing_against_the_login() -> None:
    assert sign(True, ALLOWED) == ""
    assert sign(True, AclEntry(ANYBODY, "*", allowed=True)) == ""
    assert sign(True, AclEntry(ME, "10.0.0.1", allowed=True)) == ""
    assert sign(False) == sign(False, DENIED) == sign(False, ALLOWED, CLOSED) == ""


def test_a_right_that_no_rule_gives_is_a_super_users_or_another_names() -> None:
    assert "no ACL allows User:CN=mirror to write to t" in sign(True)
    assert "no ACL allows" in sign(True, AclEntry("User:mirror", "*", allowed=True))


def test_a_right_that_is_denied_is_a_super_users() -> None:
    assert "is denied WRITE on t" in sign(True, ALLOWED, DENIED)
    assert "is denied WRITE on t" in sign(True, ALLOWED, CLOSED)
    assert sign(True, ALLOWED, AclEntry(ME, "10.0.0.1", allowed=False)) == "", "a DENY for another host"


def alive(name: str, at: int, principal: str | None, why: str = "") -> WorkerAlive:
    when = EpochMs(at)
    return a_worker(name, started_at=when, at=when, principal=principal, unbound=why)


def test_login_of_a_worker_that_is_silent_for_long_still_counts() -> None:
    """It dropped out 60 s after another worker's heartbeat, although a frozen process may resume with it."""
    now = 1_000_000_000
    reported = [alive("old", 1, "User:old"), alive("a", now, ME), alive("b", now - 9, ME), alive("c", now, None)]
    assert logins_of(reported) == (MirrorLogin(ME), MirrorLogin("User:old"))
    assert logins_of([]) == ()
    assert logins_of([*reported[1:], alive("old", now + 1, ME)]) == (MirrorLogin(ME),), "it has reported another one"


def test_login_that_cannot_be_denied_names_its_workers_and_how_it_is_removed() -> None:
    super_user = "it is a super user"
    found = logins_of(
        [alive("b", 1, ME, super_user), alive("a", 9, ME, super_user), alive("d", 5, None, "nobody knows")]
    )
    assert principals(found) == {ME}
    texts = {each.principal: each.unbound for each in found}
    assert texts[ME].startswith("it is a super user (reported by worker a, b; ")
    assert "`tanist fetcher forget a b --destination PLACE`" in texts[ME]
    assert texts[None].startswith("nobody knows (reported by worker d; ")
    assert forget_command(["of a host"]) == "tanist fetcher forget 'of a host' --destination PLACE"


def test_who_else_may_write_is_who_is_allowed_and_not_denied_everywhere() -> None:
    app, bob = AclEntry("User:app", "*", allowed=True), AclEntry("User:bob", "10.0.0.1", allowed=True)
    assert writers([ALLOWED, app, bob], {ME}) == {"User:app", "User:bob"}
    assert writers([app, bob, AclEntry("User:bob", "*", allowed=False)]) == {"User:app"}
    assert writers([AclEntry(ANYBODY, "*", allowed=True)]) == {ANYBODY}
    assert writers([app, CLOSED]) == writers([]) == frozenset()


def test_only_a_worker_that_has_just_started_may_not_know_its_login_yet() -> None:
    """One of an earlier version never reports it, and one that has ended meanwhile will not either."""
    young, told, nameless = alive("a", 1_000, None), alive("b", 1_000, ME), alive("c", 1_000, None, "nobody knows")
    older = replace(alive("d", 1_000, None), started_at=EpochMs(1_000 - NOT_KNOWN_MS))
    assert not_known_yet([young, told, nameless, older], EpochMs(1_001)) == ("a",)
    assert not_known_yet([young], EpochMs(1_000 + NOT_KNOWN_MS)) == ()
