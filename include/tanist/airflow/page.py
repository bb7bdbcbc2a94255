"""The status page as HTML: everything that comes from a cluster is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from tanist.domain.lag_amounts import lag_text
from tanist.domain.names import iso_time
from tanist.usecases.items import reasons
from tanist.usecases.status.status_view import STALE_MS

_MARKS: Final = {"GO": "\u2713", "PASS": "\u2713", "NO-GO": "\u2715", "FAIL": "\u2715", "ACCEPT": "!"}
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def render(answer: Mapping[str, Any]) -> str:
    """The whole page."""
    return _PAGE.render(answer=answer, stale_ms=STALE_MS)


def policy() -> str:
    """The content security policy: own script, own style, requests to this server; nothing else."""
    return (
        f"default-src 'none'; connect-src 'self'; style-src '{_digest('status.css')}'; "
        f"script-src '{_digest('status.js')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def _digest(name: str) -> str:
    """The digest of an inline text for the policy."""
    text = _ENVIRONMENT.get_template(name).render()
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def mark(verdict: str) -> str:
    """A symbol in addition to each colour; unknown is a question mark."""
    return _MARKS.get(verdict, "?")


def duration(ms: int | None) -> str:
    """`4 s`, `3 min`, `5 h`, `2 d`; an unknown age is shown as such."""
    if ms is None:
        return "unknown"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if ms >= 2 * unit:
            return f"{ms // unit} {name}"
    return f"{ms // _SECOND} s"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tanist.airflow"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"mark": mark, "duration": duration, "moment": iso_time}
    environment.globals |= {"reasons": reasons, "lag_text": lag_text}
    return environment


_ENVIRONMENT: Final = _environment()
_PAGE: Final = _ENVIRONMENT.get_template("status.html")
