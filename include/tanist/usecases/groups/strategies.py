"""The strategies of translation: which of them serve a topic, what is read for each, and what they answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tanist.domain.copier import Copier
from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.followed import NoCopy, is_followed
from tanist.domain.names import MirrorPartition, SourceOffset
from tanist.domain.record_times import ReadLimits
from tanist.domain.renaming import mm2_alias
from tanist.domain.translation import Exact, InputKind, Inputs, Proof, Tried, Unknown, best, to_compare
from tanist.domain.translators.by_map import MAP
from tanist.domain.translators.by_mm2 import MM2
from tanist.domain.translators.by_reconciliation import RECONCILED
from tanist.domain.translators.by_timestamp import TIMESTAMP
from tanist.domain.translators.choice import StrategyChoice, preferred
from tanist.ports.positions import Pair, ProofResult
from tanist.usecases.groups.mm2 import Mm2Setting, read_mm2
from tanist.usecases.groups.reconciled import read_reconciled
from tanist.usecases.groups.times import read_times
from tanist.usecases.offset_policy import offset_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.domain.translation import Translation, Translator
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.gather import Chosen, Gathered, Views
    from tanist.usecases.mirror import OpenMirror

_NOT_COMPARED: Final = ProofResult(Proof.NONE, "not compared")
_NOTHING_TO_COMPARE: Final = ProofResult(Proof.NONE, "only an exact translation can be compared")
TRANSLATORS: Final[Mapping[str, Translator]] = MappingProxyType(
    {each.name: each for each in (MAP, RECONCILED, MM2, TIMESTAMP)}
)
"""The strategies of translation, by their names."""

Positions: TypeAlias = "Mapping[MirrorPartition, frozenset[SourceOffset]]"
Key: TypeAlias = "tuple[MirrorPartition, SourceOffset]"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered for one position. `tried`: by each strategy that was asked; `read`: what they went by."""

    best: Tried
    tried: tuple[Tried, ...]
    read: Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reader is given. `wanted`: the positions to translate; `explained`: each answer will be explained."""

    mirror: OpenMirror
    seen: Gathered
    stored: Views
    wanted: Positions
    context: CommandContext
    explained: bool = False


Prove: TypeAlias = "Callable[[Sequence[Pair]], Mapping[Pair, ProofResult]]"
"""Compares the records of pairs; those that it leaves out were not compared."""

Filled: TypeAlias = "Mapping[MirrorPartition, Mapping[str, Any]]"
"""By partition: fields of its `Inputs`."""


def _maps(reading: Reading) -> Filled:
    spec = reading.seen.spec
    if is_followed(spec):
        who = spec.copied_by.in_words
        return _missing(reading, InputKind.OFFSET_MAP, f"{who} copies the records, and keeps no offset map")
    stored = reading.stored
    offsets = offset_policy(spec, reading.mirror.destination, stored.state, stored.offsets, reading.context.by)
    return {at: {"map": offsets.map_of(at)} for at in reading.wanted}


def _missing(reading: Reading, kind: InputKind, why: str) -> Filled:
    return {at: {"missing": {kind: why}} for at in reading.wanted}


def _mm2(reading: Reading) -> Filled:
    spec = reading.seen.spec
    source, destination = spec.mm2_aliases or (mm2_alias(spec.rename, spec.source), None)
    setting = Mm2Setting(source_alias=source, destination_alias=destination)
    answers = reading.seen.source_answer.down is None
    found = read_mm2(
        reading.mirror,
        reading.wanted,
        reading.context,
        setting,
        ask_source=answers,
        checkpoints=reading.explained,
    )
    return {at: {"mm2": each} for at, each in found.items()}


def _times(reading: Reading) -> Filled:
    down = reading.seen.source_answer.down
    if down is not None:
        return {at: {"times": down} for at in reading.wanted}
    limits = ReadLimits.within(reading.seen.spec.poll_timeout_ms)
    found = read_times(reading.mirror, reading.wanted, reading.seen.copies, reading.context, limits)
    return {at: {"times": each} for at, each in found.items()}


def _reconciled(reading: Reading) -> Filled:
    answers = reading.seen.source_answer.down is None
    found = read_reconciled(reading.mirror, reading.wanted, reading.stored, reading.context, ask_source=answers)
    return {
        at: {"unreconciled": each.reason} if isinstance(each, TanistError) else {"reconciled": each}
        for at, each in found.items()
    }


READERS: Final[Mapping[InputKind, Callable[[Reading], Filled]]] = MappingProxyType(
    {
        InputKind.OFFSET_MAP: _maps,
        InputKind.MM2: _mm2,
        InputKind.RECORD_TIMES: _times,
        InputKind.RECONCILIATION: _reconciled,
    }
)


def translator(name: str) -> Translator:
    """Raises Misconfigured: there is no strategy of that name."""
    if name not in TRANSLATORS:
        raise Misconfigured(f"--strategy {name!r} is not one of {', '.join(TRANSLATORS)}")
    return TRANSLATORS[name]


_PREFERRED: Final[Mapping[Copier, tuple[str, ...]]] = MappingProxyType(
    {
        Copier.TANIST: (MAP.name,),
        Copier.MM2: (RECONCILED.name, MM2.name, TIMESTAMP.name),
        Copier.OTHER: (RECONCILED.name, TIMESTAMP.name),
    }
)
"""By who copies the records: the strategies of a mirror that names none."""


def candidates(spec: MirrorSpec, topic: str, only: str) -> tuple[Translator, ...]:
    """The strategies for a topic of the source, the preferred first. `only`: the name of the single one, or empty.

    Raises:
        Misconfigured: there is no strategy of that name.
    """
    if only:
        return (translator(only),)
    choices = [StrategyChoice.parse(text) for text in spec.strategies]
    return tuple(map(translator, preferred(topic, choices, _PREFERRED[spec.copied_by])))


def answered(
    mirror: OpenMirror, seen: Gathered, stored: Views, chosen: Chosen, context: CommandContext, prove: Prove
) -> Mapping[Key, Answer]:
    """An answer for every position of every group that was gathered, compared as far as it can be.

    What a strategy needs is read only where the preferred ones have no answer that cannot be bettered, unless
    `chosen.every`.

    Raises:
        as `candidates`. What cannot be read is a reason in the answers.
    """
    positions = _positions(seen)
    spec = seen.spec
    copies = {at.topic: at for at in positions}
    order = {
        copy: candidates(spec, spec.names.at_source(at).topic, chosen.strategy) for copy, at in sorted(copies.items())
    }
    readable = {at: read for at, read in _readable(seen) if at in positions}
    found = dict(_unreadable(seen, positions, readable, order))
    reading = Reading(mirror=mirror, seen=seen, stored=stored, wanted={}, context=context, explained=chosen.every)
    turn = _Turn(reading, readable, found, prove)
    for stage in range(max(map(len, order.values()), default=0)):
        later = [at for at in readable if stage < len(order[at.topic])]
        left = {at: positions[at] if chosen.every else turn.left(at, positions[at]) for at in later}
        for each in dict.fromkeys(order[at.topic][stage] for at in left):
            turn.of(each, {at: of for at, of in left.items() if of and order[at.topic][stage] is each})
    return found


@dataclass(frozen=True, slots=True)
class _Turn:
    """Asks one strategy after the other, and adds what they answer to `found`."""

    reading: Reading
    inputs: dict[MirrorPartition, Inputs]
    found: dict[Key, Answer]
    prove: Prove

    def left(self, at: MirrorPartition, positions: frozenset[SourceOffset]) -> frozenset[SourceOffset]:
        """The positions whose answer another strategy may better."""
        known = {each: self.found.get((at, each)) for each in positions}
        return frozenset(each for each, of in known.items() if of is None or not _is_final(each, of))

    def of(self, each: Translator, wanted: Positions) -> None:
        """Read what the strategy needs, let it answer, and compare the records of its answers."""
        for kind in sorted(each.needs) if wanted else ():
            for at, fill in READERS[kind](replace(self.reading, wanted=wanted)).items():
                missing = {**self.inputs[at].missing, **fill.get("missing", {})}
                self.inputs[at] = replace(self.inputs[at], **{**fill, "missing": missing})
        answers = {
            (at, position): each.answer(position, self.inputs[at])
            for at, positions in wanted.items()
            for position in positions
        }
        pairs = {key: pair for key, answer in answers.items() if (pair := self._pair(*key, answer)) is not None}
        results = self.prove(sorted(set(pairs.values()))) if pairs else {}
        for key, answer in answers.items():
            result = results.get(pairs[key], _NOT_COMPARED) if key in pairs else _NOTHING_TO_COMPARE
            self._add(key, Tried.of(each, key[1], answer, result.proof, result.why))

    def _pair(self, at: MirrorPartition, position: SourceOffset, answer: Translation) -> Pair | None:
        found = to_compare(position, answer)
        return None if found is None else Pair(self.reading.seen.spec.names.at_source(at), found[0], at, found[1])

    def _add(self, key: Key, tried: Tried) -> None:
        before = self.found.get(key)
        every = (*(before.tried if before else ()), tried)
        self.found[key] = Answer(best(every), every, self.inputs[key[0]])


def _is_final(position: SourceOffset, found: Answer) -> bool:
    """Whether no other strategy can know better: the very record, or the end of the copy."""
    held = found.best
    if not held.trusted or isinstance(held.translation, Unknown):
        return False
    offset = held.translation.offset
    very = held.proof is Proof.MATCH and to_compare(position, held.translation) == (position, offset)
    end = found.read.copy is not None and offset >= found.read.copy.end
    return isinstance(held.translation, Exact) or very or end


def _unreadable(
    seen: Gathered,
    positions: Positions,
    readable: Mapping[MirrorPartition, Inputs],
    order: Mapping[str, tuple[Translator, ...]],
) -> Iterator[tuple[Key, Answer]]:
    for at in positions.keys() - readable.keys():
        first = Tried(order[at.topic][0], Unknown(_why_not(seen, at)))
        for each in positions[at]:
            yield (at, each), Answer(first, (first,), Inputs(copy=None))


def _positions(seen: Gathered) -> Positions:
    found = defaultdict[MirrorPartition, set[SourceOffset]](set)
    for positions in seen.positions.values():
        for at, each in positions.items():
            found[at].add(each.offset)
    return {at: frozenset(each) for at, each in found.items()}


def _readable(seen: Gathered) -> Iterator[tuple[MirrorPartition, Inputs]]:
    for at, copy in seen.copies.items():
        if not isinstance(copy, TanistError) and at not in seen.preparing:
            yield at, Inputs(copy=copy)


def _why_not(seen: Gathered, at: MirrorPartition) -> str:
    copy = seen.copies[at]
    if isinstance(copy, NoCopy):
        return copy.reason
    if isinstance(copy, TanistError):
        return f"the destination does not answer: {copy.name}: {copy.reason}"
    return "the mirror partition is still PREPARING, so its end offset means nothing yet"
