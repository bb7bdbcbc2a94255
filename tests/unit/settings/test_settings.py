"""A wrong configuration is told at once, whole, and without its secrets."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tanist.domain.endpoint import Address, SaslMechanism, Secret, SecurityProtocol
from tanist.domain.errors import Misconfigured
from tanist.settings import KEYS, connection, from_connection, from_flags, load
from tanist_testkit.sandbox.airflow.connections import connections


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "ca.pem").write_text("ca")
    return tmp_path / "tanist.toml"


SECURE = """
[clusters.east]
bootstrap_servers = "e1:9092, [::1]:9093,e3"
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_username = "tanist"
sasl_password = "pre-${EAST}"
ssl_ca_location = "ca.pem"
allow_small_state = true
"""


def problems(file: Path, text: str, **environ: str) -> str:
    file.write_text(text)
    with pytest.raises(Misconfigured) as raised:
        load(file, environ)
    return raised.value.reason


def test_a_whole_section_becomes_an_endpoint(file: Path) -> None:
    file.write_text(SECURE)
    settings = load(file, {"EAST": "secret"})
    endpoint = settings.endpoint("east")
    assert endpoint.bootstrap == (Address("e1", 9092), Address("::1", 9093), Address("e3", 9092))
    assert endpoint.security_protocol is SecurityProtocol.SASL_SSL
    assert endpoint.sasl
    assert endpoint.sasl.mechanism is SaslMechanism.SCRAM_SHA_512
    assert endpoint.sasl.password == Secret("pre-secret")
    assert endpoint.tls
    assert endpoint.tls.ca_location == str(file.parent / "ca.pem"), "relative to the file, not to where we stand"
    assert endpoint.tls.verify_hostname
    assert settings.cluster("east").allow_small_state
    assert "secret" not in repr(settings)


def test_a_typing_error_is_met_with_the_key_that_was_meant(file: Path) -> None:
    reported = problems(file, '[clusters.east]\nbootstrap_server = "a:1"\n')
    assert "[clusters.east] bootstrap_server: unknown key, did you mean 'bootstrap_servers'?" in reported
    assert str(file) in reported


def test_everything_that_is_wrong_is_told_at_once(file: Path) -> None:
    reported = problems(
        file,
        """
        cluster = 1
        [clusters.east]
        bootstrap_servers = "a:99999,b c"
        sasl_username = "x"
        [clusters.west]
        security_protocol = "SASL_SSL"
        sasl_mechanism = "GSSAPI"
        sasl_password = "${NOT_SET}"
        ssl_ca_location = "missing.pem"
        ssl_key_location = "ca.pem"
        ssl_endpoint_identification_algorithm = "http"
        allow_small_state = "yes"
        """,
    )
    for each in (
        "'cluster' is not known, did you mean 'clusters'?",
        "99999 is not a valid port",
        "'b c' is not HOST:PORT",
        "[clusters.east] sasl_username: security_protocol PLAINTEXT does not use SASL",
        "[clusters.west] bootstrap_servers: missing",
        "'GSSAPI' is not one of PLAIN",
        "the environment variable NOT_SET is not set",
        "sasl_username: missing",
        "missing.pem",
        "set both or neither",
        "'http' is not one of https, none",
        "allow_small_state: must be true or false",
    ):
        assert each in reported, each


def test_an_unset_variable_is_never_an_empty_password(file: Path) -> None:
    assert "EAST is not set" in problems(file, SECURE)
    assert "EAST is not set" in problems(file, SECURE, EAST="")


def test_a_dollar_can_be_written(file: Path) -> None:
    file.write_text(SECURE.replace("pre-${EAST}", "$${x}$y"))
    sasl = load(file, {}).endpoint("east").sasl
    assert sasl
    assert sasl.password.reveal() == "${x}$y"


def test_a_secret_can_lie_in_a_file(file: Path) -> None:
    (file.parent / "pw").write_text("from-file\n")
    file.write_text(SECURE.replace('sasl_password = "pre-${EAST}"', 'sasl_password_file = "pw"'))
    sasl = load(file, {}).endpoint("east").sasl
    assert sasl
    assert sasl.password.reveal() == "from-file"


def test_secret_files_that_cannot_serve_are_told(file: Path) -> None:
    (file.parent / "pw").write_text("\n")
    reported = problems(file, SECURE + 'sasl_password_file = "pw"\nssl_key_password_file = "none"\n', EAST="x")
    assert "sasl_password is also set" in reported
    assert "is empty" in reported
    assert "none cannot be read" in reported


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/dev/zero", "it is longer than 65536 bytes"),
        ("sparse", "it is longer than 65536 bytes"),
        ("chatty", "it is longer than 65536 bytes"),
        ("silent", "it was not complete within 2 s"),
        ("latin", "it is not UTF-8 text"),
        (".", "Is a directory"),
    ],
)
def test_an_endless_secret_file_is_one_error_within_a_moment(file: Path, name: str, why: str) -> None:
    """A device, ten gigabytes, pipes that nobody writes to or nobody ends: named, with the limit, without content."""
    folder = file.parent
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(10 << 30)
    (folder / "latin").write_bytes(b"top\xffsecret")
    for pipe in ("chatty", "silent"):
        os.mkfifo(folder / pipe)
    with subprocess.Popen(["sh", "-c", "exec cat /dev/zero > chatty"], cwd=folder) as chatter:
        began = time.monotonic()
        reported = problems(file, SECURE.replace('sasl_password = "pre-${EAST}"', f'sasl_password_file = "{name}"'))
        took = time.monotonic() - began
        chatter.kill()
    assert reported == f"{file}: [clusters.east] sasl_password_file: {folder / name} cannot be read: {why}"
    assert took < 3


def test_a_secret_comes_through_a_pipe_whose_writer_is_slow(file: Path) -> None:
    """As a shell's `<(vault read ...)` gives it."""
    os.mkfifo(file.parent / "pw")
    file.write_text(SECURE.replace('sasl_password = "pre-${EAST}"', 'sasl_password_file = "pw"'))
    with subprocess.Popen(["sh", "-c", "sleep 0.3; echo from-pipe > pw"], cwd=file.parent):
        sasl = load(file, {}).endpoint("east").sasl
    assert sasl
    assert sasl.password.reveal() == "from-pipe"


