"""The property files of Kafka's own command line tools (`--command-config`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tanist.settings.bounded import CONFIGURATION_BYTES, bounded_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_KEYS: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "ssl.truststore.location": "ssl_ca_location",
    "ssl.key.password": "ssl_key_password",
    "ssl.endpoint.identification.algorithm": "ssl_endpoint_identification_algorithm",
}
_JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


def properties(file: Path) -> dict[str, str]:
    """The pairs of a property file, continued lines joined. Raises Misconfigured if the file cannot be read."""
    lines = bounded_text(file, CONFIGURATION_BYTES).replace("\\\n", "").splitlines()
    pairs = (
        re.split(r"\s*[=:]\s*", line.strip(), maxsplit=1) for line in lines if line.strip()[:1] not in {"", "#", "!"}
    )
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def section(of: Mapping[str, str]) -> dict[str, str]:
    """The properties with librdkafka's keys. Others are ignored, as by the Java tools."""
    found = {ours: of[theirs] for theirs, ours in _KEYS.items() if theirs in of}
    options = dict(_JAAS_OPTION.findall(of.get("sasl.jaas.config", "")))
    for name in options.keys() & {"username", "password"}:
        found[f"sasl_{name}"] = re.sub(r"\\(.)", r"\1", options[name])
    if store := of.get("ssl.keystore.location"):
        found |= {"ssl_certificate_location": store, "ssl_key_location": store}
    return found


def problems(of: Mapping[str, str]) -> list[str]:
    """Settings that the Java tools support and Tanist does not."""
    stores = [name for name in ("truststore", "keystore") if f"ssl.{name}.location" in of]
    return [
        f"ssl.{name}.type: only PEM is supported; convert the Java key store"
        for name in stores
        if of.get(f"ssl.{name}.type") != "PEM"
    ]
