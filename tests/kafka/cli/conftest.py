"""The command line in this process, on real clusters, with a configuration of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.cli.main import main
from tests.conftest import librdkafka
from tests.quoted import left_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.cluster import SandboxCluster


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """Names on the error lines; every line of standard error that is none is a word for people."""
        return [line.split(":")[1].strip() for line in self.err.splitlines() if line.startswith("error:")]

    @property
    def items(self) -> list[dict[str, Any]]:
        found = json.loads(self.out)
        assert set(found) - {"next"} == {"schema_version", "as_of_ms", "items", "errors"}
        return list(found["items"])


class Tanist(Protocol):
    def __call__(self, *arguments: str) -> Answer:
        """Run `tanist` with `arguments`."""


@pytest.fixture
def tanist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tanist:
    monkeypatch.delenv("TANIST_DESTINATION", raising=False)

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["tanist", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        caught = capsys.readouterr()
        assert "Traceback" not in caught.err
        assert left_in(caught.out + caught.err) == []
        return Answer(int(ended.value.code or 0), caught.out, caught.err)

    return run


def section(
    cluster: SandboxCluster, user: str | None = None, password: str | None = None, *, through: str | None = None
) -> str:
    """How a tanist.toml names `cluster`. `through`: other addresses of it than its own."""
    lines = [
        f"[clusters.{cluster.name}]",
        f'bootstrap_servers = "{through or cluster.bootstrap_servers}"',
        "allow_small_state = true",
    ]
    tls = cluster.endpoint_for(user).tls if user else None
    if tls and cluster.spec.client_certificates:
        lines += [
            'security_protocol = "SSL"',
            f'ssl_ca_location = "{tls.ca_location}"',
            f'ssl_certificate_location = "{tls.certificate_location}"',
            f'ssl_key_location = "{tls.key_location}"',
        ]
    elif user:
        secret = password or cluster.password_file(user).read_text()
        lines += [
            *([f'ssl_ca_location = "{tls.ca_location}"'] if tls else []),
            f'security_protocol = "{"SASL_SSL" if tls else "SASL_PLAINTEXT"}"',
            'sasl_mechanism = "SCRAM-SHA-512"',
            f'sasl_username = "{user}"',
            f'sasl_password = "{secret}"',
        ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def configured(clusters: Mapping[str, SandboxCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tanist.toml that names east and west."""
    file = tmp_path / "tanist.toml"
    file.write_text("".join(section(cluster) for cluster in clusters.values()))
    monkeypatch.setenv("TANIST_CONFIG", str(file))
    return file


@dataclass(frozen=True)
class Broker:
    """What a test does to a cluster by itself, as an ordinary client."""

    admin: AdminClient

    def topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        new = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in configs.items()})
        for future in self.admin.create_topics([new]).values():
            future.result(10)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=10).topics)


@pytest.fixture
def east(clusters: Mapping[str, SandboxCluster]) -> Broker:
    return Broker(AdminClient(librdkafka(clusters["east"].endpoint())))


@pytest.fixture
def west(clusters: Mapping[str, SandboxCluster]) -> Broker:
    return Broker(AdminClient(librdkafka(clusters["west"].endpoint())))
