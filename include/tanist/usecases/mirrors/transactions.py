"""Whether a cluster can be the destination of a mirror with mapped offsets: asked of its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.problems import refuse
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


def must_be_possible(spec: MirrorSpec, destination: Cluster, by: Deadline) -> tuple[str, ...]:
    """Warnings about `destination` to whoever creates the mirror, which has mapped offsets.

    Raises:
        TransactionsTooOld, Misconfigured, AuthorizationFailed, or several: it cannot be copied there.
    """
    found = supported(destination, by)
    problems = [*found.refusals(), *rights.refusals(destination, rights.position_needs(spec), by)]
    if problems:
        refuse(problems)
    return tuple(filter(None, [found.warning]))
