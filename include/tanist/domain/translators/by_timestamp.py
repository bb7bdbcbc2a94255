"""Translation by the timestamps of records, beside a copy that somebody else makes.

The records at or behind a position are unread. The answer is the first record of the copy that is as late as the
earliest of them. MirrorGroupOffsetConnector takes the timestamp of the record at the position alone: if a later record
has an earlier timestamp, and the record itself is missing in the copy, it skips the later one.

A position is committed only if this is proved, by either of

- all unread records were read for their timestamps: none of their copies is older than the earliest, so none lies
  before the answer, in whatever order they were copied;
- as many of them as `ReadLimits` allow were read, and the copy holds one of those (or an earlier one), byte for byte
  and with its timestamp, at or behind the answer: since records are copied in order, so do the copies of all that
  follow it (`record_times.common_record`).

It is exact only if the copy was also read, as far as `ReadLimits` allow, from there to its end, and all of that is as
late: a copier that was started again repeats records, and these would be read again. Not noticed are repeats of what
the source has cleaned since, if it is later than the record at the position, and such as the copy's broker has stamped.

Both rest on timestamps that the copy has kept, so both need such a common record. If it is a later one than the next
unread record, and the record directly before the answer was stamped by the copy's broker, unread ones may be among
those: the answer is lowered. What is not proved:

- A copier that has itself changed timestamps for a while, and keeps them now, is not noticed.
- Records are taken to be the same if their bytes and timestamps are. Where more is unread than was read, a record that
  the source holds twice can be mistaken for the common one, if the copy has lost all records read from the position on,
  and the records between both occurrences have earlier timestamps. A record that the source has cleaned can be mistaken
  for one that is equal to it and was read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.names import DestinationOffset, SourceOffset, iso_time
from tanist.domain.record_times import Floor, TimestampType
from tanist.domain.translation import Conservative, Exact, InputKind, Translator, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.record_times import FirstSince, TimedPosition, TimedRecord
    from tanist.domain.translation import Inputs, Translation

_CONFIG: Final = "message.timestamp.type"
_MAYBE_AGAIN: Final = "the very record; whether earlier ones were copied again behind it is not known"
_STAMPED: Final = (
    f"the mirror partition's records before the answer have the times of its broker ({_CONFIG} was "
    f"{TimestampType.LOG_APPEND}), and may be unread"
)
_GONE: Final = "the source has deleted or cleaned records at the position, which the mirror partition may still have"


def translate(position: SourceOffset, read: Inputs) -> Translation:
    """The destination offset for the committed offset `position`."""
    if read.copy is None:
        return Unknown("the log of the mirror partition could not be read")
    if isinstance(read.times, TanistError):
        return Unknown(f"the timestamps of its records could not be read: {read.times.name}: {read.times.reason}")
    seen = read.times.get(position)
    if seen is None:
        return Unknown(f"{position} is not a valid offset" if position < 0 else "its record was not read")
    found = _beside_the_connector(_at_least(judge(position, seen), seen.floor), seen.seed_answer)
    if not isinstance(found, Unknown) and found.offset > read.copy.end:
        return Unknown(f"not mirrored yet: the mirror partition ends at {read.copy.end}")
    if not isinstance(found, Unknown) and found.offset < read.copy.start:
        return Conservative(
            read.copy.start, f"the mirror partition begins at {read.copy.start}: older records are gone"
        )
    return found


def with_floors(positions: Mapping[SourceOffset, TimedPosition]) -> dict[SourceOffset, TimedPosition]:
    """Each position with the largest answer for a lower one: what it leaves unread is part of what that one does."""
    found: dict[SourceOffset, TimedPosition] = {}
    floor: Floor | None = None
    for position, seen in sorted(positions.items()):
        found[position] = replace(seen, floor=floor)
        answer = judge(position, seen)
        if not isinstance(answer, Unknown) and (floor is None or answer.offset > floor.offset):
            floor = Floor(position, answer.offset)
    return found


def _at_least(found: Translation, floor: Floor | None) -> Translation:
    if isinstance(found, Unknown) or floor is None or found.offset >= floor.offset:
        return found
    return Conservative(
        floor.offset, f"position {floor.position} before it is at {floor.offset}, so nothing is skipped"
    )


def _beside_the_connector(found: Translation, answer: DestinationOffset | None) -> Translation:
    """A lower bound says what the connector would commit, where that is later: it may skip records."""
    if not isinstance(found, Conservative) or answer is None or answer <= found.offset:
        return found
    return replace(found, why=f"{found.why}; {_seed(answer)}")


# ── one position ──────────────────────────────────────────────────────────────────────────────────────────────────


def judge(position: SourceOffset, seen: TimedPosition) -> Translation:
    """The answer from what was read of this position alone."""
    refused = _refused(position, seen)
    if refused is not None:
        return Unknown(refused)
    if seen.copied is not None and seen.copied.record is not None:
        return _found(position, seen, seen.copied, seen.copied.record)
    if seen.unread.record is None and seen.unread.whole:
        return _at_the_end(seen) if seen.unread.earliest is None else _before_unfinished(seen, seen.unread.earliest)
    return Unknown(_not_mirrored(seen))


def _found(position: SourceOffset, seen: TimedPosition, found: FirstSince, copied: TimedRecord) -> Translation:
    """`copied`: the first record of the copy that is as late as the earliest unread one."""
    record, offset = seen.unread.record, DestinationOffset(copied.offset)
    if seen.common is None:
        return Unknown(
            f"no record of the mirror partition from {offset} on is one of the source near the position: "
            "whether the copy keeps the source's timestamps could not be proved"
        )
    before = _unproved_before(position, seen)
    if before is not None:
        return _lowered(seen, DestinationOffset(found.offset), before)
    if not (found.certain or _is_same(copied, record) or _is_first(seen, copied)):
        marker = f"offset {found.offset} is a marker with the broker's time"
        return Conservative(
            DestinationOffset(found.offset), f"{marker}: which record behind it is the first could not be proved"
        )
    if record is not None and is_very_record(seen):
        if _nothing_again(seen):
            return Exact(offset)
        return Conservative(offset, _MAYBE_AGAIN, evidence=(SourceOffset(record.offset), offset))
    return Conservative(offset, "; ".join(_reasons(position, seen)))


def _refused(position: SourceOffset, seen: TimedPosition) -> str | None:
    """Why timestamps say nothing here."""
    if position > seen.source.end:
        return f"the source ends at {seen.source.end}, before the position: it was truncated, or created again"
    found = None if seen.copied is None else seen.copied.record
    if any(each is not None and each.type is TimestampType.LOG_APPEND for each in (seen.copy_last, found)):
        return (
            f"{_CONFIG} of the mirror topic is {TimestampType.LOG_APPEND}: its records have the times of its broker, "
            f"not those of the source; set it to {TimestampType.CREATE}"
        )
    earliest = seen.unread.earliest
    if earliest is not None and earliest.timestamp < 0:
        return f"source record {earliest.offset} has no timestamp"
    return None


def _not_mirrored(seen: TimedPosition) -> str:
    since = "" if seen.unread.earliest is None else f" since {iso_time(seen.unread.earliest.timestamp)}"
    last = "none at all" if seen.copy_last is None else f"its last one is of {iso_time(seen.copy_last.timestamp)}"
    return f"not mirrored yet: the mirror partition has no record{since}, {last}; the group keeps its offset there"


def _at_the_end(seen: TimedPosition) -> Translation:
    """The group has read everything, and so all that the copy had before: its end was read before the source's."""
    if _is_same(seen.before, seen.copy_last):
        return Exact(seen.copy.end)
    if seen.unread.missing is not None:
        return _lowered(seen, seen.copy.end, _GONE)
    return Conservative(
        seen.copy.end, "at the end of the source, whose last record is not the last one of the mirror partition (yet)"
    )


