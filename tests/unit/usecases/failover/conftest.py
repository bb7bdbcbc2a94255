"""What tests of failovers share."""

from __future__ import annotations

import pytest

from tests.unit.usecases.failover.in_memory import FailoverWorld


@pytest.fixture
def world() -> FailoverWorld:
    """Both clusters, and a mirror that copies."""
    return FailoverWorld()
