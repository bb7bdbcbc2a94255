"""Our principal at a cluster's authorizer, and whether ACLs for that principal apply to us.

No Kafka API returns one's own principal. Brokers do return the authorized operations of the requesting login (KIP-430),
including super users: that is the proof, whatever principal we assume.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST, ANYBODY
from tanist.domain.checks import named
from tanist.domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.names import EpochMs
    from tanist.domain.records import WorkerAlive

NOT_KNOWN_MS: Final = 30_000
USER: Final = "User:"
SETTING: Final = 'principal = "User:..." in the cluster\'s section, or tanist.principal in its connection'


class Origin(StrEnum):
    """How a principal is known. The setting takes precedence: brokers may map names by rules of their own."""

    SETTING, SASL = "the setting `principal`", "the SASL user name"
    CERTIFICATE, NOWHERE = "the client certificate", "nowhere"


@dataclass(frozen=True, slots=True)
class Login:
    """Our assumed principal; None if neither the setting nor the login names one."""

    principal: str | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSeen:
    """A login on a cluster. `unbound`: why a DENY for its principal would not apply to it; empty: no reason known.

    The absence of a reason is no proof: only a DENY in force shows whether it applies. `unseen`: why its ACLs, and so
    such a reason, cannot be looked at; empty: they were.
    """

    login: Login
    authorizer: bool
    unbound: str = ""
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class MirrorLogin:
    """A login that workers copy with, as they have reported it; see `LoginSeen`."""

    principal: str | None
    unbound: str = ""


def logins_of(workers: Iterable[WorkerAlive]) -> tuple[MirrorLogin, ...]:
    """The logins that workers copy with, or may: all that are on record, however long ago they were reported.

    A silent worker may be frozen, and resume with its login: no age of a heartbeat says that it has ended. So a login
    counts until a worker of the same id has reported another one, or `tanist fetcher forget` has deleted the record.
    """
    by_login: dict[tuple[str | None, str], list[str]] = {}
    for each in workers:
        if each.principal or each.unbound:
            by_login.setdefault((each.principal, each.unbound), []).append(each.worker)
    found = (MirrorLogin(name, _with_way_on(why, reported)) for (name, why), reported in by_login.items())
    return tuple(sorted(found, key=str))


def not_known_yet(workers: Iterable[WorkerAlive], now: EpochMs) -> tuple[str, ...]:
    """The workers that have started a moment ago, and that the brokers have not told yet with which login they write.

    For `NOT_KNOWN_MS` after its start: a worker of an earlier version, or one that the brokers refuse to tell, never
    reports a login. `now`: a worker that has ended meanwhile is not waited for.
    """
    waiting = (each for each in workers if not each.principal and not each.unbound)
    return tuple(
        sorted(
            each.worker for each in waiting if each.at - each.started_at < NOT_KNOWN_MS and now - each.at < NOT_KNOWN_MS
        )
    )


def _with_way_on(unbound: str, workers: Iterable[str]) -> str:
    if not unbound:
        return ""
    ids = sorted(workers)
    forget = f"once that process has ended for good, `{forget_command(ids)}` removes it"
    return f"{unbound} (reported by worker {named(ids, ', ')}; {forget})"


def forget_command(workers: Iterable[str]) -> str:
    """What removes workers that have ended for good, and the logins that only they have reported."""
    return f"{shlex.join(('tanist', 'fetcher', 'forget', *workers))} --destination PLACE"


def principals(logins: Iterable[MirrorLogin]) -> frozenset[str]:
    return frozenset(login.principal for login in logins if login.principal)


class PrincipalUnknown(Misconfigured):
    name = "PRINCIPAL_UNKNOWN"
    operator_action = f"set {SETTING}"


def nameless(cluster: str) -> str:
    """Why a login without a known principal cannot be denied anything."""
    return f"the principal of this login is unknown to Tanist on {cluster!r}: set {SETTING}"


def unbound(principal: str, may_write: Mapping[str, bool], rules: Mapping[str, Iterable[AclEntry]]) -> str:
    """Why a DENY for `principal` would not keep this login from writing; empty: the ACLs explain what it may do.

    `may_write`: the brokers' answer to this login for each topic; `rules`: all ACLs for writing to it.
    An ACL for a single host counts as allowing: which host the brokers see for us is not known.
    """
    for topic, may in sorted(may_write.items()):
        about = [rule for rule in rules.get(topic, ()) if rule.principal in {principal, ANYBODY}]
        denied = any(not rule.allowed and rule.host == ANY_HOST for rule in about)
        if may and denied:
            return (
                f"{principal} is denied WRITE on {topic}, but this login may still write: it is a super user or has "
                "another principal"
            )
        if may and not any(rule.allowed for rule in about):
            why = "it is a super user, has another principal, or the cluster allows everyone without ACLs"
            return f"no ACL allows {principal} to write to {topic}, but this login may: {why}"
    return ""
