"""Airflow connections: librdkafka's own keys, with dots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanisms",
    "sasl.username": "sasl_username",
    "sasl.password": "sasl_password",
    "ssl.ca.location": "ssl_ca_location",
    "ssl.certificate.location": "ssl_certificate_location",
    "ssl.key.location": "ssl_key_location",
    "ssl.key.password": "ssl_key_password",
    "ssl.endpoint.identification.algorithm": "ssl_endpoint_identification_algorithm",
    "tanist.principal": "principal",
    "tanist.allow_small_state": "allow_small_state",
}
KEYS: Final = tuple(_KEYS)
"""The keys of a connection. Those that begin with `tanist.` are Tanist's; the others are librdkafka's."""

_SPELLINGS: Final = {ours: theirs for theirs, ours in _KEYS.items()}
_OURS: Final = re.compile(
    r"\b(" + "|".join(sorted(_SPELLINGS, key=len, reverse=True)) + r")\b(?!: unknown)"
)  # a key that was met is quoted


def section(of: Mapping[str, Any]) -> dict[str, Any]:
    """A connection with the keys of the configuration file."""
    return {ours: of[theirs] for theirs, ours in _KEYS.items() if theirs in of}


def unknown(of: Mapping[str, Any]) -> list[str]:
    """Keys that would be ignored silently."""
    return sorted(key for key in of if key not in _KEYS)


def spelled(text: str) -> str:
    """A problem of the configuration file, reworded with the keys of a connection."""
    return _OURS.sub(lambda found: _SPELLINGS[found[0]], text)
