"""KIP-1279's rule language for ACLs, and the table of principals."""

from __future__ import annotations

import pytest

from tanist.domain.acl_rules import acl_principals, acl_rules, swapped, taken_names
from tanist.domain.acls import AclOperation, AclPermission, AclResource
from tanist.domain.errors import TanistError
from tanist.domain.moves import opposite
from tests.builders import a_mirror

TOPIC, GROUP, IDS = AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID
READ, DESCRIBE, WRITE, ALL = AclOperation.READ, AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.ALL
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
ALICE, BOB = "User:alice", "User:bob"

Acl = tuple[AclResource, str, AclOperation, AclPermission, str]
KIP: dict[str, tuple[list[Acl], list[Acl]]] = {
    "*": ([(TOPIC, "t", READ, ALLOW, BOB), (GROUP, "g", DESCRIBE, DENY, ALICE), (IDS, "i", WRITE, ALLOW, BOB)], []),
    "TOPIC;orders.*": (
        [(TOPIC, "orders-eu", READ, DENY, BOB)],
        [(TOPIC, "x", READ, ALLOW, BOB), (GROUP, "orders", READ, ALLOW, BOB)],
    ),
    "*;*;*;*;User:alice": ([(GROUP, "g", READ, ALLOW, ALICE)], [(GROUP, "g", READ, ALLOW, BOB)]),
    "*;*;*;*;User:app-.*": ([(TOPIC, "t", READ, ALLOW, "User:app-1")], [(TOPIC, "t", READ, ALLOW, "User:app")]),
    "TOPIC;*;READ;ALLOW": (
        [(TOPIC, "t", READ, ALLOW, BOB)],
        [(TOPIC, "t", READ, DENY, BOB), (TOPIC, "t", DESCRIBE, ALLOW, BOB)],
    ),
    "GROUP;consumer-.*;READ;ALLOW;User:bob": (
        [(GROUP, "consumer-1", READ, ALLOW, BOB)],
        [(GROUP, "consumer-1", READ, ALLOW, ALICE), (GROUP, "c", READ, ALLOW, BOB)],
    ),
    "TOPIC;orders.*,*;*;*;*;User:alice": (
        [(TOPIC, "orders", READ, ALLOW, BOB), (IDS, "i", WRITE, ALLOW, ALICE)],
        [(TOPIC, "bills", READ, ALLOW, BOB)],
    ),
    "topic;t;read;allow;User:*": ([(TOPIC, "t", READ, ALLOW, "User:*")], [(TOPIC, "t", READ, ALLOW, BOB)]),
    "*;*;*;*;User:CN=app,OU=x": ([(TOPIC, "t", READ, ALLOW, "User:CN=app,OU=x")], [(TOPIC, "t", READ, ALLOW, BOB)]),
    "transactional_id;i": ([(IDS, "i", WRITE, ALLOW, BOB)], [(GROUP, "i", READ, ALLOW, BOB)]),
}


@pytest.mark.parametrize("text", KIP)
def test_rules_select_what_kip_1279_says_of_its_examples(text: str) -> None:
    """S3.7."""
    inside, outside = KIP[text]

    def selected(acl: Acl) -> bool:
        kind, name, operation, permission, principal = acl
        return any(rule.selects(kind, (name,), (operation,), permission, principal) for rule in acl_rules([text]))

    assert all(map(selected, inside))
    assert not any(map(selected, outside))


UNREADABLE = {
    "TOPIC;a;READ;ALLOW;User:a;*": "6 fields, not up to 5",
    "TOPICS;a": "'TOPICS' is not a resource type: *, TOPIC, GROUP",
    "TOPIC;a;LOOK": "'LOOK' is not an operation",
    "TOPIC;a;READ;MAYBE": "'MAYBE' is not a permission type: *, DENY, ALLOW",
    "TOPIC;;READ": "its resource name is empty: * stands for any",
    "TOPIC;(": "its resource name: '(' is not a regular expression",
    "*;*;*;*;(a+)+b": "its principal: ",
    "CLUSTER;*": "ACLs of CLUSTER do not follow the source, only those of TOPIC, GROUP, TRANSACTIONAL_ID",
    "TOPIC;*;WRITE": "WRITE does not follow the source, only ALL, READ, DESCRIBE; WRITE is given by a failover",
    "GROUP;*;DELETE": "DELETE does not follow the source",
    "": "'' is not a resource type",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_rule_that_cannot_be_read_is_named_with_the_reason(text: str) -> None:
    """S3.7. And so is a rule that selects nothing that follows: nobody is left to believe that it did."""
    with pytest.raises(TanistError) as refused:
        acl_rules(["TOPIC", text])
    assert f"--acl {text!r} cannot be read" in refused.value.reason
    assert UNREADABLE[text] in refused.value.reason


def test_all_rules_that_cannot_be_read_are_named_at_once() -> None:
    with pytest.raises(TanistError) as refused:
        acl_rules(["TOPICS", "TOPIC;x,GROUP;("])
    assert "'TOPICS'" in refused.value.reason
    assert "'GROUP;('" in refused.value.reason


def test_principals_are_mapped_and_back() -> None:
    texts = ("User:app=User:app-dr", "User:CN=a,OU=b=User:CN=c=d", "User:x=Group:y")
    table = acl_principals(texts)
    assert table == {"User:app": "User:app-dr", "User:CN=a,OU=b": "User:CN=c=d", "User:x": "Group:y"}
    assert acl_principals(swapped(texts)) == {there: here for here, there in table.items()}


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (("User:a=User:c", "User:b=User:c"), "User:a and User:b would both be User:c, with the rights of both"),
        (("User:a=User:c", "User:a=User:d"), "User:a has two names: User:c and User:d"),
        (("User:a",), "'User:a' is not SOURCE=DESTINATION"),
        (("a=b",), "'a=b' is not SOURCE=DESTINATION"),
        (("User:*=User:a",), "User:* stands for everybody"),
        (("User:a=User:*",), "User:* stands for everybody"),
    ],
)
def test_a_table_that_would_widen_rights_is_refused(texts: tuple[str, ...], why: str) -> None:
    """S3.7. Two principals that become one would each have the rights of both."""
    with pytest.raises(TanistError) as refused:
        acl_principals(texts)
    assert why in refused.value.reason


def test_a_principal_whose_name_is_given_to_another_one_is_found() -> None:
    table = acl_principals(("User:a=User:b", "User:c=User:d", "User:d=User:c"))
    assert taken_names(table, {"User:a", "User:b", "User:c", "User:d", "User:e"}) == {"User:b"}


def test_a_reversed_mirror_maps_principals_back() -> None:
    """S3.7."""
    spec = a_mirror(acl_principals=("User:app=User:app-dr",))
    assert opposite(spec).acl_principals == ("User:app-dr=User:app",)
    assert opposite(opposite(spec)) == spec
