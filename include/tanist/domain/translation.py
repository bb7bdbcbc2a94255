"""Translation of committed offsets, and whether the result may be committed at the destination. Pure decisions.

A translation is exact, or a lower bound with a reason, or unknown with a reason; never a guess. A commit that is not
certainly right is withheld with a reason, for one partition or one group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from tanist.domain.commit_marks import OUR_MARK
from tanist.domain.offset_map import OffsetMap
from tanist.domain.rewinds import OnRewind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from tanist.domain.errors import TanistError
    from tanist.domain.log_ends import Span
    from tanist.domain.mirrormaker.history import Mm2Partition
    from tanist.domain.names import DestinationOffset, SourceOffset
    from tanist.domain.reconciled.published import Reconciled
    from tanist.domain.record_times import TimedPosition

_SETTLED: Final = {"Empty", "Dead", ""}
"""States of a group without members (GroupState). Brokers before 2.6 report none; then its members are counted."""
_NO_SIMPLE_COMMITS: Final = {"share"}


class Precision(StrEnum):
    EXACT, CONSERVATIVE, UNKNOWN = "exact", "conservative", "unknown"


class Proof(StrEnum):
    """Whether the record at the source position and the one at the translated position are the same, byte by byte.

    NONE: nothing to compare (the source is down, the position is at the end, the record was deleted).
    """

    MATCH, MISMATCH, NONE = "match", "mismatch", "none"


Evidence: TypeAlias = "tuple[SourceOffset, DestinationOffset]"
"""Two offsets that hold the same record if the translation is right, at the source and at the destination."""


@dataclass(frozen=True, slots=True)
class Exact:
    """`evidence`: None: the position itself and `offset`."""

    offset: DestinationOffset
    evidence: Evidence | None = None
    why: ClassVar[None] = None
    precision: ClassVar = Precision.EXACT


@dataclass(frozen=True, slots=True)
class Conservative:
    """A lower bound: no record of the mirror partition is skipped, some may be consumed twice.

    `ahead`: by how many offsets the group was ahead of the mirror partition; such positions are clamped to its end.
    `evidence`: the records that it was concluded from; None: there is nothing to compare.
    """

    offset: DestinationOffset
    why: str
    ahead: int = 0
    evidence: Evidence | None = None
    precision: ClassVar = Precision.CONSERVATIVE


@dataclass(frozen=True, slots=True)
class Unknown:
    why: str
    precision: ClassVar = Precision.UNKNOWN


Translation: TypeAlias = Exact | Conservative | Unknown


def to_compare(position: SourceOffset, translation: Translation) -> Evidence | None:
    """The offsets whose records prove the translation of `position` if they are the same; None: nothing does."""
    match translation:
        case Unknown():
            return None
        case Exact(offset, evidence=None):
            return (position, offset)
        case _:
            return translation.evidence


def settled(position: SourceOffset, translation: Translation, proof: Proof, unproved: str) -> Translation:
    """The translation once its records were compared, or could not be.

    `unproved`: of its translator. Not empty: what it calls exact is a lower bound, for this reason, without a match.
    """
    if isinstance(translation, Exact) and unproved and proof is not Proof.MATCH:
        return Conservative(translation.offset, unproved, evidence=to_compare(position, translation))
    return translation


# ── strategies ────────────────────────────────────────────────────────────────────────────────────────────────────


class InputKind(StrEnum):
    """What is read of mirror partitions before positions are translated: a field of `Inputs`."""

    OFFSET_MAP = "offset map"
    MM2 = "offset-syncs of MirrorMaker 2"
    RECORD_TIMES = "timestamps of records"
    RECONCILIATION = "reconciliation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What was read of one mirror partition; what its translator does not need is at its default.

    `copy`: where its log begins and ends; None: it could not be read. `missing`: why a kind of input is not there.
    `times`: of each committed offset; an error: they could not be read. `reconciled`: its published reconciliation;
    None: there is none, for the reason `unreconciled` (empty: none was ever published).
    """

    copy: Span[DestinationOffset] | None
    map: OffsetMap = field(default_factory=OffsetMap)
    missing: Mapping[InputKind, str] = field(default_factory=dict)
    mm2: Mm2Partition | None = None
    times: Mapping[SourceOffset, TimedPosition] | TanistError = field(default_factory=dict)
    reconciled: Reconciled | None = None
    unreconciled: str = ""


