"""The configuration file: names of clusters to endpoints.

    [clusters.east]
    bootstrap_servers = "east-1:9092,east-2:9092"
    security_protocol = "SASL_SSL"
    sasl_mechanism = "SCRAM-SHA-512"
    sasl_username = "tanist"
    sasl_password = "${EAST_PASSWORD}"        # or sasl_password_file = "east.password"
    ssl_ca_location = "ca.pem"                # relative to this file
    principal = "User:CN=tanist,O=Example"    # where the brokers map names (ssl.principal.mapping.rules)

Keys are librdkafka's, with underscores for dots. All problems are reported at once.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism, Secret, SecurityProtocol, Tls
from tanist.domain.errors import Misconfigured
from tanist.settings import connection, java
from tanist.settings.bounded import CONFIGURATION_BYTES, SECRET_BYTES, bounded_text, pem_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from enum import StrEnum

_E = TypeVar("_E", bound="StrEnum")

DEFAULT_FILE: Final = Path("tanist.toml")
VARIABLE: Final = "TANIST_CONFIG"
DEFAULT_PORT: Final = 9092

FOUR_EYES: Final = "TANIST_FOUR_EYES"
"""Whether nobody approves what they ask for: on or off."""
_SWITCH: Final = {"on": True, "off": False}

_SECRETS: Final = ("sasl_password", "ssl_key_password")
_SASL: Final = ("sasl_mechanism", "sasl_username", "sasl_password")
_FILES: Final = ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location")
_TEXTS: Final = (
    "bootstrap_servers",
    "security_protocol",
    *_SASL,
    *_FILES,
    "ssl_key_password",
    "ssl_endpoint_identification_algorithm",
    "principal",
)
_ALIASES: Final = {"sasl_mechanisms": "sasl_mechanism"}
KEYS: Final = (*_TEXTS, *_ALIASES, *(f"{name}_file" for name in _SECRETS), "allow_small_state")
"""The keys of a `[clusters.NAME]` section."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One configured cluster: its endpoint, and whether its state topics may be small."""

    endpoint: Endpoint
    allow_small_state: bool = False
    """Whether the state topics may have fewer than three replicas, or a minimum ISR below two."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The clusters of the configuration, by name. `origin`: the name of the file in messages."""

    origin: str
    clusters: Mapping[str, ClusterSettings] = field(default_factory=dict)

    def cluster(self, name: str) -> ClusterSettings:
        """The cluster of that name.

        Raises:
            Misconfigured: there is no such cluster; the message names the configured ones.
        """
        if found := self.clusters.get(name):
            return found
        known = ", ".join(sorted(self.clusters)) or "none"
        raise Misconfigured(f"no cluster is named {name!r}{_suggestion(name, self.clusters)}; {self.origin}: {known}")

    def endpoint(self, name: str) -> Endpoint:
        """How to reach the cluster of that name. Raises as `cluster`."""
        return self.cluster(name).endpoint


