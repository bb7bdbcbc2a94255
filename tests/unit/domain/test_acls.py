"""Who may write to a topic, read from rules of any pattern and operation."""

from __future__ import annotations

import pytest

from tanist.domain.acl_entries import CLOSED, AclEntry, learnt
from tanist.domain.acls import AclBinding, Acls

TOPIC, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, DENY, ALLOW = 2, 3, 4, 2, 3
EVE = AclEntry("User:eve", "*", allowed=True)


def rule(name: str, pattern: int, operation: int, permission: int = ALLOW, who: str = "User:eve") -> AclBinding:
    return AclBinding(TOPIC, name, pattern, who, "*", operation, permission)


@pytest.mark.parametrize("operation", [WRITE, ALL])
@pytest.mark.parametrize(("name", "pattern"), [("orders", LITERAL), ("*", LITERAL), ("ord", PREFIXED), ("", PREFIXED)])
def test_every_pattern_and_operation_that_lets_write_counts(name: str, pattern: int, operation: int) -> None:
    assert Acls(bindings=frozenset([rule(name, pattern, operation)])).writing(["orders"]) == {"orders": {EVE}}


@pytest.mark.parametrize(("name", "pattern", "operation"), [("orders", LITERAL, READ), ("ord", LITERAL, WRITE)])
def test_what_does_not_let_write_here_does_not(name: str, pattern: int, operation: int) -> None:
    assert Acls(bindings=frozenset([rule(name, pattern, operation)])).writing(["orders"]) == {"orders": frozenset()}


def test_a_denial_is_kept_and_one_of_everybody_hides_the_rest() -> None:
    """Without the denial an allowance would be wider than it was; a fence says nothing about who may write later."""
    denied = rule("ord", PREFIXED, ALL, DENY, "User:bob")
    found = Acls(bindings=frozenset([denied, rule("orders", LITERAL, WRITE)])).writing(["orders"])["orders"]
    assert learnt(found) == (AclEntry("User:bob", "*", allowed=False), EVE)
    assert learnt({*found, CLOSED}) is None