def _no_peers(_group: str, _position: SourceOffset, _read: Inputs) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Translator:
    """A strategy of translation. `needs`: what is to be read first; `basis`: what it goes by, as a noun.

    `translate` is pure. Its answer lies in `Inputs.copy`, skips no copied record at or after the position, and does
    not fall while the position rises. Exact: nothing is consumed twice, and the records at both offsets are the same.
    `explain`: how it came to the answer, in one line. `unproved`: as `settled` has it; empty: exact without a proof.
    `peers`: what others who go by the same would answer for a position of a group, a line each. `blames_itself`: a
    mismatch means that its own answer is wrong; otherwise that the logs are not what all take them for.
    """

    name: str
    basis: str
    needs: frozenset[InputKind]
    translate: Callable[[SourceOffset, Inputs], Translation]
    explain: Callable[[SourceOffset, Inputs], str]
    unproved: str = ""
    peers: Callable[[str, SourceOffset, Inputs], Sequence[str]] = _no_peers
    blames_itself: bool = False

    def answer(self, position: SourceOffset, read: Inputs) -> Translation:
        """As `translate`; Unknown where something that it needs is missing."""
        missing = [read.missing[kind] for kind in sorted(self.needs) if kind in read.missing]
        return Unknown("; ".join(missing)) if missing else self.translate(position, read)


@dataclass(frozen=True, slots=True)
class Tried:
    """What one strategy has answered, settled by a comparison of its records as far as there was one.

    `compared`: the proof in words.
    """

    translator: Translator
    translation: Translation
    proof: Proof = Proof.NONE
    compared: str = "not compared"

    @classmethod
    def of(
        cls, translator: Translator, position: SourceOffset, answer: Translation, proof: Proof, compared: str
    ) -> Self:
        """`answer`, settled by its proof."""
        return cls(translator, settled(position, answer, proof, translator.unproved), proof, compared)

    @property
    def trusted(self) -> bool:
        """Whether the answer holds by itself, or by its proof."""
        bare = isinstance(self.translation, Exact | Conservative) and self.translation.evidence is not None
        return not self.translator.unproved or self.proof is Proof.MATCH or not bare

    @property
    def refuted(self) -> bool:
        """Whether its own records show that it is wrong; nobody else's answer is doubted then."""
        return self.proof is Proof.MISMATCH and self.translator.blames_itself


def best(tried: Sequence[Tried]) -> Tried:
    """Of those that can be trusted the first exact answer, else the highest lower bound: none of them skips a record.

    Else the same of those whose records could not be compared; else why all are unknown. Where the records at an answer
    that rests on both logs differ, that answer is the only one, as no other can be trusted. `tried`: at least one, the
    preferred first.
    """
    doubted = next((each for each in tried if each.proof is Proof.MISMATCH and not each.refuted), None)
    if doubted is not None:
        return doubted
    known = [each for each in tried if not isinstance(each.translation, Unknown) and not each.refuted]
    for group in ([each for each in known if each.trusted], [each for each in known if not each.trusted]):
        exact = next((each for each in group if isinstance(each.translation, Exact)), None)
        if exact is not None:
            return exact
        if group:
            return max(group, key=_offset)
    proof = Proof.MISMATCH if any(each.refuted for each in tried) else tried[0].proof
    compared = "; ".join(dict.fromkeys(each.compared for each in tried))
    return Tried(tried[0].translator, Unknown("; ".join(_whys(tried))), proof, compared)


def _whys(tried: Sequence[Tried]) -> Iterator[str]:
    for each in tried:
        why = f"the records that it goes by differ: {each.compared}" if each.refuted else each.translation.why
        yield f"{each.translator.name}: {why}" if len(tried) > 1 else str(why)


def _offset(of: Tried) -> int:
    return -1 if isinstance(of.translation, Unknown) else of.translation.offset


