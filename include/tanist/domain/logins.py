"""Who we are to a cluster's authorizer, and whether rules by that name bind us.

No API tells one's own principal. What brokers do tell is what the login that asks may do (KIP-430), super users
included: that is the proof, whatever the name is thought to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST, ANYBODY
from tanist.domain.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.records import WorkerAlive

_TOGETHER_MS: Final = 60_000
USER: Final = "User:"
SETTING: Final = 'principal = "User:..." in the cluster\'s section, or tanist.principal in its connection'


class Origin(StrEnum):
    """Where a principal is known from. The setting wins: brokers may map names by rules of their own."""

    SETTING, SASL = "the setting `principal`", "the SASL user name"
    CERTIFICATE, NOWHERE = "the client certificate", "nowhere"


@dataclass(frozen=True, slots=True)
class Login:
    """Who we say that we are; `principal` is None where neither the setting nor the login names anybody."""

    principal: str | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSeen:
    """A login on a cluster. `unbound`: why a DENY by its name would not take WRITE from it; empty: nothing says so.

    That nothing says so is no proof: only a DENY that stands shows whether it takes.
    """

    login: Login
    authorizer: bool
    unbound: str = ""


@dataclass(frozen=True, slots=True)
class MirrorLogin:
    """A login that workers copy with, as they have told it; see `LoginSeen`."""

    principal: str | None
    unbound: str = ""


def logins_of(workers: Iterable[WorkerAlive]) -> tuple[MirrorLogin, ...]:
    """What the workers have told that were alive last, together: a worker of long ago had the rights of its time."""
    reported = tuple(workers)
    since = max((each.at for each in reported), default=0) - _TOGETHER_MS
    found = {MirrorLogin(each.principal, each.unbound) for each in reported if each.at >= since}
    return tuple(sorted((each for each in found if each.principal or each.unbound), key=str))


def principals(logins: Iterable[MirrorLogin]) -> frozenset[str]:
    return frozenset(login.principal for login in logins if login.principal)


class PrincipalUnknown(Misconfigured):
    name = "PRINCIPAL_UNKNOWN"
    operator_action = f"set {SETTING}"


def nameless(cluster: str) -> str:
    """Why a login without a name cannot be denied anything."""
    return f"the principal of this login is unknown to Tanist on {cluster!r}: set {SETTING}"


def unbound(principal: str, may_write: Mapping[str, bool], rules: Mapping[str, Iterable[AclEntry]]) -> str:
    """Why a DENY for `principal` would not shut this login out of topics; empty: the rules explain what it may do.

    `may_write`: what brokers tell this login about each topic; `rules`: all that there are about writing to it.
    A rule for one host counts as one that allows: from which host the brokers see us is not known.
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
