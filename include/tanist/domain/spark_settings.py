"""Tanist's own settings of Spark: what submits a job sets them, the job reads them."""

from __future__ import annotations

from typing import Final

UNENCRYPTED: Final = "spark.tanist.unencrypted"
"""`true`: logins may be sent to executors although Spark does not encrypt its connections."""
