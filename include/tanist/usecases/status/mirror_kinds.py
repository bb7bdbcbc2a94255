"""Which kinds of mirror this login can have at a cluster, and what mapped offsets need there: checks of `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Check, Verdict
from tanist.domain.records import OffsetMode
from tanist.usecases import rights
from tanist.usecases.mirrors.transactions import supported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.rights import RequiredAclCheck

_ANY_MIRROR = "MIRROR"
"""In place of the name of a mirror that does not exist yet."""


def kinds(cluster: Cluster, topics: Sequence[str], mirrors: Sequence[str], by: Deadline) -> Check:
    """Which kinds of mirror this login could have to the cluster, and what it lacks for the others.

    `topics`: that mirrors have there; `mirrors`: those with mapped offsets. What both kinds need is not looked at.
    Raises what the cluster answers.
    """
    found = {
        OffsetMode.IDENTICAL: rights.met(cluster, rights.identical_needs(topics), by),
        OffsetMode.MAPPED: rights.met(cluster, rights.mapped_needs(topics, mirrors or [_ANY_MIRROR]), by),
    }
    possible = [kind for kind, needs in found.items() if all(each.verdict is Verdict.PASS for each in needs)]
    unsure = any(Verdict.UNKNOWN in verdicts and Verdict.FAIL not in verdicts for verdicts in _verdicts(found))
    return Check(
        name=f"kinds of mirror to {cluster.name}",
        verdict=Verdict.UNKNOWN if unsure else Verdict.PASS,
        observed=f"{' or '.join(possible)} offsets" if possible else "none",
        reason="; ".join(
            filter(None, [*(_lacking(kind, needs) for kind, needs in found.items()), _unreported(possible)])
        ),
    )


def _unreported(possible: Sequence[OffsetMode]) -> str:
    """What brokers do not report, of kinds that are possible otherwise."""
    if OffsetMode.MAPPED not in possible:
        return ""
    return "for mapped offsets it also needs WRITE on TransactionalId tanist-*, which `tanist mirrors create` finds out"


def _verdicts(found: Mapping[OffsetMode, Sequence[RequiredAclCheck]]) -> Iterator[set[Verdict]]:
    for needs in found.values():
        yield {each.verdict for each in needs}


def _lacking(kind: OffsetMode, needs: Sequence[RequiredAclCheck]) -> str:
    """What this login lacks for one kind; empty: nothing."""
    missing = [each.acl.description for each in needs if each.verdict is Verdict.FAIL]
    unknown = [f"{each.acl.title} ({each.reason})" for each in needs if each.verdict is Verdict.UNKNOWN]
    if missing:
        return f"for {kind} offsets it lacks {', '.join(missing)}"
    return f"for {kind} offsets it is not known: {', '.join(unknown)}" if unknown else ""


def transactions(cluster: Cluster, by: Deadline) -> Check:
    """Whether the brokers of a destination take the transactions of mirrors with mapped offsets, and verify them.

    Raises what the cluster answers.
    """
    found = supported(cluster, by)
    refused = [each.reason for each in found.refusals()]
    return Check(
        name=f"transactions on {cluster.name}",
        verdict=Verdict.FAIL if refused or found.switched_off else Verdict.PASS,
        observed="verified" if found.verified else "not known" if found.verified is None else "not verified",
        reason="; ".join(filter(None, [*refused, found.warning])),
    )
