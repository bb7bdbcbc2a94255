"""Whether a cluster can be the destination of a mirror with mapped offsets: asked of its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.checks import Verdict
from tanist.domain.problems import refuse
from tanist.domain.rights import ClusterRole
from tanist.domain.transaction_support import TransactionSupport
from tanist.usecases import rights

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster


def supported(destination: Cluster, by: Deadline) -> TransactionSupport:
    """What the brokers of `destination` say of transactions. Raises what they answer otherwise."""
    try:
        configs = destination.configs.broker(by)
    except ClusterAuthorizationFailed:
        configs = None
    return TransactionSupport.of(destination.name, destination.bootstrap, destination.logs.versions(by), configs)


def must_be_possible(spec: MirrorSpec, source: Cluster, destination: Cluster, by: Deadline) -> tuple[str, ...]:
    """Warnings to whoever creates the mirror, which has mapped offsets: about `destination`, and about failovers.

    Raises:
        TransactionsTooOld, Misconfigured, AuthorizationFailed, or several: it cannot be copied there.
    """
    found = supported(destination, by)
    problems = [*found.refusals(), *rights.refusals(destination, rights.position_needs(spec), by)]
    if problems:
        refuse(problems)
    return (*filter(None, [found.warning]), *_about_failovers(spec, source, destination, by))


def _about_failovers(spec: MirrorSpec, source: Cluster, destination: Cluster, by: Deadline) -> tuple[str, ...]:
    """Warnings about what this login lacks for the failovers of a mirror that it can copy."""
    found = []
    for where, cluster, setting in (
        (ClusterRole.SOURCE, source, "--no-fence-source"),
        (ClusterRole.DESTINATION, destination, "--no-grant-writers"),
    ):
        checked = rights.met(cluster, rights.acl_needs(where, spec), by)
        if missing := [each.acl.title for each in checked if each.verdict is Verdict.FAIL]:
            found.append(
                f"on {cluster.name!r}, this login lacks {', '.join(missing)}, which failovers need: grant it before "
                f"one, or leave that to people ({setting})"
            )
    return tuple(found)
