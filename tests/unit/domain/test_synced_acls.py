"""Which ACLs follow the source, and that what is created is never wider than what is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.acls import (
    NO_AUTHORIZER,
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Acls,
)
from tanist.domain.errors import TimedOut
from tanist.domain.given_acls import changed_records
from tanist.domain.metadata import MIRROR_WIDE, Change, Kind, MayFollow, MetadataRules, Outcome, Share
from tanist.domain.states import DesiredState
from tanist.domain.synced.acls import AclChange, decide
from tanist.domain.synced.wanted_acls import AclsFound
from tests.builders import a_mirror, a_topic, a_view, a_worker

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tanist.domain.records import MirrorSpec, TopicDesired

TOPIC, GROUP, CLUSTER, IDS = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER, AclResource.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
LITERAL, PREFIXED = AclPattern.LITERAL, AclPattern.PREFIXED
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
RULES = MetadataRules(known=None, replication_factor=None, fences={})
EVE, APP, ALL_USERS = "User:eve", "User:app", "User:*"
SPEC = a_mirror(acl_rules=("*",))


def acl(  # noqa: PLR0913, PLR0917
    kind: AclResource,
    name: str,
    operation: AclOperation = READ,
    who: str = APP,
    permission: AclPermission = ALLOW,
    pattern: AclPattern = LITERAL,
    host: str = "*",
) -> AclBinding:
    return AclBinding(kind, name, pattern, who, host, operation, permission)


def share(  # noqa: PLR0913
    source: Iterable[AclBinding],
    destination: Iterable[AclBinding] = (),
    *,
    spec: MirrorSpec = SPEC,
    topics: Collection[str] = ("orders", "bills"),
    others: Collection[str] = (),
    given: Iterable[AclBinding] = (),
    whole: bool = True,
    lenient: bool = False,
    more: Collection[TopicDesired] = (),
) -> Share:
    """The share of the whole mirror, whose `topics` may follow; `others`: topics of the destination beside them."""
    records = [a_topic(name) for name in topics]
    view = a_view(spec, *records, *more, *changed_records(spec, (), given), a_worker(principal="User:fetcher"))
    mirror = MayFollow(spec=spec, view=view, topics={each.topic: each for each in records}, rules=RULES)
    found = AclsFound(
        source=Acls(bindings=frozenset(source)),
        destination=Acls(bindings=frozenset(destination)),
        names=(*topics, *others, *(each.topic for each in more), "__mirror_state"),
        lenient=lenient,
        whole=whole,
    )
    return decide(mirror, found)[MIRROR_WIDE]


def created(of: Share) -> set[AclBinding]:
    """What is created; the rows say the same."""
    change = of.change or AclChange()
    assert sum(row.change is Change.CREATE for row in of.rows) == len(change.create)
    return set(change.create)


NARROWER = {
    "reading": (acl(TOPIC, "orders"), {acl(TOPIC, "orders")}),
    "describing": (acl(TOPIC, "orders", DESCRIBE), {acl(TOPIC, "orders", DESCRIBE)}),
    "from one host": (acl(TOPIC, "orders", host="10.0.0.1"), {acl(TOPIC, "orders", host="10.0.0.1")}),
    "all of a topic is only reading": (acl(TOPIC, "orders", ALL), {acl(TOPIC, "orders")}),
    "writing is withheld": (acl(TOPIC, "orders", WRITE), set()),
    "configs are not for clients": (acl(TOPIC, "orders", AclOperation.ALTER_CONFIGS), set()),
    "a topic outside the mirror": (acl(TOPIC, "secrets"), set()),
    "all topics: each copy, and no topic of the destination": (
        acl(TOPIC, "*"),
        {acl(TOPIC, "orders"), acl(TOPIC, "bills")},
    ),
    "a prefix": (acl(TOPIC, "ord", pattern=PREFIXED), {acl(TOPIC, "ord", pattern=PREFIXED)}),
    "a group": (acl(GROUP, "readers"), {acl(GROUP, "readers")}),
    "a prefix of groups": (acl(GROUP, "read", pattern=PREFIXED), {acl(GROUP, "read", pattern=PREFIXED)}),
    "all of a group is no deletion": (acl(GROUP, "*", ALL), {acl(GROUP, "*")}),
    "deleting groups": (acl(GROUP, "readers", AclOperation.DELETE), set()),
    "a transactional id": (acl(IDS, "tx", WRITE), {acl(IDS, "tx", WRITE)}),
    "all of transactional ids": (acl(IDS, "tx", ALL, pattern=PREFIXED), {acl(IDS, "tx", WRITE, pattern=PREFIXED)}),
    "the cluster": (acl(CLUSTER, "kafka-cluster", ALL), set()),
    "a code that is not known": (acl(TOPIC, "orders")._replace(operation=99), set()),
    "a pattern that is not known": (acl(TOPIC, "orders")._replace(pattern_type=9), set()),
    "the login of workers": (acl(TOPIC, "orders", who="User:fetcher"), set()),
}


@pytest.mark.parametrize("case", NARROWER)
def test_an_acl_of_the_source_is_created_and_never_a_wider_one(case: str) -> None:
    """S3.7. Once it is there nothing is left to do."""
    source, wanted = NARROWER[case]
    assert created(share([source])) == wanted
    assert share([source], wanted).rows == ()


def test_a_prefix_that_other_topics_share_becomes_one_acl_for_each_copy() -> None:
    """S3.7. Topics of the destination that are not copies stay as closed as they are."""
    prefix = acl(TOPIC, "o", pattern=PREFIXED)
    assert created(share([prefix], others=["other"])) == {acl(TOPIC, "orders")}
    paused = a_topic("old", desired=DesiredState.PAUSED)
    assert created(share([prefix], more=[paused])) == {prefix}, "a paused copy is no other topic"


SEC, SECRET = acl(TOPIC, "sec-", pattern=PREFIXED), acl(TOPIC, "sec-secret", permission=DENY)
OPEN_TO_ALL = acl(TOPIC, "sec-", who=ALL_USERS, pattern=PREFIXED)
BELOW = {
    "a topic that is paused, or blocked, or new at the source": (SEC, SECRET, SECRET),
    "a topic that has no copy": (
        SEC,
        acl(TOPIC, "sec-other", permission=DENY),
        acl(TOPIC, "sec-other", permission=DENY),
    ),
    "a longer prefix": (SEC, *[acl(TOPIC, "sec-s", permission=DENY, pattern=PREFIXED)] * 2),
    "all topics": (SEC, acl(TOPIC, "*", permission=DENY), acl(TOPIC, "sec-", permission=DENY, pattern=PREFIXED)),
    "one of everybody": (
        OPEN_TO_ALL,
        acl(TOPIC, "sec-secret", who=EVE, permission=DENY),
        acl(TOPIC, "sec-secret", who=EVE, permission=DENY),
    ),
}


@pytest.mark.parametrize("case", BELOW)
def test_a_topic_that_did_not_follow_was_open_because_its_deny_stayed_away(case: str) -> None:
    """S3.7. The prefix reached the paused topic here, and the DENY that closes it at the source was left out."""
    allow, deny, denied = BELOW[case]
    paused = a_topic("sec-secret", desired=DesiredState.PAUSED)
    found = created(share([allow, deny], topics=["sec-open"], more=[paused]))
    assert allow in found
    assert denied in found
    assert share([allow, deny], found, topics=["sec-open"], more=[paused], given=found).rows == ()
    gone = share([allow], found, topics=["sec-open"], given=found).change
    assert gone is not None, "what has no topic here is deleted, too, once it is gone"


def test_a_shorter_prefix_that_strangers_share_is_denied_below_that_which_is_allowed() -> None:
    """S3.7."""
    deny = acl(TOPIC, "s", permission=DENY, pattern=PREFIXED)
    found = created(share([SEC, deny], topics=["sec-open"], others=["stats"]))
    assert found >= {SEC, acl(TOPIC, "sec-", permission=DENY, pattern=PREFIXED)}
    assert deny not in found


@pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])
def test_a_prefix_below_which_everybody_is_denied_something_is_given_for_the_copies_only(pattern: AclPattern) -> None:
    """S3.7. That DENY may never follow: it would shut out the mirror."""
    deny = acl(TOPIC, "sec-secret", who=ALL_USERS, permission=DENY, pattern=pattern)
    paused = a_topic("sec-secret", desired=DesiredState.PAUSED)
    for more in ([paused], []):
        assert created(share([SEC, deny], topics=["sec-open"], more=more)) == {acl(TOPIC, "sec-open")}


def test_of_renamed_topics_no_name_of_the_source_is_denied_here() -> None:
    """S3.7. A copy that may not follow is allowed nothing, so nothing has to be denied."""
    spec = replace(SPEC, rename=("{topic}=dr.{topic}",))
    paused = a_topic("dr.sec-secret", desired=DesiredState.PAUSED)
    found = created(share([SEC, SECRET], spec=spec, topics=["dr.sec-open"], more=[paused]))
    assert found == {acl(TOPIC, "dr.sec-open")}


def test_what_is_still_allowed_here_is_narrowed_as_at_the_source_until_it_is_deleted() -> None:
    """S3.7. The rules do not select the prefix any more, it stays, and a DENY comes at the source."""
    groups = replace(SPEC, acl_rules=("GROUP",))
    assert created(share([SEC, SECRET], [SEC], spec=groups, topics=["sec-open"], given=[SEC])) == {SECRET}
    there = [SEC, SECRET]
    assert created(share(there, there, spec=groups, topics=["sec-open"], given=there)) == set()


def test_a_look_at_one_topic_created_an_allowance_without_the_denial_of_a_prefix() -> None:
    """S3.7."""
    deny = acl(TOPIC, "ord", permission=DENY, pattern=PREFIXED)
    assert created(share([acl(TOPIC, "orders"), deny], topics=["orders"], whole=False)) == {
        acl(TOPIC, "orders"),
        deny,
    }


def test_a_topic_that_only_one_host_may_not_read_is_not_closed() -> None:
    """S3.7. A DENY of everybody from one host narrows what is allowed, and is not that of a fence."""
    deny = acl(TOPIC, "orders", who=ALL_USERS, permission=DENY, host="10.0.0.9")
    assert created(share([acl(TOPIC, "orders"), deny])) == {acl(TOPIC, "orders"), deny}
    assert created(share([acl(TOPIC, "ord", pattern=PREFIXED), deny])) == {acl(TOPIC, "ord", pattern=PREFIXED), deny}


def test_an_allowance_waits_for_a_denial_that_would_be_the_first_acl_of_a_copy() -> None:
    """S3.7. The copy `orders` has an ACL, but the denied prefix also reaches `old`, which has none."""
    known = acl(TOPIC, "orders", WRITE, who="User:fetcher")
    deny = acl(TOPIC, "o", permission=DENY, pattern=PREFIXED)
    found = share([acl(TOPIC, "orders"), deny], [known], topics=["orders", "old"], lenient=True)
    assert created(found) == set()
    assert [row.verdict for row in found.rows] == [Outcome.SKIPPED, Outcome.SKIPPED]


def test_names_of_renamed_topics_are_mapped() -> None:
    """S3.7. A prefix says nothing about the names of copies, so each copy gets one."""
    spec = replace(SPEC, rename=("{topic}=dr.{topic}",))
    found = share(
        [acl(TOPIC, "orders"), acl(TOPIC, "b", pattern=PREFIXED)], spec=spec, topics=["dr.orders", "dr.bills"]
    )
    assert created(found) == {acl(TOPIC, "dr.orders"), acl(TOPIC, "dr.bills")}
    assert {row.topic for row in found.rows} == {"dr.orders", "dr.bills"}


DENIALS = {
    "of one of those that may": ([acl(TOPIC, "*", who=ALL_USERS), acl(TOPIC, "orders", who=EVE, permission=DENY)]),
    "of a prefix": ([acl(TOPIC, "orders", who=EVE), acl(TOPIC, "ord", who=EVE, permission=DENY, pattern=PREFIXED)]),
    "of everybody from one host": (
        [acl(GROUP, "g", who=EVE), acl(GROUP, "*", who=ALL_USERS, permission=DENY, host="10.0.0.9")]
    ),
}


@pytest.mark.parametrize("case", DENIALS)
def test_a_denial_that_narrows_an_allowance_follows_with_it_whatever_the_rules_say(case: str) -> None:
    """S3.7. Without it the allowance would be wider than at the source."""
    source = DENIALS[case]
    found = created(share(source, spec=replace(SPEC, acl_rules=("*;*;*;ALLOW",))))
    assert {each.permission for each in found} == {ALLOW, DENY}
    assert {each.principal for each in found if each.permission == DENY} == {source[1].principal}


def test_a_denial_of_all_operations_leaves_writing_to_the_failover() -> None:
    """S3.7. A DENY of WRITE at the mirror topic would lock out, after a failover, whom nobody has decided about."""
    assert created(share([acl(TOPIC, "orders", ALL, who=EVE, permission=DENY)])) == {
        acl(TOPIC, "orders", READ, who=EVE, permission=DENY),
        acl(TOPIC, "orders", DESCRIBE, who=EVE, permission=DENY),
    }
    assert created(share([acl(TOPIC, "orders", WRITE, who=ALL_USERS, permission=DENY)])) == set(), "a source fence"


def test_where_everybody_is_denied_nothing_follows_and_nothing_is_gone() -> None:
    """S3.7. The DENY would shut out the mirror; an ALLOW without it would be wider; and it may be a fence."""
    fence = acl(TOPIC, "orders", ALL, who=ALL_USERS, permission=DENY)
    given = acl(TOPIC, "orders", who=EVE)
    found = share([fence, acl(TOPIC, "o", pattern=PREFIXED), acl(TOPIC, "bills")], [given], given=[given])
    assert created(found) == {acl(TOPIC, "bills")}
    skipped = [(row.topic, row.verdict) for row in found.rows if row.change is not Change.CREATE]
    assert skipped == [("orders", Outcome.SKIPPED)]
    group = [acl(GROUP, "g", who=ALL_USERS, permission=DENY), acl(GROUP, "g"), acl(GROUP, "h")]
    assert created(share(group)) == {acl(GROUP, "h")}
    assert [row.verdict for row in share(group).rows if row.change is Change.NOTHING] == [Outcome.SKIPPED]


def test_rules_select_by_the_name_in_the_acl_and_by_that_of_the_topic() -> None:
    """S3.7."""
    everything = [acl(TOPIC, "*", who=EVE), acl(TOPIC, "bills"), acl(GROUP, "g"), acl(TOPIC, "ord", pattern=PREFIXED)]
    orders = replace(SPEC, acl_rules=("TOPIC;orders",))
    assert created(share(everything, spec=orders)) == {acl(TOPIC, "orders", who=EVE)}
    both = replace(SPEC, acl_rules=("TOPIC;ord.*;READ;ALLOW;User:app,GROUP",))
    assert created(share(everything, spec=both)) == {acl(GROUP, "g"), acl(TOPIC, "ord", pattern=PREFIXED)}


def test_principals_get_their_names_at_the_destination_and_no_two_the_same_one() -> None:
    """S3.7. A principal whose name the table gives to another one is left out, and named."""
    spec = replace(SPEC, acl_principals=("User:app=User:app-dr", "User:x=User:eve"))
    found = share([acl(TOPIC, "orders"), acl(TOPIC, "orders", who=EVE)], spec=spec)
    assert created(found) == {acl(TOPIC, "orders", who="User:app-dr")}
    assert [(row.name, row.verdict) for row in found.rows if row.change is Change.NOTHING] == [(EVE, Outcome.CONFLICT)]


def test_what_is_gone_at_the_source_is_named_if_the_mirror_has_created_it() -> None:
    """S3.7. Never what somebody else has created, nor what is gone at the destination, too."""
    ours, theirs, gone = acl(TOPIC, "orders"), acl(TOPIC, "orders", who=EVE), acl(GROUP, "g")
    found = share([acl(TOPIC, "bills")], [acl(TOPIC, "bills"), ours, theirs], given=[ours, gone])
    assert found.change == AclChange(gone=(ours,))
    (row,) = found.rows
    assert (row.kind, row.change, row.verdict, row.topic) == (Kind.ACCESS, Change.DELETE, Outcome.CONFLICT, "orders")


LONE, COPY = acl(GROUP, "g"), acl(TOPIC, "orders")
PREFIX = acl(TOPIC, "ord", pattern=PREFIXED)
LEFT: dict[str, tuple[AclBinding, list[AclBinding], dict[str, Any], Outcome, str]] = {
    "gone": (LONE, [], {}, Outcome.CONFLICT, "it has gone at the source"),
    "gone, of a topic": (COPY, [acl(TOPIC, "orders", DESCRIBE)], {}, Outcome.CONFLICT, "it has gone at the source"),
    "rules": (LONE, [LONE], {"spec": replace(SPEC, acl_rules=("TOPIC",))}, Outcome.SKIPPED, "rules of the mirror"),
    "shared": (PREFIX, [PREFIX], {"others": ["ordinary"]}, Outcome.CONFLICT, "that are no copies begin with"),
    "denied to all": (
        PREFIX,
        [PREFIX, acl(TOPIC, "ord-x", who=ALL_USERS, permission=DENY)],
        {},
        Outcome.CONFLICT,
        "denies everybody a part of it",
    ),
    "spanned": (COPY, [PREFIX], {}, Outcome.SKIPPED, "another ACL that follows"),
    "renamed": (
        COPY,
        [COPY],
        {"spec": replace(SPEC, acl_principals=("User:app=User:app-dr",))},
        Outcome.CONFLICT,
        "--acl-principal",
    ),
    "renamed copy": (
        acl(TOPIC, "dr.orders"),
        [COPY],
        {"spec": replace(SPEC, acl_rules=("GROUP",), rename=("{topic}=dr.{topic}",)), "topics": ["dr.orders"]},
        Outcome.SKIPPED,
        "rules of the mirror",
    ),
    "a denial without what it narrowed": (
        SECRET,
        [SECRET],
        {"spec": replace(SPEC, acl_rules=("*;*;*;ALLOW",))},
        Outcome.SKIPPED,
        "rules of the mirror",
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_every_acl_that_did_not_follow_any_more_was_called_gone_and_a_conflict(case: str) -> None:
    """S3.7. Where nothing is wrong `sync` ended with 1, every time."""
    ours, source, how, verdict, reason = LEFT[case]
    found = share(source, [ours], given=[ours], **how)
    (row,) = (row for row in found.rows if row.change is Change.DELETE)
    assert (row.verdict, reason in row.reason) == (verdict, True), row
    assert found.change is not None
    assert found.change.gone == (ours,), "its deletion can be approved"


def test_what_concerns_the_login_of_workers_is_not_deleted() -> None:
    """S3.7. It was given before a worker logged in with that name; and the source may have it still."""
    theirs = acl(TOPIC, "orders", who="User:fetcher")
    assert share([theirs], [theirs], given=[theirs]).rows == ()
    assert share([], [theirs], given=[theirs]).rows == ()


def test_a_look_at_some_topics_is_only_about_their_own_acls() -> None:
    """S3.7. What is not looked at is neither created nor gone."""
    group, prefix = acl(GROUP, "g"), acl(TOPIC, "ord", pattern=PREFIXED)
    here = acl(TOPIC, "orders")
    given = [acl(GROUP, "h"), acl(TOPIC, "bills")]
    found = share([here, group, prefix], given, given=given, topics=["orders"], whole=False)
    assert created(found) == {here}
    assert len(found.rows) == 1


def test_what_cannot_be_read_is_unknown_and_without_an_authorizer_nothing_follows() -> None:
    """S3.7. An authorizer that is gone is not the news that all ACLs are."""
    mirror = MayFollow(spec=SPEC, view=a_view(SPEC, a_topic("t")), topics={"t": a_topic("t")}, rules=RULES)
    some = Acls(bindings=frozenset([acl(TOPIC, "t")]))
    for source, destination, verdict in (
        (TimedOut("east"), some, Outcome.UNKNOWN),
        (some, TimedOut("west"), Outcome.UNKNOWN),
        (NO_AUTHORIZER, some, Outcome.SKIPPED),
        (some, NO_AUTHORIZER, Outcome.SKIPPED),
    ):
        (one,) = decide(mirror, AclsFound(source=source, destination=destination)).values()
        assert ([row.verdict for row in one.rows], one.change) == ([verdict], None)
    assert decide(mirror, None) == {}
    assert decide(replace(mirror, topics={}), AclsFound(source=some, destination=some)) == {}


def test_no_acl_is_the_first_one_where_everybody_is_let_in_without(subtests: pytest.Subtests) -> None:
    """S3.7. It would shut out the mirror, whose workers write without an ACL of their own."""
    for first in (acl(TOPIC, "orders"), acl(TOPIC, "o", pattern=PREFIXED), acl(GROUP, "*"), acl(IDS, "tan", WRITE)):
        each = first._replace(pattern_type=PREFIXED) if first.resource_name == "tan" else first
        with subtests.test(str(each)):
            found = share([each], lenient=True)
            assert created(found) == set()
            assert [row.verdict for row in found.rows] == [Outcome.SKIPPED]
            assert created(share([each])) == {each}
    known = acl(TOPIC, "orders", WRITE, who="User:fetcher")
    assert created(share([acl(TOPIC, "orders"), acl(GROUP, "g")], [known], lenient=True)) == {
        acl(TOPIC, "orders"),
        acl(GROUP, "g"),
    }


FIRST_OF_OURS = {
    "all of all groups": (acl(GROUP, "*", ALL, who="User:mirror"), acl(GROUP, "*"), True),
    "the prefix of ours": (acl(GROUP, "tanist-", who="User:mirror", pattern=PREFIXED), acl(GROUP, "*"), True),
    "a shorter one": (
        acl(IDS, "tan", WRITE, who="User:mirror", pattern=PREFIXED),
        acl(IDS, "tanist-x", WRITE),
        True,
    ),
    "some of ours": (acl(GROUP, "tanist-x", who="User:mirror", pattern=PREFIXED), acl(GROUP, "*"), False),
    "another type": (acl(IDS, "*", WRITE, who="User:mirror"), acl(GROUP, "*"), False),
}


@pytest.mark.parametrize("case", FIRST_OF_OURS)
def test_acls_that_the_login_of_the_mirror_had_did_not_count_for_groups_and_ids(case: str) -> None:
    """S3.7. The row said to give them first, and stayed after they were given."""
    there, each, follows = FIRST_OF_OURS[case]
    assert (each in created(share([each], [there], lenient=True))) is follows


def test_what_is_decided_of_many_topics_does_not_grow_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """A diff of 2,000 topics, each with an ACL of its own, took a minute and a half."""
    count, asked = 300, 0
    real = AclBinding.about

    def counted(self: AclBinding, name: str) -> bool:
        nonlocal asked
        asked += 1
        return real(self, name)

    monkeypatch.setattr(AclBinding, "about", counted)
    names = [f"orders-{n}" for n in range(count)]
    rows = share([acl(TOPIC, name) for name in names], topics=names, lenient=True).rows
    assert len(rows) == count
    assert asked < 10 * count
    real_spans, theirs = AclBinding.spans, [acl(TOPIC, name) for name in names]

    def counted_spans(self: AclBinding, other: AclBinding) -> bool:
        nonlocal asked
        asked += 1
        return real_spans(self, other)

    monkeypatch.setattr(AclBinding, "spans", counted_spans)
    left = share(theirs, theirs, topics=names, given=theirs, spec=replace(SPEC, acl_rules=("GROUP",))).rows
    assert len(left) == count
    assert asked < 10 * count
    here = Acls(bindings=frozenset(theirs))
    assert set(here.permitted(names, ["read"], APP).values()) == {True}
    assert asked < 10 * count