# ── what may be committed ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Present:
    """The committed offset at the destination.

    `outdated`: the group committed it while this cluster was the primary, before another one took over.
    `rewound_from`: the position at the source that we have translated to it, if the group was set back there since.
    """

    offset: DestinationOffset
    metadata: str
    outdated: bool = False
    rewound_from: int | None = field(default=None, compare=False)

    @property
    def ours(self) -> bool:
        return self.metadata.startswith(OUR_MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupThere:
    """A group at the destination. `synced`: some of its committed offsets are ours, all are outdated, or it has none.

    A commit of ours that was aborted leaves an empty group.
    """

    kind: str
    state: str
    members: int | None
    synced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator allows beyond the default. A group with members, or a mismatch, is never allowed."""

    existing: bool = False
    """Also groups that existed at the destination before."""
    backwards: bool = False
    """Also to an earlier offset than the committed one."""
    unproved: bool = False
    """Also answers that need a proof, where their records could not be compared."""
    on_rewind: OnRewind = OnRewind.HOLD
    """The policy of the mirror for groups that were set back at the source."""


@dataclass(frozen=True, slots=True)
class Commit:
    offset: DestinationOffset


@dataclass(frozen=True, slots=True)
class Stays:
    """The destination already has the same offset, committed by another client: nothing to write."""

    why: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """Must not be committed, with the reason. `asks`: a person decides whether it follows a rewind at the source.

    `keeps`: what is there is ours and stays: it is committed again as it is when positions are renewed, as it would
    expire otherwise, and then nothing would be left that this one must not move.
    """

    why: str
    asks: bool = False
    keeps: bool = False


Decision: TypeAlias = Commit | Stays | Withheld


def objection(there: GroupThere | None, rules: Rules) -> str | None:
    """Why no offset of a group may be committed; None: it may. `there` is None for a new group."""
    if there is None:
        return None
    if there.kind in _NO_SIMPLE_COMMITS:
        return f"it is a {there.kind} group at the destination"
    if there.state not in _SETTLED or there.members:
        members = f"{there.members} member(s)" if there.members else "members"
        return f"it has {members} at the destination (state {there.state or 'unknown'}): stop them first"
    if not there.synced and not rules.existing:
        return "it existed at the destination before it was translated: include such groups with --existing"
    return None


def decide(
    translation: Translation,
    present: Present | None,
    proof: Proof,
    rules: Rules,
    basis: str = "translation",
    trusted: bool = True,  # noqa: FBT001, FBT002 -- of `Tried`
) -> Decision:
    """What to do with one position of a group without an `objection`. `basis`: of its translator.

    An offset of ours is committed again even if it has not changed: that renews its retention at the destination. An
    outdated one is as good as ours: what the group has read since is its position at the source. One of ours is set
    back only with `rules.backwards`, or where the group was set back at the source and the mirror's policy follows.
    """
    rewound = present is not None and present.rewound_from is not None
    if isinstance(translation, Unknown):
        return Withheld(translation.why, keeps=rewound)
    if proof is Proof.MISMATCH:
        return Withheld(
            f"the records at both offsets differ, so the {basis} is wrong here: see `tanist groups explain`"
        )
    if not trusted and not rules.unproved:
        return Withheld(
            f"the records that the {basis} say are the same could not be compared: add --unproved", keeps=rewound
        )
    if present is None or present.ours or present.outdated:
        return _of_ours(translation.offset, present, rules)
    return _of_theirs(translation.offset, present, rules)


def _of_ours(offset: DestinationOffset, present: Present | None, rules: Rules) -> Decision:
    if present is None or offset >= present.offset or rules.backwards:
        return Commit(offset)
    if present.rewound_from is None or rules.on_rewind is OnRewind.HOLD:
        return Withheld(
            f"the destination has already committed {present.offset}, and offsets are not moved backwards",
            keeps=present.ours,
        )
    if rules.on_rewind is OnRewind.FOLLOW:
        return Commit(offset)
    return Withheld(
        f"it was set back at the source, from {present.rewound_from}, and the destination has committed "
        f"{present.offset}: `tanist groups sync --backwards` with --group follows",
        asks=True,
        keeps=True,
    )


def _of_theirs(offset: DestinationOffset, present: Present, rules: Rules) -> Decision:
    """The decision on an offset that a consumer of the destination has committed."""
    if present.offset == offset:
        return Stays("already committed at the destination")
    if not rules.existing:
        return Withheld(
            f"{present.offset} was committed by a consumer at the destination: include such groups with --existing"
        )
    return _of_ours(offset, present, rules)
