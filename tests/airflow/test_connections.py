"""Clusters come from Airflow's connections, and what is wrong with one is a task's one clear error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tanist.airflow import connections
from tanist.airflow.tasks import at_work, translate_errors
from tanist.domain.errors import Misconfigured, Unreachable
from tanist.wiring.registry import ClusterRegistry

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def add(name: str, extra: object, kind: str = "kafka") -> None:
        value: dict[str, Any] = {"conn_type": kind, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(value))

    return add


def reason(name: str) -> str:
    with pytest.raises(Misconfigured) as raised:
        connections.settings().cluster(name)
    return raised.value.reason


def test_a_connection_of_type_kafka_is_a_cluster(connection: Callable[..., None]) -> None:
    """The world opens it by name, as it does one of the configuration file."""
    connection("west", {"bootstrap.servers": "w:9092", "tanist.allow_small_state": True})
    with ClusterRegistry(connections.settings()) as world:
        assert world.cluster("west").allow_small_state
        assert world.connect("west").bootstrap == "w:9092"
        assert world.bootstrap("west") == "w:9092"
        assert world.bootstrap("elsewhere") is None, "not configured here"


def test_whatever_is_wrong_with_a_connection_is_said_with_its_name(connection: Callable[..., None]) -> None:
    """Missing, of another type, no JSON object, a key missing or unknown: each names the connection."""
    assert reason("west") == "connection 'west' does not exist: add one of type 'kafka' with that id"
    connection("west", {}, kind="http")
    assert reason("west") == "connection 'west' is of type 'http': it must be 'kafka'"
    for extra in ([1], "no json"):
        connection("west", extra)
        assert "connection 'west': its extra must be a JSON object" in reason("west")
    connection("west", {})
    assert reason("west") == "connection 'west': bootstrap.servers: missing"
    connection("west", {"bootstrap.servers": "w:1", "group.id": "g"})
    assert reason("west") == "connection 'west': group.id: unknown key"


def test_a_wrong_connection_fails_its_task_at_once(connection: Callable[..., None]) -> None:
    """No retry mends it; the error has the name, the reason and the next step."""
    with pytest.raises(AirflowFailException) as raised, at_work() as task:
        task.registry.connect("west")
    assert str(raised.value).startswith("INVALID_CONFIG: connection 'west' does not exist")
    assert str(raised.value).endswith("(correct it and run the same command again)")


def test_what_may_be_better_later_is_left_to_the_retries_of_the_task() -> None:
    """A cluster that does not answer is no reason to give up."""
    with pytest.raises(AirflowException) as raised, translate_errors():
        raise Unreachable("west does not answer")
    assert not isinstance(raised.value, AirflowFailException)
    assert str(raised.value).startswith("UNREACHABLE: west does not answer")


def test_secrets_of_a_connection_are_masked(connection: Callable[..., None]) -> None:
    """Whoever logs one after the connection was read logs asterisks."""
    from airflow.sdk._shared.secrets_masker import redact  # noqa: PLC0415 -- the private name is what tasks' logs use

    extra = {
        "bootstrap.servers": "w:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mirror",
        "sasl.password": "geheim-4711",
    }
    connection("west", extra)
    found = connections.settings().cluster("west")
    assert found.endpoint.sasl
    assert found.endpoint.sasl.password.reveal() == "geheim-4711"
    assert "geheim-4711" not in repr(found)
    assert redact("with geheim-4711 in it") == "with *** in it"
