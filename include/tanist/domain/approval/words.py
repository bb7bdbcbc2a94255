"""The words of a plan, which an approver has seen, and the hash that names them."""

from __future__ import annotations

import hashlib
import json
from typing import NewType

PlanHash = NewType("PlanHash", str)


def canonical(value: object) -> str:
    """JSON with one spelling only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_of(shown: str) -> PlanHash:
    return PlanHash(hashlib.sha256(shown.encode()).hexdigest()[:16])
