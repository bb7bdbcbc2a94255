"""Which offset-syncs of a partition still hold. Pure.

An offset-sync says: the source record `upstream` was copied to `downstream`. A task copies in order, so every record
behind `upstream` that it has copied lies behind `downstream`. What breaks this:

- The destination's topic was re-created or truncated: `downstream` falls, or lies behind the end of its log. Nothing
  that was said before holds, not even of smaller offsets: they are used again.
- MM2 was killed: it goes on at the last position that it had committed, and some records are copied again. Then
  `upstream` falls, or rises less than `downstream`. Such a stretch is a *life* here (with MM2's own transactions each
  marker looks like it; that costs some precision, no safety). Behind where the new life has come, records may be
  at the destination only where the earlier one has put them: so the earlier one counts until the new one has copied
  all that it had. Before where the new life began, the earlier one counts for ever.
- The source's topic was re-created: it looks like the case before. If a record at the source is not the one that MM2
  says it has copied, the whole life is of another topic. `to_tell_apart` says what has to be compared: only where
  `upstream` falls. Where it rises, syncs of an older topic stay: they are lower bounds.

Not seen, as no offset-sync tells it:

- Two tasks that copy one partition at the same time (a zombie task, without exactly-once support). Their syncs can
  look like one life that has come farther than the later task has: 0 to 500 at the same offsets, then (400, 501) by
  the later task and (601, 610) by the cancelled one: 450 becomes 502, though it may be at 450 only until the later
  task comes there. Counting offsets does not tell them apart: those of both tasks are in between.
- A life that has not yet copied again all of the last one, if the cleaner has removed every sync of before it (it
  leaves the last segment of the topic alone), or if the last one was killed before it had written any sync of what the
  new one has not copied yet, where the source has holes, or at the very beginning of a source that no longer began at
  0 (from 0 on it shows: nothing else can lie before it in the copy). All pass as MM2 catches up.
- A topic that was created again on both clusters while MM2 ran, and happens to go on at the same offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import chain, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tanist.domain.log_ends import Span
    from tanist.domain.mirrormaker.records import Checkpoint, OffsetSync
    from tanist.domain.names import DestinationOffset, SourceOffset

Life: TypeAlias = "tuple[OffsetSync, ...]"
"""Syncs in the order of the topic, both offsets strictly increasing; never empty."""

NO_SYNCS: Final = "MirrorMaker 2 has written no offset-sync of this partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Partition:
    """What MM2's topics say of one partition.

    `syncs`: those that hold, both offsets strictly increasing. `exact_from`: at the syncs from this source offset on
    no record comes a second time. `missing`: why there are no syncs; empty: there are some.
    `written`: all syncs of the partition, as they are in the topic, for a replay of MM2's own store.
    `checkpoints`: MM2's latest one of each group: what MM2 answers, never evidence: before 3.5 it translated linearly,
    so they can be too far ahead. `notes`: what a person should know.
    """

    syncs: Life = ()
    exact_from: SourceOffset | None = None
    missing: str = NO_SYNCS
    written: tuple[OffsetSync, ...] = ()
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lives:
    """The syncs of a partition since the last downstream reset. `resets`: how many there were."""

    all: tuple[Life, ...]
    resets: int = 0


def lives(syncs: Iterable[OffsetSync]) -> Lives:
    """`syncs` in the order of the topic; a pair that is repeated counts once."""
    found: list[list[OffsetSync]] = []
    last: OffsetSync | None = None
    resets = 0
    for sync in syncs:
        if last is None or sync.downstream <= last.downstream:
            if last == sync:
                continue
            resets += last is not None
            found = [[sync]]
        elif sync.downstream - last.downstream > sync.upstream - last.upstream:
            found.append([sync])
        else:
            found[-1].append(sync)
        last = sync
    return Lives(tuple(map(tuple, found)), resets)


def to_tell_apart(known: Lives, source: Span[SourceOffset], copy: Span[DestinationOffset]) -> Life:
    """The earliest, the middle and the latest sync that both logs may still have, of the lives up to where they fall.

    If the records differ, the source's topic was re-created since. Nothing of lives that only rise: with MM2's own
    transactions each marker begins one.
    """
    found: list[OffsetSync] = []
    for stretch in _stretches(known.all)[:-1]:
        inside = [
            sync
            for sync in chain.from_iterable(stretch)
            if source.start <= sync.upstream < source.end and copy.start <= sync.downstream < copy.end
        ]
        found.extend(inside[index] for index in sorted({0, len(inside) // 2, len(inside) - 1}) if inside)
    return tuple(found)


def kept(
    syncs: Sequence[OffsetSync],
    copy: Span[DestinationOffset] | None,
    differing: Collection[OffsetSync] = (),
    matching: Collection[OffsetSync] = (),
) -> Mm2Partition:
    """The syncs that hold. `copy`: as it was after `syncs` were read.

    `differing`, `matching`: those of `to_tell_apart` whose records were compared. They differ only if both logs hold a
    record at the very offsets: where they do not, cleaners may have removed different records of both logs, and the
    next ones differ although the topic is the same.

    In doubt an earlier sync stays: it is a lower bound.
    """
    known = lives(syncs)
    if not known.all:
        return Mm2Partition()
    notes = _reset_notes(known)
    newest = known.all[-1][-1]
    if copy is not None and newest.downstream >= copy.end:
        why = (
            f"MirrorMaker 2 has copied {newest.upstream} to {newest.downstream}, but the copy ends at {copy.end}: it "
            "was truncated or re-created since, so no offset-sync holds any more"
        )
        return Mm2Partition(missing=why, written=tuple(syncs), notes=notes)
    same = _of_one_topic(known.all, differing, matching)
    if len(same) < len(known.all):
        notes = (*notes, f"the source's topic was re-created: what was written before {same[0][0].upstream} is dropped")
    main = _farthest(same, unseen=_unseen(same[0][0], copy) if len(same) == len(known.all) else 0)
    if main is None:
        first = same[0][0]
        why = (
            f"the first offset-sync that is left is {first.upstream} at {first.downstream}: MirrorMaker 2 had copied "
            "before it was written, and may not have come again as far"
        )
        return Mm2Partition(missing=why, written=tuple(syncs), notes=notes)
    chosen, later = _chained(same[: main + 1]), same[main + 1 :]
    if later:
        notes = (*notes, _unfinished(same[main], later))
    return Mm2Partition(
        syncs=chosen,
        exact_from=None if later else same[main][0].upstream,
        missing="",
        written=tuple(syncs),
        notes=notes,
    )


def _reset_notes(known: Lives) -> tuple[str, ...]:
    found = []
    if known.resets:
        first = known.all[0][0]
        found.append(
            f"the copy was truncated or re-created {known.resets} time(s): only offset-syncs from {first.upstream} at "
            f"{first.downstream} on count"
        )
    found.extend(
        f"offset-syncs go backwards from {before[-1].upstream} to {after[0].upstream}: MirrorMaker 2 has copied again "
        "from there, or the source's topic was re-created"
        for before, after in pairwise(known.all)
        if _falls(before, after)
    )
    return tuple(found)


def _unfinished(main: Life, later: Sequence[Life]) -> str:
    begin, end = min(life[0].upstream for life in later), main[-1].upstream
    if begin > end:
        return f"the copy has grown by more records than the source between {end} and {begin}: some may come again"
    return (
        f"MirrorMaker 2 copies again from {begin}, and may not have come again as far as {end}, and what it had behind"
    )


def _of_one_topic(
    all_lives: Sequence[Life], differing: Collection[OffsetSync], matching: Collection[OffsetSync]
) -> Sequence[Life]:
    """The lives behind the last one that is of another topic: a record of it differs, and none of its stretch matches.

    Lives of the stretch behind that one may be of the topic as it is now: they stay.
    """
    begin = passed = 0
    for stretch in _stretches(all_lives)[:-1]:
        if not any(sync in matching for sync in chain.from_iterable(stretch)):
            others = [index for index, life in enumerate(stretch) if any(sync in differing for sync in life)]
            begin = passed + others[-1] + 1 if others else begin
        passed += len(stretch)
    return all_lives[begin:]


def _stretches(all_lives: Sequence[Life]) -> Sequence[Sequence[Life]]:
    """The lives, parted where `upstream` falls."""
    falls = [index + 1 for index, (before, after) in enumerate(pairwise(all_lives)) if _falls(before, after)]
    return [all_lives[begin:end] for begin, end in pairwise([0, *falls, len(all_lives)])]


def _falls(before: Life, after: Life) -> bool:
    return after[0].upstream <= before[-1].upstream


def _unseen(first: OffsetSync, copy: Span[DestinationOffset] | None) -> int:
    """How many offsets before the first sync are of a life that has left none; 0: none, all of it is gone, or unknown.

    Nothing lies before source offset 0, so what the copy has before it was copied from there, too. Before a later first
    sync there are usually the records that come before it.
    """
    is_first = first.upstream == 0 and (copy is None or first.downstream > copy.start)
    return first.downstream if is_first else 0


def _farthest(all_lives: Sequence[Life], unseen: int) -> int | None:
    """The newest life that has certainly copied all that the earlier ones had; None: not even the first one has."""
    for index in range(len(all_lives) - 1, -1, -1):
        seen = all(_has_all_of(all_lives, index, earlier) for earlier in range(index))
        if seen and _has_all_unseen(all_lives[index], unseen):
            return index
    return None


def _has_all_unseen(life: Life, unseen: int) -> bool:
    """Whether `life` has copied the records that were copied to the first `unseen` offsets, from source offset 0 on."""
    return not unseen or any(life[-1].downstream - sync.downstream >= unseen for sync in life)


def _has_all_of(all_lives: Sequence[Life], later: int, earlier: int) -> bool:
    """Whether the life `later` has copied all records that `earlier` has, also those without a sync at its end.

    Both copied the records of one source in order. From a record on that both have copied, `earlier` has copied `most`
    records at most: all offsets up to where the next life began, or all source offsets up to its last sync and then
    all offsets. If `later` has copied as many from there on, it has come as far, or farther.
    """
    ours, theirs, begin = all_lives[later], all_lives[earlier], all_lives[earlier + 1][0].downstream
    if ours[-1].upstream < theirs[-1].upstream:
        return False
    behind = begin - theirs[-1].downstream - 1
    for sync in ours:
        before = bisect_right(theirs, sync.upstream, key=lambda each: each.upstream)
        most = [begin - 1 - theirs[before - 1].downstream] if before else []
        if theirs[0].upstream <= sync.upstream:
            most.append(max(0, theirs[-1].upstream - sync.upstream) + behind)
        if most and ours[-1].downstream - sync.downstream >= min(most):
            return True
    return ours[0].upstream < theirs[0].upstream and behind == 0


def _chained(all_lives: Sequence[Life]) -> Life:
    """The last life, and before its beginning the one before, and so on."""
    parts: list[Life] = []
    begin: SourceOffset | None = None
    for life in reversed(all_lives):
        end = len(life) if begin is None else bisect_left(life, begin, key=lambda each: each.upstream)
        if end:
            parts.append(life[:end])
            begin = life[0].upstream
    return tuple(chain.from_iterable(reversed(parts)))
