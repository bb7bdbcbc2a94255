"""`tanist status` and `tanist doctor`: questions with verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tanist.cli.options import MaybeMirrorArgument, Session, asking, optional_name
from tanist.cli.output import emit
from tanist.composition import host_checks
from tanist.composition.status import look
from tanist.domain.checks import Readiness
from tanist.usecases import doctor as doctor_checks
from tanist.usecases.items import check_item, exit_code, status_item

if TYPE_CHECKING:
    from tanist.domain.readiness import Status

CHECK_COLUMNS = ("check", "verdict", "observed", "reason")
STATUS_COLUMNS = ("mirror", "check", "verdict", "observed", "limit", "age_ms", "reason")
_WORST_FIRST = ((Readiness.NO_GO, 1), (Readiness.UNKNOWN, 3))


@asking()
def doctor(now: Session) -> None:
    """Check this host, the configuration, every cluster, rights and state topics.

    Ends with 1 if anything fails, 3 if anything could not be told.

    Example: tanist doctor --json
    """
    checks = [*host_checks(now.world)]
    checks += doctor_checks.clusters(now.world.names(), now.world.connect, now.run)
    emit([check_item(check) for check in checks], CHECK_COLUMNS, now.as_json)
    if code := exit_code(check.verdict for check in checks):
        raise typer.Exit(code)


@asking()
def status(now: Session, name: MaybeMirrorArgument = None) -> None:
    """Can I fail over now? One verdict for a planned failover, one for an unplanned. Changes nothing.

    Ends with 1 for any NO-GO, else 3 for any UNKNOWN. A dead source leaves the unplanned verdict as it is.

    Example: tanist status dr
    """
    mirror = optional_name(name)
    found: list[Status] = []
    for destination in now.destinations(mirror):
        found += [seen.status for seen in look(now.world, destination, mirror, now.run)]
    rows = [row for each in found for row in _rows(each)]
    emit([status_item(each) for each in found], STATUS_COLUMNS, now.as_json, rows=rows)
    verdicts = {verdict for each in found for verdict in (each.planned, each.unplanned)}
    for verdict, code in _WORST_FIRST:
        if verdict in verdicts:
            raise typer.Exit(code)


def _rows(status: Status) -> list[dict[str, object]]:
    """The checks, and both verdicts as the last lines."""
    rows = [check_item(check) | {"mirror": status.mirror} for check in status.checks]
    verdicts = (("PLANNED FAILOVER", status.planned), ("UNPLANNED FAILOVER", status.unplanned))
    return rows + [{"mirror": status.mirror, "check": title, "verdict": verdict} for title, verdict in verdicts]
