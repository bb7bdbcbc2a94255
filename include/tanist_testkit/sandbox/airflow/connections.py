"""What an Airflow on this machine is told of the clusters of a configuration: its connections and Variables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tanist.kafka.protocol.client_config import client_config
from tanist_testkit.sandbox.airflow.rest import AirflowConnection

if TYPE_CHECKING:
    from tanist.settings import ClusterSettings, Settings

SPARK: Final = AirflowConnection(id="spark_default", type="spark", host="local[*]")
APPROVES: Final = "op2"
"""The user who may approve what another one asks for."""


def connections(settings: Settings) -> tuple[AirflowConnection, ...]:
    """One of type `kafka` for each cluster, in librdkafka's words, and one with which an approval there is written.

    And Spark's.
    """
    clusters = [
        AirflowConnection(id=name, type="kafka", extra=_extra(cluster)) for name, cluster in settings.clusters.items()
    ]
    approvers = [replace(each, id=f"{each.id}_approver") for each in clusters]
    return (*clusters, *(each for each in approvers if each.id not in settings.clusters), SPARK)


def variables(settings: Settings) -> dict[str, str]:
    """Any of the clusters may hold mirrors: a failback goes the other way."""
    return {"TANIST_DESTINATIONS": ",".join(settings.clusters), "TANIST_APPROVERS": APPROVES}


def _extra(cluster: ClusterSettings) -> dict[str, Any]:
    found: dict[str, Any] = {**client_config(cluster.endpoint)}
    if cluster.endpoint.principal:
        found["tanist.principal"] = cluster.endpoint.principal
    if cluster.allow_small_state:
        found["tanist.allow_small_state"] = True
    return found
