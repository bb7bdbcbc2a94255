"""Who may write, by all ACLs together: entries of different forms may say the same."""

from __future__ import annotations

from tanist.domain.acl_entries import CLOSED, AclEntry
from tanist.domain.write_access import acl_changes, locked_out, may_write, own_acls, shut_out_of, to_give

MIRROR = "User:mirror"


def allow(who: str, host: str = "*") -> AclEntry:
    return AclEntry(who, host, allowed=True)


def deny(who: str, host: str = "*") -> AclEntry:
    return AclEntry(who, host, allowed=False)


def test_a_deny_outweighs_every_allow_and_everybody_is_everybody() -> None:
    assert may_write("User:app", [allow("User:*")])
    assert not may_write("User:app", [allow("User:*"), allow("User:app"), deny("User:app")])
    assert not may_write("User:app", [allow("User:app"), deny("User:*")])
    assert may_write("User:app", [allow("User:app"), deny("User:app", "10.0.0.1")]), "from other hosts"
    assert not may_write("User:app", [])


def test_what_the_mirror_has_created_is_not_the_clusters_own() -> None:
    found = [CLOSED, deny("User:app"), deny("User:bob"), allow("User:app")]
    assert own_acls(found, ["User:app"]) == {deny("User:bob"), allow("User:app")}


def test_who_may_write_at_the_source_by_any_acl_is_locked_out_by_a_deny_of_the_destination() -> None:
    assert locked_out([allow("User:app")], [deny("User:app")], [MIRROR]) == ("User:app",)
    assert locked_out([allow("User:*")], [deny("User:app")]) == ("User:app",)
    assert locked_out([allow("User:app")], [allow("User:*")]) == ()
    assert locked_out([allow("User:app"), deny("User:app")], [deny("User:app")]) == (), "not at the source either"
    assert locked_out([allow(MIRROR)], [deny(MIRROR)], [MIRROR]) == ()
    assert locked_out([allow("User:app")], [deny("User:*")]) == ("User:app",), "a wider DENY for everybody stays"


def test_whom_the_destination_denies_is_locked_out_where_the_source_has_no_acl_and_everybody_may_write() -> None:
    """`allow.everyone.if.no.acl.found`: GO, DONE, and the producer was refused by both clusters."""
    assert locked_out([], [deny("User:app"), deny(MIRROR), allow("User:bob")], [MIRROR]) == ("User:app",)
    assert locked_out([], [allow("User:*"), deny("User:app")]) == ("User:app",)
    assert locked_out([], []) == ()
    assert shut_out_of([], [deny("User:app")]) == ("User:app",), "after the switch, too"
    assert locked_out([deny("User:bob")], [deny("User:app")]) == (), "the source has an ACL, and it lets nobody write"


def test_a_deny_is_not_given_against_whom_the_cluster_itself_allows() -> None:
    """On the way back the DENY of the other cluster locked producers out at home."""
    assert to_give([deny("User:app")], {allow("User:app")}) == ()
    assert to_give([deny("User:app")], {allow("User:*")}) == ()
    bob = deny("User:bob")
    assert to_give([allow("User:*"), bob], frozenset()) == (allow("User:*"), bob), "it is needed beside User:*"
    assert to_give([allow("User:app"), bob], frozenset()) == (allow("User:app"),), "no ALLOW lets bob in"
    assert to_give([bob], frozenset()) == (), "the first ACL of a topic would end allow.everyone.if.no.acl.found"
    assert to_give([allow("User:app"), allow(MIRROR)], {allow("User:app")}, [MIRROR]) == ()


def test_who_lost_access_after_the_switch_is_found() -> None:
    assert shut_out_of([allow("User:app"), allow("User:bob")], [allow("User:bob")]) == ("User:app",)


def test_changes_at_the_source_are_named_unless_a_fence_hides_them() -> None:
    stored = (allow("User:app"), allow(MIRROR))
    assert acl_changes(stored, (allow("User:new"),), [MIRROR]) == (
        "allow User:new was added",
        "allow User:app was removed",
    )
    assert acl_changes(stored, None) == ()
