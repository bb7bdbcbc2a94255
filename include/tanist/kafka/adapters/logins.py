"""The principal of a login, as far as the configuration determines it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tanist.domain.logins import USER, Login, Origin
from tanist.kafka.protocol import certificates

if TYPE_CHECKING:
    from tanist.domain.endpoint import Endpoint


def login_of(endpoint: Endpoint) -> Login:
    """The setting; else the SASL user name; else the subject of the client certificate, as it is in its file now.

    Without credentials brokers call every client ANONYMOUS, so there is no principal of this login.
    """
    if endpoint.principal:
        return Login(endpoint.principal, Origin.SETTING)
    if endpoint.sasl:
        return Login(f"{USER}{endpoint.sasl.username}", Origin.SASL)
    if endpoint.tls and endpoint.tls.certificate_location:
        subject = _subject(Path(endpoint.tls.certificate_location))
        return Login(f"{USER}{subject}", Origin.CERTIFICATE) if subject else Login(None, Origin.NOWHERE)
    return Login(None, Origin.NOWHERE)


def _subject(file: Path) -> str | None:
    try:
        return certificates.subject(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
