"""The subject of a certificate is spelled as Java spells it: rules of any other name are nobody's."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute, NameOID, RelativeDistinguishedName

from tanist.kafka.protocol.certificates import subject, valid_until

MAIL = NameOID.EMAIL_ADDRESS
WHEN = datetime(2026, 11, 22, tzinfo=UTC)
JAVA = (
    ("CN=mirror", (("CN", "mirror"),)),
    ("CN=mirror,OU=Clients,O=Example,C=DE", (("C", "DE"), ("O", "Example"), ("OU", "Clients"), ("CN", "mirror"))),
    ("CN=m,DC=example,DC=com", (("DC", "com"), ("DC", "example"), ("CN", "m"))),
    (r"CN=\ Tänist\#1,O=Ex\, \"GmbH\"\ ", (("O", 'Ex, "GmbH" '), ("CN", " Tänist#1"))),
    ("CN=m,1.2.840.113549.1.9.1=#16056140622e63", (("MAIL", "a@b.c"), ("CN", "m"))),
    (r"CN=a\+b\=c\;d\\e\<f\>", (("CN", "a+b=c;d\\e<f>"),)),
)
"""What X500Principal.getName() of OpenJDK 17 says, and of which names."""
KINDS = {
    "CN": NameOID.COMMON_NAME,
    "C": NameOID.COUNTRY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "MAIL": NameOID.EMAIL_ADDRESS,
    "UID": NameOID.USER_ID,
}


def certificate(name: x509.Name, until: datetime = WHEN) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(1 << 120).not_valid_before(WHEN).not_valid_after(until)
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize(("told", "parts"), JAVA)
def test_a_subject_is_told_as_java_tells_it(told: str, parts: tuple[tuple[str, str], ...]) -> None:
    name = x509.Name([NameAttribute(KINDS[kind], value) for kind, value in parts])
    assert subject(f"key and other things before it\n{certificate(name)}") == told


def test_several_names_on_one_step_are_joined() -> None:
    both = RelativeDistinguishedName([NameAttribute(KINDS["CN"], "m"), NameAttribute(KINDS["UID"], "u1")])
    assert subject(certificate(x509.Name([both]))) == "CN=m+UID=u1"


def test_what_is_no_certificate_has_no_subject() -> None:
    whole = certificate(x509.Name([NameAttribute(KINDS["CN"], "m")]))
    lines = whole.splitlines()
    cut = "\n".join([*lines[:3], lines[-1]])
    for broken in ("", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", cut, whole[:80]):
        assert subject(broken) is None


@pytest.mark.parametrize(
    "until", [WHEN, datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)]
)
def test_the_end_of_its_validity_is_read_to_the_second(until: datetime) -> None:
    """RFC 5280 spells years from 2050 on in another way."""
    name = x509.Name([NameAttribute(KINDS["CN"], "m")])
    assert valid_until(certificate(name, until)) == until.timestamp() * 1000
    assert valid_until("no certificate") is None
