"""Throw-away passwords and certificates of one cluster, in files that only their owner can read."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import os
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from tanist.domain.endpoint import Secret
from tanist.domain.errors import MissingDependency
from tanist_testkit.sandbox.spec import BROKER, UNIT, USERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS: Final = 4096  # the least that Kafka accepts
_VALID: Final = timedelta(days=30)


def write_private(path: Path, text: str) -> None:
    """Writes a file that is never readable by others, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def password_file(directory: Path, user: str) -> Path:
    """Where the password of `user` is kept."""
    return directory / f"{user}.password"


def make_passwords(directory: Path) -> None:
    """Writes a new password for every user."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for user in USERS:
        write_private(password_file(directory, user), secrets.token_urlsafe(18))


def read_passwords(directory: Path) -> Mapping[str, Secret]:
    """The password of every user."""
    return {user: Secret(password_file(directory, user).read_text(encoding="utf-8")) for user in USERS}


def scram_record(mechanism: str, user: str, password: Secret) -> str:
    """A credential as the storage tool reads it, salted here so that the password itself is told to nobody."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac(SCRAM[mechanism], password.reveal().encode(), salt, _ITERATIONS)
    fields = f'salt="{_base64(salt)}",saltedpassword="{_base64(salted)}"'
    return f"{mechanism}=[name={user},iterations={_ITERATIONS},{fields}]"


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def certificate_file(directory: Path, user: str) -> Path:
    """The certificate of a user; its key is beside it."""
    return directory / f"{user}.pem"


def make_certificates(directory: Path, users: Iterable[str] = ()) -> None:
    """`ca.pem`, and `server.pem` (key and chain in one, as brokers read it) for 127.0.0.1 and localhost.

    And for each of `users` a certificate, and its key in a file of the same name (`.key`).
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as problem:
        raise MissingDependency("the package cryptography is not installed: pip install tanist-testkit") from problem
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _certificate(["Tanist sandbox CA"], authority_key, authority_key, None)
    server = _certificate([BROKER], server_key, authority_key, authority)
    (directory / "ca.pem").write_text(_pem(authority), encoding="ascii")
    write_private(directory / "server.pem", _private_pem(server_key) + _pem(server) + _pem(authority))
    for user in users:
        key, file = ec.generate_private_key(ec.SECP256R1()), certificate_file(directory, user)
        file.write_text(_pem(_certificate([UNIT, user], key, authority_key, authority)), encoding="ascii")
        write_private(file.with_suffix(".key"), _private_pem(key))


def _certificate(
    names: Sequence[str], key: EllipticCurvePrivateKey, signer: EllipticCurvePrivateKey, issuer: x509.Certificate | None
) -> x509.Certificate:
    """The last of `names` is the common name, those before it are units."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

    units = [x509.NameAttribute(x509.NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in names[:-1]]
    subject = x509.Name([*units, x509.NameAttribute(x509.NameOID.COMMON_NAME, names[-1])])
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if issuer is None:
        builder = builder.add_extension(_signs_certificates(), critical=True)
    else:
        builder = builder.add_extension(hosts, critical=False)
    return builder.sign(signer, hashes.SHA256())


def _signs_certificates() -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415

    others = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False, **dict.fromkeys(others, False)
    )


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _private_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
