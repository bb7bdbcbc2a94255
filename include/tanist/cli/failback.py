"""`tanist failback`: the old source returns."""

from __future__ import annotations

import typer

from tanist.cli.options import MirrorArgument, Session, TopicsOption, asking
from tanist.cli.output import emit
from tanist.domain.names import mirror_name
from tanist.domain.problems import refuse
from tanist.domain.selection import pattern_problems
from tanist.usecases.failback.survey import SURVEY_COLUMNS, exit_code, survey_item
from tanist.usecases.failback.survey import survey as survey_of
from tanist.wiring.failback import returned

app = typer.Typer(no_args_is_help=True, help="The way back: what an old source has that the new primary lacks.")


@app.command()
@asking()
def survey(now: Session, name: MirrorArgument, topic: TopicsOption = None) -> None:
    """Compare an old source that has returned with the mirror topics that have taken over. Changes nothing.

    Exits with 3 if the old source may still get records, with 1 if an offset names two records.

    Example: tanist failback survey dr --destination west
    """
    if wrong := pattern_problems(topic or ()):
        refuse(wrong)
    mirror = mirror_name(name)
    (destination,) = now.destinations(mirror)
    found = survey_of(returned(now.registry, destination, mirror, now.context), topic or (), now.context)
    emit([survey_item(name, each) for each in found], SURVEY_COLUMNS, now.as_json)
    if code := exit_code(found):
        raise typer.Exit(code)


@app.callback()
def failback() -> None:
    """The way back: what an old source has that the new primary lacks."""
