"""`tanist status` and `tanist doctor`: checks and verdicts."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from tanist.cli.options import MaybeMirrorArgument, Session, asking, optional_name
from tanist.cli.output import emit, say
from tanist.cli.status_text import status_text
from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import NoStateTopic
from tanist.domain.followed import is_followed
from tanist.domain.next_steps.rules import guide
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.items import check_item, exit_code, following, status_item
from tanist.usecases.status import doctor as doctor_checks
from tanist.wiring.host import host_checks
from tanist.wiring.status import look

CHECK_COLUMNS = ("check", "verdict", "observed", "reason")
_WORST_FIRST = ((Readiness.NO_GO, 1), (Readiness.UNKNOWN, 3))


@asking()
def doctor(now: Session) -> None:
    """Check this host, the configuration, every cluster, permissions and state topics.

    Exits with 1 if a check fails, 3 if a check is unknown.

    Example: tanist doctor --json
    """
    checks = [*host_checks(now.registry)]
    checks += doctor_checks.clusters(now.registry.names(), now.registry.connect, now.context)
    emit([check_item(check) for check in checks], CHECK_COLUMNS, now.as_json)
    if code := exit_code(check.verdict for check in checks):
        raise typer.Exit(code)


@asking()
def status(
    now: Session,
    name: MaybeMirrorArgument = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="Only this mode (default: both).")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Show the checks that pass, too.")] = False,
) -> None:
    """Can I fail over now? One verdict for a planned failover, one for an unplanned. Changes nothing.

    Shows the verdicts with their limitations, then the checks that do not pass; --all shows every check. The next step
    is derived from that alone: `tanist next` asks the old source as well, where a way back is next.
    GO: only the limitations of every such failover. ACCEPT: more limitations, each to be accepted by name. The verdict
    is that of `tanist failover plan` for all topics and the forecast loss.

    Exits with 0 for GO and ACCEPT, 1 for any NO-GO, otherwise 3 for any UNKNOWN. Without a name mirrors that somebody
    else copies do not count: none of them can be failed over.

    Example: tanist status dr --mode unplanned
    """
    mirror, modes = optional_name(name), (mode,) if mode else tuple(Mode)
    destinations = now.destinations(mirror)
    if not destinations:
        known = ", ".join(now.registry.names())
        raise NoStateTopic(f"no cluster has mirrors: topic {STATE_TOPIC} exists on none of {known}")
    seen = [each for there in destinations for each in look(now.registry, there, mirror, now.context)]
    found = [each.situation for each in seen]
    items = [status_item(each.status, modes) | following(guide(each)) for each in found]
    if now.as_json:
        emit(items, (), as_json=True)
    elif items:
        print(status_text(items, modes, shutil.get_terminal_size().columns, every=every))
    else:
        say("there is no mirror yet: create one with `tanist mirrors create`")
    judged = [each.status for each in seen if mirror is not None or not is_followed(each.spec)]
    verdicts = {each.word(shown) for each in judged for shown in modes}
    for verdict, code in _WORST_FIRST:
        if verdict in verdicts:
            raise typer.Exit(code)
