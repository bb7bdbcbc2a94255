"""Secrets stay secret, whatever somebody does to print them."""

from __future__ import annotations

import json
import logging
import traceback
from copy import deepcopy
from dataclasses import asdict, astuple
from pprint import pformat
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism, Secret, SecurityProtocol, Tls

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "correct-horse-battery"
SASL = Sasl(mechanism=SaslMechanism.SCRAM_SHA_512, username="tanist", password=Secret(TEXT))
TLS = Tls(key_password=Secret(TEXT))
ENDPOINT = Endpoint(name="east", bootstrap=(Address("east", 9093),), tls=TLS, sasl=SASL)


def logged(what: object) -> str:
    record = logging.LogRecord("tanist", logging.INFO, __file__, 1, "connecting with %s %r", (what, what), None)
    return logging.Formatter().format(record)


def failed(what: object) -> str:
    return "".join(traceback.format_exception(ValueError(what)))


WAYS: list[Callable[[object], str]] = [
    str,
    repr,
    format,
    ascii,
    pformat,
    logged,
    failed,
    "{}".format,
    "{!r:>40}".format,
    lambda what: "%s" % (what,),  # noqa: UP031
    lambda what: json.dumps(what, default=str),
    lambda what: json.dumps(what, default=repr),
    lambda what: str([what, {"password": what}]),
]


@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
@pytest.mark.parametrize(
    "what",
    [Secret(TEXT), SASL, TLS, ENDPOINT, asdict(ENDPOINT), astuple(SASL), deepcopy(ENDPOINT), Secret(TEXT).reveal],
)
def test_a_secret_never_shows(way: Callable[[object], str], what: object) -> None:
    """Alone, inside its owners, taken apart into dicts, copied, in logs and in tracebacks."""
    assert TEXT not in way(what)


def test_json_without_a_default_refuses_a_secret() -> None:
    """It must not be written by accident; the refusal does not show it either."""
    with pytest.raises(TypeError) as caught:
        json.dumps({"password": Secret(TEXT)})
    assert TEXT not in str(caught.value)


def test_a_secret_shows_itself_to_who_asks_and_compares_by_its_text() -> None:
    """A changed password is a changed endpoint: connections are made anew."""
    assert deepcopy(Secret(TEXT)).reveal() == TEXT
    assert Secret(TEXT) == Secret(TEXT) != Secret("another")
    assert len({Secret(TEXT), Secret(TEXT), TEXT}) == 2


def test_the_protocol_follows_from_login_and_tls() -> None:
    """All four of Kafka's."""
    where = (Address("east", 9092),)
    assert Endpoint(name="e", bootstrap=where).security_protocol is SecurityProtocol.PLAINTEXT
    assert Endpoint(name="e", bootstrap=where, tls=TLS).security_protocol is SecurityProtocol.SSL
    assert Endpoint(name="e", bootstrap=where, sasl=SASL).security_protocol is SecurityProtocol.SASL_PLAINTEXT
    assert ENDPOINT.security_protocol is SecurityProtocol.SASL_SSL
