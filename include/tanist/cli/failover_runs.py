"""One run of an approved plan: carried out, as JSON, and in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tanist.cli.mirror_reversal import reversed_item, reversed_words
from tanist.domain.answers import attempt
from tanist.domain.errors import TanistError
from tanist.domain.names import mirror_name
from tanist.domain.next_steps.step import ask_command
from tanist.domain.records import RunStatus
from tanist.usecases.failback.reversal_route import cannot_end
from tanist.usecases.failback.reverse import reverse_after
from tanist.usecases.failover.items import outcome_item
from tanist.usecases.failover.run import run as run_plan
from tanist.usecases.failover.tools import Timeouts, Tools
from tanist.wiring.failover import Folder, is_process_dead, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.cli.options import Session
    from tanist.domain.failover.invariants import Breach
    from tanist.usecases.failback.reverse import Reversed
    from tanist.usecases.failover.run import RunOutcome


def evidence_folder(plan: str, given: Path | None) -> Folder:
    return Folder(given or Path("evidence") / plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is said of a run beside its plan. `until`, `although_it_answers`: as in `usecases.failover.run`.

    `patience` names no proof where none is wanted.
    """

    patience: Timeouts
    until: str | None = None
    although_it_answers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """`reversal`: what became of the mirror at the end; None: nothing, or `failed` says why it is not done.

    `destination`: the name by which commands reach it.
    """

    outcome: RunOutcome
    folder: Folder
    destination: str
    reversal: Reversed | None = None
    failed: TanistError | None = None

    def item(self) -> dict[str, Any]:
        return outcome_item(self.outcome, str(self.folder.path)) | {
            "reversal": reversed_item(self.reversal) if self.reversal else None
        }

    def words(self) -> Iterator[str]:
        """What people have to know beside the row of the table, line by line."""
        item = self.item()
        if self.outcome.left:
            yield f"remaining steps: {', '.join(self.outcome.left)}. Run the same command again to continue."
        if self.reversal:
            yield from reversed_words(self.reversal)
        yield from breach_words(self.outcome.broken)
        for mismatch in item["group_mismatches"]:
            yield f"warning: the offset map is wrong: {mismatch}"
        for partition, why in item["may_be_reused"].items():
            yield f"warning: new records of {partition} may get offsets that the old source has used: {why}"
        if guessed := item["reserve_estimated"]:
            yield f"the reserve of {len(guessed)} partition(s) is an estimate: nobody saw where the source ended"
        if item["group_problems"]:
            yield (
                f"warning: {len(item['group_problems'])} committed offset(s) of groups need attention; the evidence "
                "lists them"
            )
        if self.failed is not None:
            ask = f"`{ask_command(self.outcome.record.mirror, self.destination)}` says what to do"
            again = ask if cannot_end(self.failed) else "run the same command again"
            yield f"the failover is done, the reversal after it is not: {again}"


def carried_out(
    now: Session, name: str, plan: str, options: RunOptions, folder: Folder, report: Callable[[str, str, str], None]
) -> RunResult:
    """Run `plan` of the mirror `name`, and the reversal after it where the plan has one. `report`: as in `Tools`.

    Raises:
        What `usecases.failover.run` raises. Misconfigured: the evidence cannot be written to `folder`.
    """
    clusters = now.mirror(name)
    folder.check()
    tools = Tools(
        patience=options.patience, sink=folder, runner=runner(), is_process_dead=is_process_dead, report=report
    )
    outcome = run_plan(
        plan,
        clusters,
        tools,
        now.context,
        until=options.until,
        although_it_answers=options.although_it_answers,
    )
    result = RunResult(outcome=outcome, folder=folder, destination=clusters.destination.name)
    if options.until is not None or outcome.record.status is not RunStatus.DONE:
        return result
    reversal = attempt(
        lambda: reverse_after(
            plan,
            now.registry.open_mirror(now.destination(), mirror_name(name), now.context),
            folder,
            now.context,
        )
    )
    return replace(result, failed=reversal) if isinstance(reversal, TanistError) else replace(result, reversal=reversal)


def breach_words(broken: tuple[Breach, ...]) -> Iterator[str]:
    """A warning of each invariant that does not hold."""
    yield from (f"warning: {breach}" for breach in broken)
