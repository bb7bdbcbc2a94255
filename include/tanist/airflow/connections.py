"""Clusters from Airflow connections: the cluster `west` is the connection `west` of type `kafka`.

    {"conn_type": "kafka", "extra": {"bootstrap.servers": "w1:9092", "security.protocol": "SASL_SSL", ...}}

The extra has librdkafka's keys, as for Airflow's Kafka provider, and two keys of Tanist: `tanist.principal` and
`tanist.allow_small_state`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Connection, Variable
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from tanist.domain.errors import Misconfigured
from tanist.settings import FOUR_EYES, ClusterSettings, Settings, from_connection, is_on

TYPE: Final = "kafka"


def settings() -> Settings:
    """All clusters that Airflow has connections for, each looked up on first use.

    Inside a task Airflow cannot list its connections, so these settings have only names that were used.
    """
    return Settings("Airflow connections, which are asked for by name", _Connections())


def found(name: str, kind: str) -> Connection:
    """The connection of that name. For a missing one Airflow's Spark hook would assume YARN.

    Raises:
        Misconfigured: it does not exist, or we may not read it.
    """
    with _translate_error(name, kind):
        there: Connection = Connection.get(name)
    return there


def exists(name: str) -> bool:
    """Whether Airflow has a connection of that name. Raises Misconfigured: we may not read it."""
    try:
        with _translate_error(name):
            Connection.get(name)
    except Misconfigured as why:
        if isinstance(why.__context__, AirflowNotFoundException):
            return False
        raise
    return True


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
    """The extra of the connection; its secrets are masked in all logs from now on.

    Raises:
        Misconfigured: it does not exist, we may not read it, it has another type, or its extra is not a JSON object.
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


DESTINATIONS: Final = "TANIST_DESTINATIONS"
"""The connection ids of the destination clusters, separated by commas."""
RECONCILE_MIRRORS: Final = "TANIST_RECONCILE_MIRRORS"
"""The mirrors that are reconciled on schedule, `destination/mirror` or `mirror`, separated by commas."""
APPROVERS: Final = "TANIST_APPROVERS"
"""The ids of the Airflow users who may approve a failover, separated by commas."""
METRICS_PORT: Final = "TANIST_METRICS_PORT"
"""The port for metrics of the first destination's fetcher on its triggerer's host; those of the others follow it."""
EVIDENCE: Final = "TANIST_EVIDENCE"
"""The folder for evidence of failovers, shared by all workers."""


def text(name: str) -> str:
    """The value of `name`; empty: not set."""
    return str(os.environ.get(name) or Variable.get(name, default="") or "").strip()


def words(name: str) -> tuple[str, ...]:
    """The comma-separated words of `name` without duplicates, in their order; none if it is not set."""
    return tuple(dict.fromkeys(word for part in text(name).split(",") if (word := part.strip())))


def destinations() -> tuple[str, ...]:
    """The destination clusters: one fetcher runs for each."""
    return words(DESTINATIONS)


def metrics_port(number: int) -> str:
    """The port for metrics of the fetcher of the destination with this number, from 0; empty: it has none.

    What is no number is passed on as it is: the fetcher logs it, and copies without metrics.
    """
    first = text(METRICS_PORT)
    return str(int(first) + number) if first.isdecimal() else first


def approvers() -> tuple[str, ...]:
    """The users who may approve a failover. Raises Misconfigured if there are none."""
    if not (found := words(APPROVERS)):
        raise Misconfigured(
            f"no approver is configured: list the users in {APPROVERS} (environment or Airflow Variable)"
        )
    return found


def four_eyes() -> bool:
    """Whether a user cannot approve their own request. Raises Misconfigured if it is neither on nor off."""
    return is_on(FOUR_EYES, text(FOUR_EYES), unset=True)


def evidence() -> Path:
    """The folder for evidence; `evidence` in Airflow's home by default."""
    return Path(text(EVIDENCE) or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "evidence")).expanduser()
