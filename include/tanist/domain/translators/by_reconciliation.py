"""Translation by a published reconciliation: a table of where readers go on, made from the records of both logs.

What was copied after the reconciliation lies behind its end, so the table stays a lower bound: repeats that were
appended since only come again. And they may: therefore nothing is exact any more once the copy has grown.

A copy that an unclean leader election has truncated, and that has grown beyond its old end since, has the same ends as
one that has only grown. Therefore each answer names two records that were the same when both logs were read: its own,
or the last ones of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.translation import Conservative, Exact, InputKind, Translator, Unknown

if TYPE_CHECKING:
    from tanist.domain.log_ends import Span
    from tanist.domain.reconciled.published import Reconciled
    from tanist.domain.translation import Evidence, Inputs, Translation

_NEVER: Final = "the partition was never reconciled: `tanist reconcile --publish`"
_MOST_BACK: Final = 1000
"""Steps looked at for the last exact one."""
_AGAIN: Final = "run `tanist reconcile --publish` again"


def translate(position: SourceOffset, read: Inputs) -> Translation:
    """Where a reader of `position` goes on, as the publication says, in the copy as it is now."""
    if read.copy is None:
        return Unknown("the log of the mirror partition could not be read")
    if position < 0:
        return Unknown(f"{position} is not a valid offset")
    if read.reconciled is None:
        return Unknown(read.unreconciled or _NEVER)
    if why := _of_another_log(read.reconciled, read.copy):
        return Unknown(why)
    if position > read.reconciled.until:
        return _ahead(position, read.reconciled, read.copy)
    return _within(position, read.reconciled, read.copy)


def _within(position: SourceOffset, known: Reconciled, copy: Span[DestinationOffset]) -> Translation:
    number = known.steps.find(position)
    if number is None:
        return Unknown(f"the reconciliation of {known.age} says nothing about offset {position}: {_AGAIN}")
    step = known.steps[number]
    offset = DestinationOffset(step.at(position))
    if offset < copy.start:
        return Conservative(copy.start, f"the mirror partition begins at {copy.start}: older records are gone")
    own = step.exact and position < known.until and offset < known.copy.end
    evidence = (position, offset) if own else _last_pair(known, copy)
    if not step.exact:
        again = f"; at most {step.again} record(s) come again" if step.again else ""
        return Conservative(offset, f"{step.why}{again} (reconciled {known.reach})", evidence=evidence)
    if grown := copy.end - known.copy.end:
        return Conservative(
            offset,
            f"the very next record, but {grown} offset(s) were appended to the copy since it was reconciled "
            f"{known.reach}, and nobody knows yet whether records come again there",
            evidence=evidence,
        )
    return Exact(offset, evidence=None if own else evidence)


def _last_pair(known: Reconciled, copy: Span[DestinationOffset]) -> Evidence | None:
    """The last exact step's last position whose record both logs had, and where; None: there is none near the end."""
    last = known.steps.find(known.until - 1)
    for number in range(-1 if last is None else last, -1, -1)[:_MOST_BACK]:
        step = known.steps[number]
        if not step.exact:
            continue
        position = min(known.until, known.until if step.until is None else step.until) - 1
        if step.slopes:
            position = min(position, step.source + known.copy.end - 1 - step.destination)
        offset = step.at(position)
        if position >= step.source and offset < known.copy.end:
            return (SourceOffset(position), DestinationOffset(offset)) if offset >= copy.start else None
    return None


def _of_another_log(known: Reconciled, copy: Span[DestinationOffset]) -> str:
    """Why the copy as it is now is not the one that was read, as far as its ends tell; empty: it may be."""
    if copy.end < known.copy.end:
        return (
            f"the mirror partition ends at {copy.end}, and ended at {known.copy.end} when it was reconciled "
            f"{known.age}: it was truncated, or made again; {_AGAIN}"
        )
    if copy.start > known.copy.end:
        return (
            f"the mirror partition begins at {copy.start}, behind all that was reconciled {known.age} "
            f"(up to {known.copy.end}): {_AGAIN}"
        )
    return ""


def _ahead(position: SourceOffset, known: Reconciled, copy: Span[DestinationOffset]) -> Translation:
    """The source did not have the record then, so its copy lies behind the end that the copy had."""
    return Conservative(
        known.copy.end,
        f"{position - known.until} offset(s) ahead of the reconciliation of {known.age}, which reaches up to "
        f"{known.until}: what was copied since comes again",
        evidence=_last_pair(known, copy),
    )


def explain(position: SourceOffset, read: Inputs) -> str:
    """The step that the position is in, and how far the reconciliation reaches."""
    known = read.reconciled
    if known is None:
        return f"reconciled: {read.unreconciled or _NEVER}"
    reach = f"run {known.run}, {known.reach} and destination offset {known.copy.end}"
    number = known.steps.find(position) if position <= known.until else None
    if number is None:
        return f"reconciled: {reach}: no step for {position}"
    step = known.steps[number]
    until = f" up to {step.until}" if step.until is not None else ""
    way = f"{step.destination - step.source:+d}" if step.slopes else "for all of them"
    return (
        f"reconciled: {reach}: step {number + 1} of {len(known.steps)}: source {step.source}{until} is at destination "
        f"{step.destination} ({way}), {step.placement}, at most {step.again} come again"
    )


RECONCILED: Final = Translator(
    name="reconciled",
    basis="reconciliation",
    needs=frozenset({InputKind.RECONCILIATION}),
    translate=translate,
    explain=explain,
)
