"""The command line in this process."""

from __future__ import annotations

from tests.kafka.cli.conftest import tanist

__all__ = ["tanist"]
