"""The checks of `tanist doctor` on this host."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict
from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from tanist.wiring.registry import ClusterRegistry


PACKAGES: Final = ("tanist", "confluent-kafka", "kafka-python", "crc32c", "typer")


def host_checks(registry: ClusterRegistry) -> tuple[Check, ...]:
    """The checks of `tanist doctor` that need no cluster."""
    configured = ", ".join(registry.names())
    return (
        *(_package(name) for name in PACKAGES),
        _java(),
        Check(
            name="configuration",
            verdict=Verdict.PASS if configured else Verdict.FAIL,
            observed=f"{registry.settings.origin}: {configured or 'no clusters'}",
            reason="" if configured else "define your clusters in tanist.toml, or start some with `tanist sandbox up`",
        ),
    )


def _package(name: str) -> Check:
    try:
        return Check(name=f"package {name}", verdict=Verdict.PASS, observed=version(name))
    except PackageNotFoundError:
        return Check(name=f"package {name}", verdict=Verdict.FAIL, observed="missing", reason=f"pip install {name}")


def _java() -> Check:
    from tanist.spark_submit.java import java  # noqa: PLC0415

    try:
        found = java()
    except TanistError as error:
        return Check(
            name="java",
            verdict=Verdict.FAIL,
            observed="missing",
            reason=f"{error.reason}; only the sandbox and Spark need it",
        )
    return Check(name="java", verdict=Verdict.PASS, observed=found)
