"""What an Airflow on this machine is told of the clusters of a configuration: its connections and Variables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tanist_testkit.sandbox.airflow.rest import AirflowConnection

if TYPE_CHECKING:
    from tanist.domain.endpoint import Sasl, Tls
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
    endpoint = cluster.endpoint
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(map(str, endpoint.bootstrap)),
        "security.protocol": str(endpoint.security_protocol),
    }
    if endpoint.sasl:
        found |= _sasl(endpoint.sasl)
    if endpoint.tls:
        found |= _tls(endpoint.tls)
    if endpoint.principal:
        found["tanist.principal"] = endpoint.principal
    if cluster.allow_small_state:
        found["tanist.allow_small_state"] = True
    return found


def _sasl(sasl: Sasl) -> dict[str, str]:
    return {
        "sasl.mechanism": str(sasl.mechanism),
        "sasl.username": sasl.username,
        "sasl.password": sasl.password.reveal(),
    }


def _tls(tls: Tls) -> dict[str, str]:
    given = {
        "ssl.ca.location": tls.ca_location,
        "ssl.certificate.location": tls.certificate_location,
        "ssl.key.location": tls.key_location,
        "ssl.key.password": tls.key_password.reveal() if tls.key_password else None,
        "ssl.endpoint.identification.algorithm": None if tls.verify_hostname else "none",
    }
    return {name: value for name, value in given.items() if value is not None}
