"""The errors of KIP-1279, and which one Tanist has for each: a table of docs/reference/errors.md."""

from __future__ import annotations

from typing import Final, NamedTuple


class KipError(NamedTuple):
    """`code`: TBD in the KIP: None. `ours`: names of errors of Tanist or of brokers. `why`: where they are others."""

    code: int | None
    name: str
    ours: tuple[str, ...]
    why: str = ""


def _same(code: int | None, name: str, why: str = "") -> KipError:
    return KipError(code, name, (name,), why)


ERRORS: Final = (
    KipError(
        3,
        "UNKNOWN_TOPIC_OR_PARTITION",
        ("TOPIC_NOT_IN_MIRROR", "UNKNOWN_TOPIC"),
        "of a topic that the mirror, or the source, does not have",
    ),
    KipError(15, "COORDINATOR_NOT_AVAILABLE", ("NO_STATE_TOPIC", "UNREACHABLE"), "the state is in a topic of ours"),
    KipError(31, "CLUSTER_AUTHORIZATION_FAILED", ("MIRROR_AUTHORIZATION_FAILED",), "it names the permission"),
    _same(35, "UNSUPPORTED_VERSION"),
    _same(None, "MIRROR_AUTHORIZATION_FAILED"),
    KipError(
        None,
        "READ_ONLY_TOPIC",
        ("TOPIC_AUTHORIZATION_FAILED", "FOREIGN_WRITE"),
        "stock brokers refuse producers by ACL; FOREIGN_WRITE is the error of a partition to which one wrote all the "
        "same",
    ),
    _same(None, "INVALID_MIRROR_NAME"),
    _same(None, "UNKNOWN_MIRROR", "no mirror has that name; of a topic in no mirror: `TOPIC_NOT_IN_MIRROR`"),
    _same(None, "TOPIC_ALREADY_IN_MIRROR"),
    _same(None, "TOPIC_NOT_IN_MIRROR"),
    _same(None, "MIRROR_TOPIC_ALREADY_PAUSED"),
    _same(None, "MIRROR_TOPIC_NOT_PAUSED"),
    KipError(
        None,
        "MIRROR_TOPIC_BEING_REMOVED",
        ("MIRROR_LOCKED", "TOPIC_NOT_IN_MIRROR"),
        "removing is a failover: it locks the mirror, and the topic is in it no more once it is done",
    ),
    _same(None, "MIRROR_NOT_EMPTY"),
)
"""In the order of the KIP."""


def section(known: frozenset[str]) -> str:
    """The table for people. Raises KeyError: a name is that of no error. `known`: all names that there are."""
    rows = []
    for each in ERRORS:
        if unknown := set(each.ours) - known:
            raise KeyError(*unknown)
        here = "the same" if each.ours == (each.name,) else ", ".join(f"`{name}`" for name in each.ours)
        rows.append(f"| `{each.name}` | {here} | {each.why} |")
    head = (
        "## Names of KIP-1279\n\nWhere the KIP has a name for what is wrong, Tanist has it, too, but where it means "
        "something else here:\n\n| KIP-1279 | Tanist | |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"
