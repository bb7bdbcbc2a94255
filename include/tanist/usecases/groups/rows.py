"""One row for each position of each group: source offset, translated offset, and whether it was committed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tanist.domain.commit_marks import OUR_MARK, marked_offset
from tanist.domain.errors import TanistError
from tanist.domain.names import DestinationOffset, MirrorPartition, SourcePartition
from tanist.domain.translation import (
    Commit,
    Conservative,
    GroupThere,
    Present,
    Proof,
    Rules,
    Stays,
    Translation,
    Unknown,
    Withheld,
    decide,
    objection,
)
from tanist.domain.translators.by_map import MAP
from tanist.ports.positions import CommitChange, CommittedPosition, ProofResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.log_ends import Span
    from tanist.domain.translation import Decision, Inputs, Translator, Tried
    from tanist.ports.positions import CommittedOf, GroupFacts
    from tanist.usecases.groups.gather import Freshest, Gathered
    from tanist.usecases.groups.strategies import Answer, Key

_NOT_COMPARED = ProofResult(Proof.NONE, "not compared")


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRow:
    """`decision` is None if no commit was requested. `error`: why a commit that was sent failed.

    `translator`: the strategy that the translation is of; `tried`: what each has answered, by what was `read`.
    """

    group: str
    partition: MirrorPartition
    at_source: SourcePartition
    position: Freshest
    age_ms: int | None
    translation: Translation
    mirror_end: Span[DestinationOffset] | TanistError
    translator: Translator = MAP
    tried: tuple[Tried, ...] = ()
    read: Inputs | None = None
    trusted: bool = True
    compared: ProofResult = _NOT_COMPARED
    present: Present | None = None
    decision: Decision | None = None
    committed: bool = False
    error: TanistError | None = None
    settled: bool = False
    """It has not moved since it was committed. See `usecases.groups.settled` for those not even translated again."""

    @property
    def offset(self) -> DestinationOffset | None:
        return None if isinstance(self.translation, Unknown) else self.translation.offset

    @property
    def clamped(self) -> bool:
        """Whether the group had consumed more than was copied: it continues at the end of the mirror partition.

        If the source is lost, only this group has seen these records.
        """
        return isinstance(self.translation, Conservative) and self.translation.ahead > 0

    @property
    def will_commit(self) -> bool:
        return isinstance(self.decision, Commit)

    @property
    def asks(self) -> bool:
        """Whether a person decides if the group follows a rewind at the source."""
        return isinstance(self.decision, Withheld) and self.decision.asks

    @property
    def unmoved(self) -> bool:
        """Whether it was not committed again, because nothing has moved since."""
        return self.settled and isinstance(self.decision, Stays)

    @property
    def reason(self) -> str:
        """Why the offset is not exact, why it was not committed, and why the proof is missing."""
        said = [] if self.translation.why is None else [self.translation.why]
        if isinstance(self.decision, (Withheld, Stays)) and self.decision.why not in said:
            said.append(self.decision.why)
        if self.error is not None:
            said.append(f"commit failed: {self.error.name}: {self.error.reason}")
        if self.compared.proof is Proof.MISMATCH:
            said.append(self.compared.why)
        return "; ".join(said)


def translated(seen: Gathered, answers: Mapping[Key, Answer]) -> tuple[PositionRow, ...]:
    """Every position of every group that was gathered, with its answer."""
    return tuple(
        _translated(seen, group, at, position, answers[at, position.offset])
        for group, positions in seen.positions.items()
        for at, position in sorted(positions.items(), key=lambda item: item[0])
    )


def _translated(seen: Gathered, group: str, at: MirrorPartition, position: Freshest, answer: Answer) -> PositionRow:
    return PositionRow(
        group=group,
        partition=at,
        at_source=seen.spec.names.at_source(at),
        position=position,
        age_ms=seen.age_ms(position),
        translation=answer.best.translation,
        mirror_end=seen.copies[at],
        translator=answer.best.translator,
        trusted=answer.best.trusted,
        compared=ProofResult(answer.best.proof, answer.best.compared),
        tried=answer.tried,
        read=answer.read,
    )


# ── what may be committed ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationGroups:
    """The groups at the destination, with their committed offsets there; `primary_until` as `Gathered` has it.

    `mark`: what the metadata of commits of this mirror in this direction begin with.
    """

    groups: Mapping[str, GroupFacts]
    committed: Mapping[str, CommittedOf | TanistError]
    primary_until: Mapping[MirrorPartition, int] = field(default_factory=dict)
    mark: str = ""

    def objection(self, group: str, rules: Rules) -> str | None:
        """Why no offset of `group` may be committed."""
        answer = self.committed.get(group, {})
        if isinstance(answer, TanistError):
            return f"the destination does not report the committed offset: {answer.name}: {answer.reason}"
        facts = self.groups.get(group)
        if facts is None:
            return None
        known = {MirrorPartition(*at): each for at, each in answer.items() if isinstance(each, CommittedPosition)}
        ours = any(each.metadata.startswith(OUR_MARK) for each in known.values())
        returning = [self._is_outdated(at, each) for at, each in known.items() if at in self.primary_until]
        synced = not answer or ours or (bool(returning) and all(returning))
        there = GroupThere(kind=facts.kind, state=facts.state, members=facts.members, synced=synced)
        return objection(there, rules)

    def committed_position(self, group: str, at: MirrorPartition) -> Present | TanistError | None:
        """The committed offset of `group` at the destination, or why it is unknown; None: it has none."""
        answer = self.committed.get(group, {})
        return answer if isinstance(answer, TanistError) else self.present(group, at)

    def present(self, group: str, at: MirrorPartition) -> Present | TanistError | None:
        answer = self.committed.get(group, {})
        found = None if isinstance(answer, TanistError) else answer.get(at)
        if found is None or isinstance(found, TanistError):
            return found
        return Present(DestinationOffset(found.offset), found.metadata, outdated=self._is_outdated(at, found))

    def _is_outdated(self, at: MirrorPartition, found: CommittedPosition) -> bool:
        return found.offset <= self.primary_until.get(at, -1)


def decided(
    rows: Sequence[PositionRow],
    there: DestinationGroups,
    rules: Rules,
    renew: bool = True,  # noqa: FBT001, FBT002 -- of one caller
) -> tuple[PositionRow, ...]:
    """The rows, each with the decision whether to commit it. `renew`: commit again what is settled.

    What is settled in a group that `there` does not have keeps its decision.
    """
    groups = dict.fromkeys(row.group for row in rows)
    refused = {group: there.objection(group, rules) for group in groups}
    return tuple(
        (None if renew else _there_already(row, there)) or _judged(row, refused[row.group], there, rules)
        for row in rows
    )


def _there_already(row: PositionRow, there: DestinationGroups) -> PositionRow | None:
    """The row, if it is settled and nobody has moved the offset since: nothing is to be done about it."""
    if not row.settled:
        return None
    unmoved = row.group not in there.committed or there.present(row.group, row.partition) == row.present
    return row if unmoved else None


def _judged(row: PositionRow, refused: str | None, there: DestinationGroups, rules: Rules) -> PositionRow:
    present = there.present(row.group, row.partition)
    if isinstance(present, TanistError):
        return replace(
            row, decision=Withheld(f"cannot determine the offset committed at the destination: {present.reason}")
        )
    if refused is not None:
        return replace(row, present=present, decision=Withheld(refused))
    if present is not None and there.mark:
        present = replace(present, rewound_from=_rewound_from(row, present, there.mark))
    return replace(
        row,
        present=present,
        decision=decide(
            row.translation,
            present,
            row.compared.proof,
            rules,
            row.translator.basis,
            row.trusted,
        ),
    )


def _rewound_from(row: PositionRow, present: Present, mark: str) -> int | None:
    """The position at the source that was committed last, if the group is at a lower one there now.

    Only as the source itself says now: what is stored of a source that is silent may be older than what was committed.
    """
    before = marked_offset(present.metadata, mark)
    return before if before is not None and row.position.direct and row.position.offset < before else None


def to_commit(
    rows: Iterable[PositionRow],
    mark: Callable[[PositionRow], str],
    renew: bool = True,  # noqa: FBT001, FBT002 -- of one caller
) -> dict[str, dict[MirrorPartition, CommitChange]]:
    """The offsets to commit, by group. `mark`: the metadata of each. `renew`: also what stays there, as it is."""
    wanted: dict[str, dict[MirrorPartition, CommitChange]] = {}
    for row in rows:
        there = None if row.present is None else CommittedPosition(row.present.offset, row.present.metadata)
        match row.decision:
            case Commit(offset):
                change = CommitChange(there, CommittedPosition(offset, mark(row)))
            case Withheld(keeps=True) if there is not None and renew:
                change = CommitChange(there, there)
            case _:
                continue
        wanted.setdefault(row.group, {})[row.partition] = change
    return wanted
