"""SASL over Kafka's own requests: SaslHandshake v1, then SaslAuthenticate v1 until both sides are content (KIP-152)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.broker_errors import IllegalSaslState, UnsupportedSaslMechanism
from tanist.domain.endpoint import SaslMechanism
from tanist.domain.errors import AuthenticationFailed, WrongListener
from tanist.kafka.protocol.codes import NONE
from tanist.kafka.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest, get_sasl_mechanism

if TYPE_CHECKING:
    from typing import Any

    from tanist.domain.endpoint import Sasl
    from tanist.kafka.wire.messages import ApiMessage, Conversation
    from tanist.ports.clock import Deadline

_VERSION: Final = 1


class Caller(Protocol):
    """What a login needs of a connection."""

    @property
    def peer(self) -> str: ...
    def call(self, request: ApiMessage, by: Deadline) -> Any: ...


def log_in(connection: Caller, sasl: Sasl, by: Deadline) -> int:
    """Log in, or log in again on the same socket (KIP-368). Returns the session's lifetime in ms; 0: for ever.

    Raises:
        AuthenticationFailed: user, password or mechanism are refused, or the server does not know the password either.
        WrongListener: this listener has no login.
    """
    _agree(connection, sasl, by)
    conversation = _conversation(sasl)
    lifetime = 0
    while not conversation.is_done():
        request = SaslAuthenticateRequest(auth_bytes=conversation.auth_bytes(), version=_VERSION)
        answer = connection.call(request, by)
        if answer.error_code != NONE:
            raise AuthenticationFailed(f"{connection.peer}: {sasl.username!r}: {answer.error_message or 'refused'}")
        lifetime = answer.session_lifetime_ms
        _take_in(conversation, answer.auth_bytes, f"{connection.peer}: {sasl.username!r}")
    return lifetime


def _agree(connection: Caller, sasl: Sasl, by: Deadline) -> None:
    answer = connection.call(SaslHandshakeRequest(mechanism=sasl.mechanism.value, version=_VERSION), by)
    match answer.error_code:
        case IllegalSaslState.code:
            raise WrongListener(f"{connection.peer}: this listener does not use SASL")
        case UnsupportedSaslMechanism.code:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(f"{connection.peer}: {sasl.mechanism} is not offered; offered are {offered}")
        case code if code != NONE:
            raise AuthenticationFailed(f"{connection.peer}: the login was refused with error {code}")


def _conversation(sasl: Sasl) -> Conversation:
    scram = sasl.mechanism is not SaslMechanism.PLAIN
    return get_sasl_mechanism(sasl.mechanism.value)(
        sasl_mechanism=sasl.mechanism.value,
        sasl_plain_username=_saslname(sasl.username) if scram else sasl.username,
        sasl_plain_password=sasl.password.reveal(),
    )


def _saslname(username: str) -> str:
    """RFC 5802, section 5.1; kafka-python leaves it to us."""
    return username.replace("=", "=3D").replace(",", "=2C")


def _take_in(conversation: Conversation, token: bytes, who: str) -> None:
    try:
        conversation.receive(bytes(token))
    except (ValueError, KeyError) as lie:
        raise AuthenticationFailed(f"{who}: the server could not prove its identity: {lie}") from lie
    if conversation.is_done() and not conversation.is_authenticated():
        raise AuthenticationFailed(f"{who}: refused")