def rests_on_a_later_one(position: SourceOffset, seen: TimedPosition) -> bool:
    """Whether the copy kept the timestamp of a record behind the next unread one, and perhaps not of those before."""
    nearest = position if seen.unread.record is None else seen.unread.record.offset
    return seen.common is not None and seen.common.source > nearest


def _unproved_before(position: SourceOffset, seen: TimedPosition) -> str | None:
    """Why unread records may lie before the answer; None: none do."""
    previous = seen.copied_before
    if missing_matters(position, seen) and not _is_same(seen.before, previous):
        return _GONE
    if previous is not None and previous.type is TimestampType.LOG_APPEND and rests_on_a_later_one(position, seen):
        return _STAMPED
    return None


def _before_unfinished(seen: TimedPosition, earliest: TimedRecord) -> Translation:
    """Only records of open or aborted transactions are unread: those that are committed later will be read.

    Their copies, if any, are not visible either, or a copier that reads uncommitted records has not written them yet.
    So all of them lie behind the copy's last visible record.
    """
    unfinished = f"the source's records from {earliest.offset} on are of a transaction that is open or was aborted"
    before, last = seen.before, seen.copy_last
    certain = seen.none_copied and seen.unread.missing is None
    if certain and before is not None and last is not None and before.digest == last.digest:
        if last.offset + 1 >= seen.copy.end:
            return Exact(seen.copy.end)
        evidence = (SourceOffset(before.offset), DestinationOffset(last.offset))
        why = f"{unfinished}: behind the last record before it"
        return Conservative(DestinationOffset(last.offset + 1), why, evidence=evidence)
    if seen.lowered is not None and seen.lowered_common is not None:
        return _lowered(seen, seen.copy.end, unfinished)
    return Unknown(f"{unfinished}, and what the mirror partition has of them could not be told")


def missing_matters(position: SourceOffset, seen: TimedPosition) -> bool:
    """Whether the copy may have, before the answer, records from the position on that the source has no more.

    Not behind the common record. And not if what the source has before the position lies directly before the answer.
    """
    missing, proof = seen.unread.missing, seen.common
    return missing is not None and (proof is None or position <= missing < proof.source)


