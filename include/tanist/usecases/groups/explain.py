"""`tanist groups explain`: how the translation of each partition was derived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.fake_group import is_fake
from tanist.domain.followed import NoCopy, group_is_followed
from tanist.domain.translation import Commit, Conservative, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.translation import Present, Translation
    from tanist.usecases.groups.gather import Gathered
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.sync import GroupSyncResult


def explain(row: PositionRow, seen: Gathered) -> tuple[str, ...]:
    """One line for each step of the translation, in order."""
    return tuple(_lines(row, seen))


def at_home(group: str, at: MirrorPartition, found: GroupSyncResult) -> tuple[str, ...]:
    """The same for a partition that was failed over: its offsets are no longer translated."""
    where = found.seen.spec.destination
    return (
        f"{at} was failed over: the offsets that group {group} commits at {where} are its own",
        _describe_committed(found.there.committed_position(group, at)),
        "decision: its offsets are no longer read at the source nor translated",
    )


def no_position(group: str, spec: MirrorSpec) -> str:
    """Why there is nothing to explain of `group`, which has no position in the mirror."""
    if group_is_followed(spec, group):
        return f"group {group!r} has no committed offset in mirror {spec.mirror}"
    if is_fake(group):
        return f"group {group!r} holds the positions of a mirror itself: they are neither kept nor translated"
    filters = {"--group-include": spec.group_include, "--group-exclude": spec.group_exclude}
    told = ", ".join(f"{option} {text!r}" for option, texts in filters.items() for text in texts)
    return (
        f"the filters of mirror {spec.mirror} leave group {group!r} out ({told}): its committed offsets are neither "
        "kept nor translated"
    )


def _lines(row: PositionRow, seen: Gathered) -> Iterator[str]:
    yield _position(row, seen)
    yield _end(row, seen)
    yield from _strategies(row)
    yield _copy(row)
    yield _answer(row)
    yield f"proof: {row.compared.proof}: {row.compared.why}"
    yield _present(row)
    yield _decision(row)


def _position(row: PositionRow, seen: Gathered) -> str:
    where = f"{row.at_source} of {seen.spec.source}: the group reads {row.position.offset} next"
    if row.position.direct:
        return f"{where}, reported by the source now"
    age = "of unknown age" if row.age_ms is None else f"complete as of {row.age_ms} ms ago"
    why = seen.source_answer.errors.get(row.group) or seen.source_answer.down
    return f"{where}, as kept in __mirror_groups, {age}" + (f" ({why.name}: {why.reason})" if why else "")


def _end(row: PositionRow, seen: Gathered) -> str:
    end = seen.source_ends.get(row.partition)
    if end is None:
        return "the end of the source was never observed"
    ahead = end.high_watermark - row.position.offset
    return f"the source ended at {end.high_watermark}, {max(0, seen.now - end.at)} ms ago: {ahead} offset(s) behind it"


def _copy(row: PositionRow) -> str:
    if isinstance(row.mirror_end, NoCopy):
        return row.mirror_end.reason
    if isinstance(row.mirror_end, TanistError):
        return f"the destination does not answer: {row.mirror_end.reason}"
    return f"the mirror partition begins at {row.mirror_end.start} and ends at {row.mirror_end.end}"


def _strategies(row: PositionRow) -> Iterator[str]:
    """What each strategy went by; its answer, too, where there are several."""
    if row.read is None:
        return
    for each in row.tried:
        went_by = each.translator.explain(row.position.offset, row.read)
        yield went_by if len(row.tried) == 1 else f"{went_by}; {_described(each.translation)}"
        yield from each.translator.peers(row.group, row.position.offset, row.read)


def _answer(row: PositionRow) -> str:
    by = f", by {row.translator.name}" if len(row.tried) > 1 else ""
    return f"answer: {_described(row.translation)}{by}"


def _described(translation: Translation) -> str:
    match translation:
        case Unknown(why):
            return f"unknown: {why}"
        case Conservative(offset, why):
            return f"at least {offset}: {why}"
        case exact:
            return f"exactly {exact.offset}"


def _present(row: PositionRow) -> str:
    return _describe_committed(row.present)


def _describe_committed(present: Present | TanistError | None) -> str:
    if isinstance(present, TanistError):
        return f"the destination does not report its committed offset: {present.name}: {present.reason}"
    if present is None:
        return "the destination has no committed offset for it"
    who = f"by Tanist ({present.metadata})" if present.ours else "by a consumer at the destination"
    since = " while it was the primary" if present.outdated and not present.ours else ""
    return f"the destination has {present.offset}, committed {who}{since}"


def _decision(row: PositionRow) -> str:
    if row.decision is None:
        return "decision: none, only the translation was requested"
    if isinstance(row.decision, Commit):
        return f"decision: commit {row.decision.offset}"
    return f"decision: not committed: {row.decision.why}"
