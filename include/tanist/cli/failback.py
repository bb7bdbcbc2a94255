"""`tanist failback`: the old source returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli.options import MirrorArgument, Session, TopicsOption, asking
from tanist.cli.output import emit, say, stages
from tanist.domain.names import mirror_name
from tanist.domain.problems import refuse
from tanist.domain.selection import pattern_problems
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failback.rescue import RESCUE_COLUMNS, RescueTools, tail_items
from tanist.usecases.failback.rescue import rescue as rescue_tails
from tanist.usecases.failback.survey import SURVEY_COLUMNS, exit_code, survey_item
from tanist.wiring.failback import ManifestFile, returned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.errors import TanistError
    from tanist.usecases.failback.survey import ReturnContext

app = typer.Typer(no_args_is_help=True, help="The way back: what an old source has that the new primary lacks.")

RESCUE_SECONDS = 3600.0
EvidenceOption = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="DIR", help="Directory for the manifest (default: ./evidence/rescue-NAME)."),
]


def _opened(now: Session, name: str, topic: list[str] | None) -> ReturnContext:
    if wrong := pattern_problems(topic or ()):
        refuse(wrong)
    return returned(now.registry, now.destination(), mirror_name(name), now.context)


@app.command()
@asking(changes=True, seconds=120.0)
def survey(now: Session, name: MirrorArgument, topic: TopicsOption = None) -> None:
    """Compare an old source that has returned with the mirror topics that have taken over.

    It keeps the old source from deleting what only it has, and records what was found once that cannot change any more.
    Exits with 3 if the old source may still get records, with 1 if an offset names two records.

    Example: tanist failback survey dr --destination west
    """
    found = survey_and_record(_opened(now, name, topic), topic or (), now.context)
    _warn_not_held(found.not_held)
    emit([survey_item(name, each) for each in found.found], SURVEY_COLUMNS, now.as_json)
    if code := exit_code(found.found):
        raise typer.Exit(code)


@app.command()
@asking(changes=True, seconds=RESCUE_SECONDS)
def rescue(now: Session, name: MirrorArgument, topic: TopicsOption = None, *, evidence: EvidenceOption = None) -> None:
    """Copy what only an old source has to quarantine topics of the new primary, and check every record of it.

    Run it again after an interruption: no record is copied twice. Exits with 3 if an old source may still get records.

    Example: tanist failback rescue dr --destination west
    """
    clusters = _opened(now, name, topic)
    file = ManifestFile(evidence or Path("evidence") / f"rescue-{name}")
    file.check()
    tell = stages(now.context.clock)
    tools = RescueTools(
        manifest=file.write, report=lambda at, count, of: tell(f"{at}: {count} of {of} records are in quarantine")
    )
    done = rescue_tails(clusters, topic or (), tools, now.context)
    _warn_not_held(done.not_held)
    for each in done.waiting:
        say(f"warning: {each.partition} is not rescued: {'; '.join(each.reasons) or 'it is not known'}")
    items = [item for each in done.tails for item in tail_items(name, each)]
    emit(items, RESCUE_COLUMNS, now.as_json)
    if done.waiting:
        raise typer.Exit(3)


def _warn_not_held(failed: Mapping[str, TanistError]) -> None:
    for topic, why in sorted(failed.items()):
        say(f"warning: retention of {topic} at the old source could not be set: {why}")


@app.callback()
def failback() -> None:
    """The way back: what an old source has that the new primary lacks."""
