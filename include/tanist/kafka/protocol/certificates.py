"""The subject of a certificate, spelled as brokers spell it: the name in ACLs for a client certificate.

DefaultKafkaPrincipalBuilder takes X500Principal.getName(): RFC 2253, the last name first, with the key words of that
RFC and the numbers of all other attributes. Read from the DER itself: Python's ssl module reports the subject of a peer
or of an authority only, not of our own certificate.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tanist.domain.names import EpochMs

if TYPE_CHECKING:
    from collections.abc import Iterator

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_WORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 30: "utf-16-be"}
"""Tags of DER: UTF8String, PrintableString, T61String, IA5String, BMPString."""
_SPECIAL: Final = re.compile(r'([,=+<>#;"\\])')
_VERSION: Final = 0xA0
_VALIDITY: Final = 3
_SUBJECT: Final = 4
"""Behind the version, which may be left out: serial number, algorithm, issuer, validity, subject."""
_GENERALIZED_TIME: Final = 24
_CENTURY: Final = "50"


def subject(pem: str) -> str | None:
    """The subject of the first certificate in `pem`; None: there is none that can be read."""
    found = _PEM.search(pem)
    try:
        return None if found is None else _subject(base64.b64decode(found[1]))
    except (ValueError, IndexError, StopIteration):
        return None


def valid_until(pem: str) -> EpochMs | None:
    """The end of the validity of the first certificate in `pem`; None: there is none that can be read."""
    found = _PEM.search(pem)
    try:
        return None if found is None else _valid_until(base64.b64decode(found[1]))
    except (ValueError, IndexError, StopIteration):
        return None


def _fields(der: bytes) -> list[bytes]:
    (_, certificate, _) = next(_values(der))
    (_, signed, _) = next(_values(certificate))
    return [body for tag, body, _ in _values(signed) if tag != _VERSION]


def _subject(der: bytes) -> str:
    names = [_one_or_more(name) for _, name, _ in _values(_fields(der)[_SUBJECT])]
    return ",".join(reversed(names))


def _valid_until(der: bytes) -> EpochMs:
    """RFC 5280: UTCTime through 2049, where years below 50 are of this century; GeneralizedTime later."""
    _, (tag, body, _) = _values(_fields(der)[_VALIDITY])
    text = body.decode("ascii")
    year = text if tag == _GENERALIZED_TIME else f"{'20' if text < _CENTURY else '19'}{text}"
    return EpochMs(round(datetime.strptime(year, "%Y%m%d%H%M%S%z").timestamp() * 1000))


def _values(der: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(tag, content, all of it) of each value, one behind the other."""
    at = 0
    while at < len(der):
        tag, length, begin = der[at], der[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, begin = int.from_bytes(der[begin : begin + size], "big"), begin + size
        if begin + length > len(der):
            raise ValueError("a value that is cut off")
        yield tag, der[begin : begin + length], der[at : begin + length]
        at = begin + length


def _one_or_more(name: bytes) -> str:
    return "+".join(_attribute(attribute) for _, attribute, _ in _values(name))


def _attribute(attribute: bytes) -> str:
    (_, kind, _), (tag, text, whole) = _values(attribute)
    number = _number(kind)
    if number not in _WORDS or tag not in _TEXTS:
        return f"{_WORDS.get(number, number)}=#{whole.hex()}"
    return f"{_WORDS[number]}={_escaped(text.decode(_TEXTS[tag]))}"


def _number(encoded: bytes) -> str:
    parts, part = [], 0
    for byte in encoded:
        part = part << 7 | byte & 0x7F
        if not byte & 0x80:
            parts.append(part)
            part = 0
    first = min(parts[0] // 40, 2)
    return ".".join(map(str, (first, parts[0] - 40 * first, *parts[1:])))


def _escaped(text: str) -> str:
    found = _SPECIAL.sub(r"\\\1", text).replace("\0", "\\00")
    inner = found.strip(" \r")
    leading, trailing = len(found) - len(found.lstrip(" \r")), len(found) - len(found.rstrip(" \r"))
    if not inner:
        return "".join(f"\\{space}" for space in found)
    before, after = found[:leading], found[len(found) - trailing :]
    return "".join(f"\\{space}" for space in before) + inner + "".join(f"\\{space}" for space in after)
