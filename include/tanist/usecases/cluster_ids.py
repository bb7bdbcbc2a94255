"""The cluster ids of a mirror: read and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import AnotherCluster, SameCluster, TanistError
from tanist.domain.problems import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext


def identify(clusters: Sequence[Cluster], context: CommandContext) -> tuple[str, ...]:
    """The cluster id of source and destination.

    Raises:
        Problems, or the single error: every cluster that does not answer.
    """
    ids, problems = [], []
    for side in clusters:
        try:
            ids.append(side.topics.cluster_id(context.first_contact()))
        except TanistError as error:
            problems.append(error)
    if problems:
        refuse(problems)
    return tuple(ids)


def distinct(source: Cluster, destination: Cluster, context: CommandContext) -> tuple[str, str]:
    """The cluster ids of source and destination.

    Raises:
        SameCluster: source and destination are the same cluster.
    """
    source_id, destination_id = identify((source, destination), context)
    if source_id == destination_id:
        raise SameCluster(f"{source.name!r} and {destination.name!r} both lead to cluster {source_id}")
    return source_id, destination_id


def same_as_pinned(spec: MirrorSpec, source_id: str | None, destination_id: str | None) -> None:
    """Refuse if a connection leads to another cluster than when the mirror was created. None: it was not asked."""
    pairs = [(spec.source, spec.source_cluster_id, source_id or spec.source_cluster_id)]
    pairs.append((spec.destination, spec.destination_cluster_id, destination_id or spec.destination_cluster_id))
    for name, pinned, found in pairs:
        if pinned != found:
            raise AnotherCluster(f"{name!r} leads to cluster {found}, mirror {spec.mirror!r} was created with {pinned}")