def test_an_endless_configuration_or_certificate_is_one_error_within_a_moment(file: Path) -> None:
    with pytest.raises(Misconfigured, match="/dev/zero cannot be read: it is longer than 1048576 bytes"):
        load(Path("/dev/zero"), {})
    with pytest.raises(Misconfigured, match="/dev/zero cannot be read: it is longer than 1048576 bytes"):
        from_flags("a:1", Path("/dev/zero"))
    reported = problems(file, SECURE.replace('"ca.pem"', '"/dev/zero"'), EAST="x")
    assert reported.endswith("ssl_ca_location: /dev/zero is not a regular file")


def test_a_secret_of_the_wrong_type_is_not_shown(file: Path) -> None:
    reported = problems(file, SECURE.replace('"pre-${EAST}"', "12345"))
    assert "sasl_password: must be a string" in reported
    assert "12345" not in reported


def test_an_unknown_cluster_is_met_with_the_known_ones(file: Path) -> None:
    file.write_text(SECURE)
    with pytest.raises(Misconfigured, match="no cluster is named 'eats', did you mean 'east'") as raised:
        load(file, {"EAST": "x"}).endpoint("eats")
    assert str(file) in raised.value.reason


def test_a_file_that_was_named_must_be_there(file: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be read"):
        load(file, {})
    with pytest.raises(Misconfigured, match="cannot be read"):
        load(None, {"TANIST_CONFIG": str(file)})
    assert "Expected ']'" in problems(file, "[clusters")


def test_without_any_file_there_are_no_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misconfigured, match="no --config"):
        load(None, {}).endpoint("east")
    (tmp_path / "tanist.toml").write_text('[clusters.west]\nbootstrap_servers = ["a:1", "b:2"]\n')
    assert len(load(None, {}).endpoint("west").bootstrap) == 2


