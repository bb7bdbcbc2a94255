"""An endpoint in librdkafka's configuration keys, which the extra of an Airflow connection has as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tanist.domain.endpoint import Endpoint


def client_config(endpoint: Endpoint) -> dict[str, str]:
    """Where it is and how to log in there, with its secrets in plain text; no key without a value."""
    sasl, tls = endpoint.sasl, endpoint.tls
    found = {
        "bootstrap.servers": endpoint.bootstrap_servers,
        "security.protocol": str(endpoint.security_protocol),
    }
    if sasl:
        found["sasl.mechanisms"] = str(sasl.mechanism)
        found["sasl.username"] = sasl.username
        found["sasl.password"] = sasl.password.reveal()
    if tls:
        given = {
            "ssl.ca.location": tls.ca_location,
            "ssl.certificate.location": tls.certificate_location,
            "ssl.key.location": tls.key_location,
            "ssl.key.password": tls.key_password.reveal() if tls.key_password else None,
            "ssl.endpoint.identification.algorithm": "https" if tls.verify_hostname else "none",
        }
        found |= {name: value for name, value in given.items() if value is not None}
    return found