def load(config: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings in `config`, else in `$TANIST_CONFIG`, else in ./tanist.toml, else without clusters.

    Raises:
        Misconfigured: lists all problems of the file, or it cannot be read.
    """
    named = config or (Path(environ[VARIABLE]) if environ.get(VARIABLE) else None)
    if named is None and not DEFAULT_FILE.exists():
        return Settings(f"no {DEFAULT_FILE} here, no --config and no ${VARIABLE}")
    file = named or DEFAULT_FILE
    return _Reading(str(file), environ, beside=file.parent).settings(_parsed(file))


def is_on(name: str, value: str, *, unset: bool) -> bool:
    """What the `value` of a setting means that is on or off; `unset`: what holds where it is empty.

    Raises:
        Misconfigured: it is neither on nor off.
    """
    if value and value not in _SWITCH:
        raise Misconfigured(f"{name} is {value!r}: it must be on or off")
    return _SWITCH.get(value, unset)


def from_flags(bootstrap_server: str, command_config: Path | None = None) -> Endpoint:
    """The endpoint of `--bootstrap-server` and `--command-config`, which mean what they mean to kafka-*.sh.

    Raises:
        Misconfigured: lists all problems of both.
    """
    origin = command_config or Path("--bootstrap-server")
    reading = _Reading(str(origin), {}, beside=origin.parent)
    given = java.properties(command_config) if command_config else {}
    for problem in java.problems(given):
        reading.problem(problem)
    section = {**java.section(given), "bootstrap_servers": bootstrap_server}
    found = reading.endpoint(bootstrap_server, section)
    reading.finish()
    return found


def from_connection(name: str, extra: Mapping[str, Any]) -> ClusterSettings:
    """The cluster of an Airflow connection: `extra` has librdkafka's keys, with dots.

    `${VARIABLE}` is not replaced: a user who may edit connections must not read the environment of a worker.

    Raises:
        Misconfigured: lists all problems.
    """
    reading = _Reading(f"connection {name!r}", None, spelled=connection.spelled)
    for key in connection.unknown(extra):
        reading.problem(f"{key}: unknown key{_suggestion(key, connection.KEYS)}")
    found = reading.cluster(name, connection.section(extra))
    reading.finish()
    return found


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(bounded_text(file, CONFIGURATION_BYTES))
    except ValueError as error:  # not TOML
        raise Misconfigured(f"{file}: {error}") from error


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


class _Reading:
    """One source being read: collects every problem, with section and key, and raises them together.

    `environ` None: `${VARIABLE}` is not replaced. `beside`: the folder of relative file names.
    """

    def __init__(
        self,
        origin: str,
        environ: Mapping[str, str] | None,
        *,
        beside: Path | None = None,
        spelled: Callable[[str], str] = str,
    ) -> None:
        self._origin, self._environ, self._beginning, self._spelled = origin, environ, beside or Path(), spelled
        self._problems: list[str] = []
        self._where = ""

    def settings(self, parsed: dict[str, Any]) -> Settings:
        for key in (key for key in parsed if key != "clusters"):
            self.problem(f"{key!r} is not known{_suggestion(key, ['clusters'])}")
        sections = parsed.get("clusters", {})
        if not isinstance(sections, dict):
            self.problem("'clusters' must be sections: [clusters.NAME]")
            sections = {}
        clusters = {name: self._section(name, section) for name, section in sections.items()}
        self.finish()
        return Settings(self._origin, MappingProxyType(clusters))

    def problem(self, text: str) -> None:
        self._problems.append(f"{self._where}{self._spelled(text)}")

    def finish(self) -> None:
        """Raise Misconfigured if there was any problem."""
        if len(self._problems) == 1:
            raise Misconfigured(f"{self._origin}: {self._problems[0]}")
        if self._problems:
            lines = "".join(f"\n  {problem}" for problem in self._problems)
            raise Misconfigured(f"{self._origin} has {len(self._problems)} problems:{lines}")

    def _section(self, name: str, section: Any) -> ClusterSettings:
        self._where = f"[clusters.{name}] "
        if not isinstance(section, dict):
            self.problem("is not a section")
            section = {}
        for key in (key for key in section if key not in KEYS):
            self.problem(f"{key}: unknown key{_suggestion(key, KEYS)}")
        found = self.cluster(name, section)
        self._where = ""
        return found

    def cluster(self, name: str, section: Mapping[str, Any]) -> ClusterSettings:
        small = section.get("allow_small_state", False)
        if not isinstance(small, bool):
            self.problem("allow_small_state: must be true or false")
        return ClusterSettings(self.endpoint(name, section), allow_small_state=small is True)

    def endpoint(self, name: str, section: Mapping[str, Any]) -> Endpoint:
        texts = [key for key in (*_TEXTS, *_ALIASES) if key in section]
        values = {_ALIASES.get(key, key): self._text(key, section[key]) for key in texts}
        values |= self._secret_files(section)
        bootstrap = self._addresses(values.get("bootstrap_servers", ""))
        principal = self._principal(values)
        protocol = self._one_of(SecurityProtocol, values, "security_protocol", SecurityProtocol.PLAINTEXT)
        if protocol is None:
            return Endpoint(name=name, bootstrap=bootstrap)
        tls = self._tls(values) if self._belongs(protocol, "SSL", "ssl_", values) else None
        sasl = self._sasl(values) if self._belongs(protocol, "SASL", "sasl_", values) else None
        return Endpoint(name=name, bootstrap=bootstrap, tls=tls, sasl=sasl, principal=principal)

    def _principal(self, values: Mapping[str, str]) -> str | None:
        """The principal of the login. `User:*` is a problem: a DENY for it would block every client."""
        name = values.get("principal")
        if name is None or (_PRINCIPAL.fullmatch(name) and name.isprintable() and not name.endswith(":*")):
            return name
        self.problem(f"principal: {name[:80]!r} is not Type:name of one login, for instance User:tanist")
        return None

    def _text(self, key: str, value: Any) -> str:
        if isinstance(value, list) and key == "bootstrap_servers" and all(isinstance(v, str) for v in value):
            value = ",".join(value)
        if not isinstance(value, str):
            self.problem(f"{key}: must be a string")
            return ""
        if (environ := self._environ) is None:
            return value
        return _VARIABLE.sub(lambda found: self._variable(key, found, environ), value)

    def _variable(self, key: str, found: re.Match[str], environ: Mapping[str, str]) -> str:
        if found["escaped"]:
            return "${"
        value = environ.get(found["name"], "")
        if not value:
            self.problem(f"{key}: the environment variable {found['name']} is not set")
        return value

    def _secret_files(self, section: Mapping[str, Any]) -> dict[str, str]:
        return {
            name: self._secret_file(f"{name}_file", section[f"{name}_file"], twice=name in section)
            for name in _SECRETS
            if f"{name}_file" in section
        }

    def _secret_file(self, key: str, value: Any, *, twice: bool) -> str:
        if twice:
            self.problem(f"{key}: {key.removesuffix('_file')} is also set; use only one of them")
        file = self._beside(self._text(key, value))
        try:
            secret = bounded_text(file, SECRET_BYTES).rstrip("\r\n")
        except Misconfigured as error:
            self.problem(f"{key}: {error.reason}")
            return ""
        if not secret:
            self.problem(f"{key}: {file} is empty")
        return secret

    def _beside(self, name: str) -> Path:
        return self._beginning / Path(name).expanduser()

    def _addresses(self, servers: str) -> tuple[Address, ...]:
        found = tuple(self._address(server.strip()) for server in servers.split(",") if server.strip())
        if not found:
            self.problem("bootstrap_servers: missing")
        return found

    def _address(self, server: str) -> Address:
        host, port = server, str(DEFAULT_PORT)
        if match := _ADDRESS.fullmatch(server):
            host, port = match["v6"] or match["host"], match["port"] or port
        else:
            self.problem(f"bootstrap_servers: {server!r} is not HOST:PORT")
        number = int(port)
        if not 0 < number < 1 << 16:
            self.problem(f"bootstrap_servers: {server!r}: {number} is not a valid port")
        return Address(host, number)

    def _one_of(self, kind: type[_E], values: Mapping[str, str], key: str, default: _E) -> _E | None:
        if key not in values:
            return default
        try:
            return kind(values[key].upper())
        except ValueError:
            self.problem(f"{key}: {values[key]!r} is not one of {', '.join(kind)}")
            return None

    def _belongs(self, protocol: SecurityProtocol, part: str, prefix: str, values: Mapping[str, str]) -> bool:
        """Whether `protocol` uses these keys (TLS, SASL); keys that would be ignored silently are a problem."""
        if part in protocol.split("_"):
            return True
        if given := sorted(key for key in values if key.startswith(prefix)):
            self.problem(f"{', '.join(given)}: security_protocol {protocol} does not use {part}")
        return False

    def _sasl(self, values: Mapping[str, str]) -> Sasl:
        for key in _SASL:
            if key not in values:
                self.problem(f"{key}: missing, but required by security_protocol")
        return Sasl(
            mechanism=self._one_of(SaslMechanism, values, "sasl_mechanism", SaslMechanism.PLAIN) or SaslMechanism.PLAIN,
            username=values.get("sasl_username", ""),
            password=Secret(values.get("sasl_password", "")),
        )

    def _tls(self, values: Mapping[str, str]) -> Tls:
        files = {key: self._existing(key, values[key]) for key in _FILES if key in values}
        if ("ssl_certificate_location" in files) != ("ssl_key_location" in files):
            self.problem("ssl_certificate_location and ssl_key_location: set both or neither")
        algorithm = values.get("ssl_endpoint_identification_algorithm", "https").lower()
        if algorithm not in {"https", "none", ""}:
            self.problem(f"ssl_endpoint_identification_algorithm: {algorithm!r} is not one of https, none")
        return Tls(
            ca_location=files.get("ssl_ca_location"),
            certificate_location=files.get("ssl_certificate_location"),
            key_location=files.get("ssl_key_location"),
            key_password=Secret(values["ssl_key_password"]) if "ssl_key_password" in values else None,
            verify_hostname=algorithm == "https",
        )

    def _existing(self, key: str, name: str) -> str:
        file = self._beside(name)
        if problem := pem_problem(file):
            self.problem(f"{key}: {problem}")
        return str(file)


_VARIABLE: Final = re.compile(r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_PRINCIPAL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*:\S(.*\S)?")
_ADDRESS: Final = re.compile(r"(\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:\[\]/]+))(:(?P<port>\d{1,6}))?")
