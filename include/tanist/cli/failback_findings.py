"""`tanist failback accept`: findings about an old source that no rescue mends."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.options import WHY, ExcludeOption, MirrorArgument, Session, TopicsOption, asking, selected
from tanist.cli.output import emit
from tanist.domain.errors import Misconfigured
from tanist.domain.names import mirror_name
from tanist.domain.tails import FindingKind
from tanist.usecases.failback.accepting import FINDING_COLUMNS, accept_findings, finding_item

FindingOption = Annotated[
    list[str],
    typer.Option("--finding", metavar="NAME", help=f"What is accepted: {', '.join(FindingKind)}; repeatable."),
]


@asking(changes=True, seconds=60.0)
def accept(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    finding: FindingOption,
    reason: Annotated[str, WHY],
) -> None:
    """Accept by name what a survey has found and no rescue mends: `tanist status` fails until that is done.

    OVERLAP, DIVERGED: offsets that name a record on each cluster. TAIL_EXPIRED: offsets of a tail that the old source
    had deleted before they were surveyed. TAIL_UNDECIDED: the mirror was reversed while nobody had decided about its
    tails, which no command rescues any more; a planned failover is refused until that is accepted. The login and the
    reason are stored; more offsets are accepted anew.

    Example: tanist failback accept dr --destination west --finding OVERLAP --reason "no sink stores offsets"
    """
    topics = selected(topic, exclude)
    known = {str(each): each for each in FindingKind}
    if unknown := sorted(set(finding) - known.keys()):
        raise Misconfigured(f"--finding {unknown[0]}: not one of {', '.join(FindingKind)}")
    accepted = [known[each] for each in dict.fromkeys(finding)]
    found = accept_findings(now.destination(), mirror_name(name), accepted, topics, now.context, reason=reason)
    emit([finding_item(name, each) for each in found], FINDING_COLUMNS, now.as_json)


def register(app: typer.Typer) -> None:
    """Add the command to `tanist failback`."""
    app.command()(accept)
