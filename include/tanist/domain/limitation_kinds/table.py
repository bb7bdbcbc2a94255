"""The table of limitations, and its rows by name.

The judges (`failover.limitations`, `failback.reversal`) say when one is there, and its detail says of what. A name that
is in no row is refused by a test. The page docs/reference/limitations.md is this table.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tanist.domain.limitation_kinds.clusters import CLUSTERS
from tanist.domain.limitation_kinds.copies import COPIES
from tanist.domain.limitation_kinds.plans import PLANS, RETURNS

TABLE: Final = (*PLANS, *CLUSTERS, *COPIES, *RETURNS)
KINDS: Final = MappingProxyType({each.name: each for each in TABLE})
"""The rows by name. Plans and approvals of earlier versions hold names that are in no row any more."""
