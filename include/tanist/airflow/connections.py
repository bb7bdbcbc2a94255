"""Clusters as Airflow knows them: a cluster named `west` is the connection `west` of type `kafka`.

    {"conn_type": "kafka", "extra": {"bootstrap.servers": "w1:9092", "security.protocol": "SASL_SSL", ...}}

The extra is what Airflow's own Kafka provider takes: librdkafka's keys. Two are ours: `tanist.principal` and
`tanist.allow_small_state`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from tanist.domain.errors import Misconfigured
from tanist.settings import ClusterSettings, Settings, from_connection

TYPE: Final = "kafka"


def settings() -> Settings:
    """Every cluster that Airflow knows, each looked up when it is first asked for.

    Inside a task Airflow cannot list its connections, so these settings know no names but those asked for.
    """
    return Settings("Airflow connections, which are asked for by name", _Connections())


def must_be_there(name: str, kind: str) -> None:
    """Whether a connection of another type than ours exists. Of a missing one Airflow's Spark hook makes YARN.

    Raises:
        Misconfigured: there is none, or we may not read it.
    """
    with _translate_error(name, kind):
        Connection.get(name)


class _Connections(Mapping[str, ClusterSettings]):
    def __init__(self) -> None:
        self._known: dict[str, ClusterSettings] = {}

    def __getitem__(self, name: str) -> ClusterSettings:
        if name not in self._known:
            self._known[name] = from_connection(name, _extra(name))
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


async def serve_connection(name: str) -> Mapping[str, Any]:
    """What the connection says, for a trigger to pass on: looked up without blocking its event loop.

    Raises:
        Misconfigured: as for every cluster that is asked for.
    """
    with _translate_error(name):
        found = await Connection.async_get(name)
    _check(name, found)
    masked: Mapping[str, Any] = await found.aextra_dejson()
    return masked


def _extra(name: str) -> Mapping[str, Any]:
    """What the connection says, its secrets masked in every log from here on.

    Raises:
        Misconfigured: there is no such connection, we may not read it, it is of another type, or no JSON object.
    """
    with _translate_error(name):
        found = Connection.get(name)
    _check(name, found)
    masked: Mapping[str, Any] = found.extra_dejson  # reading it is what registers the secrets with the masker
    return masked


@contextmanager
def _translate_error(name: str, kind: str = TYPE) -> Iterator[None]:
    try:
        yield
    except AirflowNotFoundException:
        raise Misconfigured(f"connection {name!r} does not exist: add one of type {kind!r} with that id") from None
    except AirflowSecretsBackendAccessDenied as denied:
        raise Misconfigured(f"connection {name!r} cannot be read: {denied}") from denied


def _check(name: str, found: Connection) -> None:
    if found.conn_type != TYPE:
        raise Misconfigured(f"connection {name!r} is of type {found.conn_type!r}: it must be {TYPE!r}")
    try:
        extra = json.loads(found.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise Misconfigured(f"connection {name!r}: its extra must be a JSON object of librdkafka's settings")