def _lowered(seen: TimedPosition, offset: DestinationOffset, why: str) -> Translation:
    """At most `offset`: where the copy has the record before the position. Timestamps say nothing of those behind."""
    lowered = seen.lowered
    if lowered is None or lowered.record is None or seen.lowered_common is None:
        return Conservative(seen.copy.start, f"{why}: from its start on")
    before = lowered.record.offset if lowered.certain else lowered.offset
    return Conservative(DestinationOffset(min(offset, before)), f"{why}: from the record before them on")


def _is_same(one: TimedRecord | None, other: TimedRecord | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.digest == other.digest


def _is_first(seen: TimedPosition, copied: TimedRecord) -> bool:
    """Whether the copy's record is the one that the source has as its first since then, at or before the position."""
    first, record = None if seen.first is None else seen.first.record, seen.unread.record
    if first is None or record is None:
        return False
    return first.offset <= record.offset and _is_same(first, copied)


def _nothing_before(seen: TimedPosition) -> bool:
    """Whether the source has no record before that of the position that is as late as the earliest unread one."""
    first, record = seen.first, seen.unread.record
    if first is None or first.record is None or record is None:
        return False
    return first.certain and first.record.offset == record.offset


def is_very_record(seen: TimedPosition) -> bool:
    """Whether the answer is the copy of the next unread record, and no earlier one of the source is as late."""
    copied = None if seen.copied is None else seen.copied.record
    return copied is not None and _is_same(copied, seen.unread.record) and _nothing_before(seen)


def _nothing_again(seen: TimedPosition) -> bool:
    """Whether the copy, read to its end from the answer of `is_very_record` on, has only what is as late as unread.

    All that the source has before the position is earlier. A copier that was started again may have repeated it there.
    """
    earliest, behind = seen.unread.earliest, seen.behind
    if earliest is None or behind is None or behind.earliest is None:
        return False
    return behind.whole and behind.earliest.timestamp >= earliest.timestamp


def _reasons(position: SourceOffset, seen: TimedPosition) -> Iterator[str]:
    """Why the answer is not exact."""
    record, earliest, first = seen.unread.record, seen.unread.earliest, seen.first
    if record is not None and earliest is not None and earliest.timestamp < record.timestamp:
        yield (
            f"timestamps of the source are not in order: record {earliest.offset} is "
            f"{record.timestamp - earliest.timestamp} ms older than {record.offset}, and not read yet"
        )
    if first is not None and first.record is not None and record is not None and first.record.offset < record.offset:
        if first.record.timestamp > record.timestamp:
            yield (
                f"timestamps of the source are not in order: record {first.record.offset} is "
                f"{first.record.timestamp - record.timestamp} ms later than {record.offset}"
            )
        yield f"up to {max(0, position - first.offset)} record(s) are read again: they are as late as the next one"
    elif seen.copied is not None and not _is_same(seen.copied.record, record):
        yield "the record at the position is not in the mirror partition, or not yet: from the next one on"
    else:
        yield "some records may be read again: whether older ones are as late as the next one could not be proved"


# ── explained ─────────────────────────────────────────────────────────────────────────────────────────────────────


def explain(position: SourceOffset, read: Inputs) -> str:
    """The records that the answer rests on, and what MirrorGroupOffsetConnector would have answered."""
    if isinstance(read.times, TanistError):
        return f"timestamp: not read: {read.times.name}: {read.times.reason}"
    seen = read.times.get(position)
    if seen is None:
        return "timestamp: the record at the position was not read"
    return "timestamp: " + "; ".join(
        (_source(seen), _since(seen), _copied(seen.copied), _proof(seen), _seed(seen.seed_answer))
    )


def _source(seen: TimedPosition) -> str:
    record = seen.unread.record
    if record is None:
        last = "it has none" if seen.before is None else f"the last one is {_named(seen.before)}"
        return f"the source has no record at or behind the position, {last}"
    return f"the source has record {_named(record)} there" + (
        "" if seen.unread.missing is None else f", a record is missing from {seen.unread.missing} on"
    )


def _since(seen: TimedPosition) -> str:
    how = "all" if seen.unread.whole else f"those below {seen.unread.until}"
    earliest = seen.unread.earliest
    return f"of the unread records {how} were read" + (f", the earliest is {_named(earliest)}" if earliest else "")


def _copied(found: FirstSince | None) -> str:
    if found is None or found.record is None:
        return "the mirror partition has no record since then"
    marker = "" if found.offset == found.record.offset else f" (behind {found.offset}, a marker)"
    how = "" if found.certain else ", by bisection"
    return f"its first record since then is {_named(found.record)}{marker}{how}"


def _proof(seen: TimedPosition) -> str:
    if seen.common is None:
        return "no record was found in both logs"
    return f"source record {seen.common.source} is destination record {seen.common.destination}"


def _seed(answer: DestinationOffset | None) -> str:
    return f"MirrorGroupOffsetConnector would {'defer it' if answer is None else f'commit {answer}'}"


def _named(record: TimedRecord) -> str:
    return f"{record.offset} of {iso_time(record.timestamp)} ({record.type})"


TIMESTAMP: Final = Translator(
    name="timestamp",
    basis="timestamp",
    needs=frozenset({InputKind.RECORD_TIMES}),
    translate=translate,
    explain=explain,
    blames_itself=True,
)
