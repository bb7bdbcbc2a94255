"""Who may read at the source and not at the destination, as far as ACLs show."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import NO_AUTHORIZER, AclBinding, AclOperation, AclPattern, AclPermission, AclResource, Acls
from tanist.domain.readers import Readers, ReadingGroups, readers

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC, GROUP = AclResource.TOPIC, AclResource.GROUP
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
READ, ALL, DESCRIBE = AclOperation.READ, AclOperation.ALL, AclOperation.DESCRIBE
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED
APP = "User:app"


def acl(  # noqa: PLR0913, PLR0917
    kind: AclResource,
    name: str,
    who: str = APP,
    operation: AclOperation = READ,
    permission: AclPermission = ALLOW,
    pattern: AclPattern = LITERAL,
    host: str = "*",
) -> AclBinding:
    return AclBinding(kind, name, pattern, who, host, operation, permission)


BOTH = (acl(GROUP, "g"), acl(TOPIC, "orders"))


def lacking(
    source: Iterable[AclBinding], destination: Iterable[AclBinding] = (), **fields: dict[str, str] | set[str]
) -> tuple[str, ...]:
    groups = {"topics": {"g": {"orders"}}, "copies": {"orders": "orders"}, "principals": {}, **fields}
    asked = ReadingGroups(**groups)  # type: ignore[arg-type]
    return readers(asked, Acls(bindings=frozenset(source)), Acls(bindings=frozenset(destination))).lacking


CASES: dict[str, tuple[list[AclBinding], list[AclBinding], tuple[str, ...]]] = {
    "neither": ([*BOTH], [], ("User:app (group g): group g, topic orders",)),
    "only the group": ([*BOTH], [acl(GROUP, "g")], ("User:app (group g): topic orders",)),
    "only the topic": ([*BOTH], [acl(TOPIC, "orders")], ("User:app (group g): group g",)),
    "by another pattern": ([*BOTH], [acl(GROUP, "", pattern=PREFIXED), acl(TOPIC, "*", operation=ALL)], ()),
    "by everybody": ([*BOTH], [acl(GROUP, "g", "User:*"), acl(TOPIC, "orders", "User:*")], ()),
    "denied": (
        [*BOTH],
        [*BOTH, acl(TOPIC, "ord", permission=DENY, pattern=PREFIXED)],
        ("User:app (group g): topic orders",),
    ),
    "everybody may there": (
        [acl(GROUP, "*", "User:*"), acl(TOPIC, "*", "User:*")],
        [*BOTH],
        ("User:* (group g): group g, topic orders",),
    ),
    "denied at the source": ([*BOTH, acl(GROUP, "g", permission=DENY)], [], ()),
    "no topic of the mirror": ([acl(GROUP, "g"), acl(TOPIC, "other")], [], ()),
    "only describing": ([acl(GROUP, "g", operation=DESCRIBE), acl(TOPIC, "orders")], [], ()),
    "from one host": (
        [acl(GROUP, "g", host="10.0.0.1"), acl(TOPIC, "orders")],
        [acl(GROUP, "g", host="10.0.0.2"), acl(TOPIC, "orders")],
        ("User:app from 10.0.0.1 (group g): group g",),
    ),
    "another group": ([acl(GROUP, "h"), acl(TOPIC, "orders")], [], ()),
}


@pytest.mark.parametrize("case", CASES)
def test_whoever_reads_there_and_may_not_read_here_is_named(case: str) -> None:
    """S3.7."""
    source, destination, named = CASES[case]
    assert lacking(source, destination) == named


def test_principals_and_topics_have_their_names_of_the_destination() -> None:
    """S3.7."""
    names = {"copies": {"orders": "dr.orders"}, "principals": {APP: "User:app-dr"}}
    assert lacking(BOTH, BOTH, **names) == ("User:app-dr (group g): group g, topic dr.orders",)
    assert lacking(BOTH, [acl(GROUP, "g", "User:app-dr"), acl(TOPIC, "dr.orders", "User:app-dr")], **names) == ()
    assert lacking(BOTH, spared={APP}) == ()


def test_without_an_authorizer_everybody_may_read_and_of_the_source_nothing_is_known() -> None:
    groups = ReadingGroups(topics={"g": {"orders"}}, copies={"orders": "orders"}, principals={})
    assert readers(groups, Acls(bindings=frozenset(BOTH)), NO_AUTHORIZER) == Readers(groups=1)
    assert "no authorizer" in readers(groups, NO_AUTHORIZER, Acls()).unknown
    assert not readers(ReadingGroups(topics={}, copies={}, principals={}), NO_AUTHORIZER, Acls())


def test_many_groups_and_acls_take_no_second() -> None:
    """2,000 groups of 50 principals over prefixes: a status is asked for every few seconds."""
    names = [f"{n % 50}-{n}" for n in range(2000)]
    groups = ReadingGroups(topics={name: {name} for name in names}, copies={n: n for n in names}, principals={})
    acls = {acl(kind, f"{n}-", f"User:{n}", pattern=PREFIXED) for n in range(50) for kind in (TOPIC, GROUP)}
    begun = time.process_time()
    assert readers(groups, Acls(bindings=frozenset(acls)), Acls(bindings=frozenset(acls))).lacking == ()
    assert time.process_time() - begun < 1