def test_the_flags_of_the_kafka_tools_are_understood(tmp_path: Path) -> None:
    command_config = tmp_path / "client.properties"
    command_config.write_text(
        "# a comment\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism = PLAIN\n"
        "client.id=ignored\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '  username="admin" password="s3;=\\"t";\n'
    )
    endpoint = from_flags("a:1,b:2", command_config)
    assert endpoint.bootstrap == (Address("a", 1), Address("b", 2))
    assert endpoint.sasl
    assert (endpoint.sasl.username, endpoint.sasl.password.reveal()) == ("admin", 's3;="t')
    assert from_flags("a:1").security_protocol is SecurityProtocol.PLAINTEXT


def test_a_java_key_store_is_refused_by_name(tmp_path: Path) -> None:
    command_config = tmp_path / "client.properties"
    command_config.write_text("security.protocol=SSL\nssl.truststore.location=/x.jks\n")
    with pytest.raises(Misconfigured, match="only PEM"):
        from_flags("a:1", command_config)


CERTIFICATE = """
[clusters.east]
bootstrap_servers = "e1:9093"
principal = "User:CN=tanist,O=Example"
"""


def test_a_principal_is_one_name_of_one_login(file: Path) -> None:
    """One for everybody would close topics to all; a line break would forge what others read."""
    file.write_text(CERTIFICATE)
    assert load(file, {}).endpoint("east").principal == "User:CN=tanist,O=Example"
    assert from_connection("west", {**CONNECTION, "tanist.principal": "User:t"}).endpoint.principal == "User:t"
    for wrong in ("tanist", "User:", "User:*", ":t", "User: t", "User:t ", "User:a\\nb"):
        reported = problems(file, CERTIFICATE.replace("User:CN=tanist,O=Example", wrong))
        assert "is not Type:name of one login" in reported, wrong
    with pytest.raises(Misconfigured, match=r"tanist\.principal: 'User:\*' is not Type:name"):
        from_connection("west", {**CONNECTION, "tanist.principal": "User:*"})


CONNECTION = {
    "bootstrap.servers": "w1:9092,w2",
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "tanist",
    "sasl.password": "${HOME}",
    "tanist.allow_small_state": True,
}


def test_a_connection_is_read_like_a_section_of_the_file() -> None:
    """The same words with dots; a dollar in it is a dollar: a connection's editor must not read our environment."""
    found = from_connection("west", CONNECTION)
    assert found.endpoint.name == "west"
    assert found.endpoint.bootstrap == (Address("w1", 9092), Address("w2", 9092))
    assert found.endpoint.security_protocol is SecurityProtocol.SASL_SSL
    assert found.endpoint.sasl
    assert found.endpoint.sasl.mechanism is SaslMechanism.SCRAM_SHA_512
    assert found.endpoint.sasl.password.reveal() == "${HOME}"
    assert found.allow_small_state


def test_everything_that_is_wrong_in_a_connection_is_told_at_once_in_its_own_words() -> None:
    """A key of the file in place of the connection's is met with the one that was meant; no secret is shown."""
    extra = CONNECTION | {
        "sasl.password": 12345,
        "group.id": "g",
        "security_protocol": "SSL",
        "ssl.ca.location": "none",
    }
    del extra["bootstrap.servers"]
    with pytest.raises(Misconfigured) as raised:
        from_connection("west", extra)
    reported = raised.value.reason
    for each in (
        "connection 'west' has 5 problems",
        "group.id: unknown key",
        "security_protocol: unknown key, did you mean 'security.protocol'?",
        "bootstrap.servers: missing",
        "sasl.password: must be a string",
        "ssl.ca.location: none does not exist",
    ):
        assert each in reported, each
    assert "12345" not in reported


def test_the_words_of_a_connection_and_of_the_file_are_the_same() -> None:
    """Whatever connects in the file can be said in a connection."""
    assert set(connection.section(dict.fromkeys(connection.KEYS))) == {k for k in KEYS if not k.endswith("_file")}


def test_what_an_orchestrator_is_told_of_a_cluster_leads_to_the_same_one_as_the_same_login(file: Path) -> None:
    file.write_text(SECURE + 'principal = "User:t"\n')
    settings = load(file, {"EAST": "secret"})
    (reported, *_) = connections(settings)
    assert from_connection("east", reported.extra) == settings.cluster("east")
