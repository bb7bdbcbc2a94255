"""What SCRAM needs of a user name."""

from __future__ import annotations

import pytest

from tanist.domain.endpoint import Sasl, SaslMechanism, Secret
from tanist.kafka.wire.login import _conversation


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [(SaslMechanism.SCRAM_SHA_512, b"n,,n=a=3Db=2Cc,r="), (SaslMechanism.PLAIN, b"a=b,c\0a=b,c\0p")],
)
def test_user_names_are_escaped_for_scram_and_only_there(mechanism: SaslMechanism, first: bytes) -> None:
    """RFC 5802, section 5.1: '=' before ',', or the escapes would be escaped."""
    login = Sasl(mechanism=mechanism, username="a=b,c", password=Secret("p"))
    assert _conversation(login).auth_bytes().startswith(first)
