"""How to connect to a cluster. Secrets never appear in output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Secret:
    """A text that `repr`, f-strings, logs and JSON never show; only `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def reveal(self) -> str:
        """The text itself; call it only to send it."""
        return self._text


class SecurityProtocol(StrEnum):
    PLAINTEXT, SSL = "PLAINTEXT", "SSL"
    SASL_PLAINTEXT, SASL_SSL = "SASL_PLAINTEXT", "SASL_SSL"


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    mechanism: SaslMechanism
    username: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """File names for librdkafka's `ssl.*` keys; None: the platform's trust store, no client key."""

    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: Secret | None = None
    verify_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One cluster of the configuration. `tls` is None for a plaintext listener, `sasl` without a login.

    `principal`: our principal at its authorizer, if configured: no Kafka API returns one's own principal.
    """

    name: str
    bootstrap: tuple[Address, ...]
    tls: Tls | None = None
    sasl: Sasl | None = None
    principal: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,...`, as clients and the tools of Kafka take it."""
        return ",".join(map(str, self.bootstrap))

    @property
    def security_protocol(self) -> SecurityProtocol:
        if self.sasl is None:
            return SecurityProtocol.PLAINTEXT if self.tls is None else SecurityProtocol.SSL
        return SecurityProtocol.SASL_PLAINTEXT if self.tls is None else SecurityProtocol.SASL_SSL
