"""`tanist fsm`: the table of the state machine that the code uses."""

from __future__ import annotations

from typing import Annotated

import typer

from tanist.cli.output import Format, JsonOption, OutputOption, emit, guard
from tanist.domain.states import MIRROR_STATES, MirrorState, TransitionRow
from tanist.usecases.items import state_row_item

COLUMNS = ("row", "from", "when", "trigger", "to", "reason")


def fsm(
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid diagram.")] = False,
    output: OutputOption = Format.TABLE,
    json: JsonOption = False,
) -> None:
    """Show the state machine of a mirror partition. Row numbers never change.

    Example: tanist fsm --mermaid
    """
    as_json = json or output is Format.JSON
    with guard(as_json):
        if mermaid:
            print(diagram(MIRROR_STATES))
            return
        items = [state_row_item(row) for row in MIRROR_STATES]
        rows = [state_row_item(row) | {"from": _before(row)} for row in MIRROR_STATES]
        emit(items, COLUMNS, as_json, rows=rows)


def _before(row: TransitionRow) -> str:
    return "any" if row.before == frozenset(MirrorState) else " ".join(sorted(row.before))


def diagram(rows: tuple[TransitionRow, ...]) -> str:
    """`rows` as a Mermaid state diagram; transitions from every state are a note."""
    lines = ["stateDiagram-v2", "    [*] --> UNKNOWN"]
    for row in rows:
        if row.before == frozenset(MirrorState):
            lines += [f"    note right of {row.after}: row {row.number}, {row.trigger}, from any state"]
            continue
        lines += [f"    {before} --> {row.after}: {row.number} {row.trigger}" for before in sorted(row.before)]
    return "\n".join(lines)
