"""`tanist groups translate|sync`, and the final translation of a failover: many groups at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.commit_marks import marked_offset
from tanist.domain.errors import GroupCommitFenced, TanistError
from tanist.domain.followed import is_followed
from tanist.domain.groups_synced import GroupsSynced
from tanist.domain.names import MirrorPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.translation import Proof, Rules, Withheld
from tanist.ports.clock import Deadline
from tanist.ports.positions import ProofResult, unasked
from tanist.usecases.groups.gather import Chosen, gather
from tanist.usecases.groups.gather import views as read_views
from tanist.usecases.groups.rows import DestinationGroups, decided, to_commit, translated
from tanist.usecases.groups.settled import as_committed, begin_of, mark_of, may_be_settled, settled, without
from tanist.usecases.groups.strategies import answered
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.snapshot import DestinationSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.positions import Outcome, Pair
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.gather import Gathered, Views
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.strategies import Prove
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.mirror import OpenMirror

PROVE_SECONDS: Final = 10.0
_RENEW_MS: Final = 3_600_000
"""Kafka deletes committed offsets of groups without members after a week (`offsets.retention.minutes`) by default."""
_UNMOVED: Final = ProofResult(Proof.NONE, "it has not moved since it was committed")
_MOST_AGAIN: Final = 2
"""How often a fenced commit is tried again before the other command is left to finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """`prove_seconds`: how long records may be compared; positions not compared by then are committed without proof.

    `confirm`: raises if this command no longer holds the mirror's lock; called before other commands are fenced, and
    directly before a commit becomes visible. `renew`: commit again what is settled, or withheld where a commit of ours
    stays, so that it does not expire.
    """

    chosen: Chosen = field(default_factory=Chosen)
    rules: Rules = field(default_factory=Rules)
    prove_seconds: float = PROVE_SECONDS
    confirm: Callable[[], None] = unasked
    renew: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSyncResult:
    """One row for each position. `seen`: the inputs; `there`: at the destination, the groups with a row not settled."""

    rows: tuple[PositionRow, ...]
    seen: Gathered
    there: DestinationGroups

    @property
    def clamped(self) -> tuple[PositionRow, ...]:
        """Rows of groups that had consumed more than was copied."""
        return tuple(row for row in self.rows if row.clamped)

    @property
    def mismatches(self) -> tuple[PositionRow, ...]:
        return tuple(row for row in self.rows if row.compared.proof is Proof.MISMATCH)

    @property
    def failed(self) -> tuple[PositionRow, ...]:
        """Rows whose commit failed: run the command again."""
        return tuple(row for row in self.rows if row.error is not None)

    @property
    def withheld(self) -> tuple[PositionRow, ...]:
        """Rows that must not be committed, each with its reason."""
        return tuple(row for row in self.rows if isinstance(row.decision, Withheld))

    @property
    def undecided(self) -> frozenset[str]:
        """Groups of `seen.rewound` that this run has not set back here: a person still decides."""
        asked = {row.group for row in self.rows if row.asks}
        followed = {row.group for row in self.rows if row.committed and row.group not in asked}
        return self.seen.rewound - followed

    @property
    def problems(self) -> tuple[PositionRow, ...]:
        """All rows that need attention, each position once."""
        lists = (self.failed, self.withheld, self.clamped, self.mismatches)
        named = {(row.group, row.partition) for rows in lists for row in rows}
        return tuple(row for row in self.rows if (row.group, row.partition) in named)


def translate_groups(
    mirror: OpenMirror, request: SyncRequest, context: CommandContext, views: Views | None = None
) -> GroupSyncResult:
    """The translated offset of every position, its proof, and what would be committed. Changes nothing.

    Raises:
        the destination's error if it cannot be read. A silent source or a failed group becomes rows with reasons.
    """
    return _planned(_look(mirror, request, context, views), mirror, request, context)


def translate_positions(
    mirror: OpenMirror, request: SyncRequest, context: CommandContext, views: Views | None = None
) -> tuple[Gathered, tuple[PositionRow, ...]]:
    """The same for positions that are kept outside Kafka, `request.chosen.given`: no group is asked about.

    Raises:
        the destination's error if it cannot be read. A silent source leaves rows without proof.
    """
    look = _look(mirror, request, context, views)
    return look.seen, look.rows


def sync_groups(
    mirror: OpenMirror, request: SyncRequest, context: CommandContext, views: Views | None = None
) -> GroupSyncResult:
    """Translate, prove, and commit what may be committed (not with `dry_run`). Idempotent, per position.

    Commits only for groups without members, never backwards, never on a mismatch, and only if the committed offset is
    still the one that the decision was based on. Commits that an earlier command left pending are undone first. Raises
    as `translate_groups` (nothing was committed then), and what `request.confirm` raises.
    """
    look = _look(mirror, request, context, views)
    if context.dry_run:
        return _planned(look, mirror, request, context)
    synced = _commit(mirror, look, request, context)
    for _ in range(_MOST_AGAIN):
        if not any(isinstance(row.error, GroupCommitFenced) for row in synced.failed):
            break
        synced = _commit(mirror, look, request, context)
    return synced


def sync_locked(mirror: OpenMirror, request: SyncRequest, context: CommandContext) -> GroupSyncResult:
    """`sync_groups` under the mirror's lock, which a failover may take over at any time.

    It is recorded that all of its groups were synced, and when. What has not moved is committed again once an hour.

    Raises:
        MirrorLocked: another operation holds the lock, or a failover has taken it over: what was not yet visible at the
        destination never will be. Otherwise as `sync_groups`.
    """
    if context.dry_run:
        return sync_groups(mirror, _rehearsed(mirror, request, context), context)
    purpose = Purpose(operation="groups sync", preemptible=True)
    with mirror_lock(mirror.destination, mirror.spec.mirror, purpose, context) as lock:
        held, asked = replace(mirror, spec=lock.spec), replace(request, confirm=lock.confirm)
        if request.chosen.is_all:
            return _sync_all(held, asked, context, lock)
        return sync_groups(held, asked, context)


def _rehearsed(mirror: OpenMirror, request: SyncRequest, context: CommandContext) -> SyncRequest:
    """With what the same request would renew now."""
    if not request.chosen.is_all:
        return request
    view = mirror.destination.state(STATE_TOPIC, context.by)
    return replace(request, renew=_renewed_at(view, mirror.spec, context.clock.now()) is None)


def _renewed_at(view: StateView, spec: MirrorSpec, now: EpochMs) -> EpochMs | None:
    """When all positions were committed last; None: that is due again."""
    before = view.groups_synced(spec.mirror)
    return before.renewed_at if before is not None and now - before.renewed_at < _RENEW_MS else None


def _sync_all(mirror: OpenMirror, request: SyncRequest, context: CommandContext, lock: LockedMirror) -> GroupSyncResult:
    """Of all groups of a mirror: it is recorded, and only once an hour all are renewed."""
    spec, now = mirror.spec, context.clock.now()
    last = _renewed_at(lock.view(), spec, now)
    done = sync_groups(mirror, replace(request, renew=last is None), context)
    synced = GroupsSynced(
        mirror=spec.mirror,
        mirror_id=spec.mirror_id,
        positions=len(done.rows),
        withheld=len(done.withheld),
        at=now,
        renewed_at=now if last is None else last,
        rewound=tuple(sorted({row.group for row in done.rows if row.asks})),
    )
    lock.append([synced])
    return done


def _commit(mirror: OpenMirror, look: _Look, request: SyncRequest, context: CommandContext) -> GroupSyncResult:
    """If the commit is fenced although we hold the lock (a frozen command woke up), decide again and repeat it."""
    positions = mirror.destination.positions(mirror.spec.mirror)
    if look.busy:
        request.confirm()
        positions.take_over(look.busy, context.by)
    planned = _planned(look, mirror, request, context)
    wanted = to_commit(planned.rows, partial(mark_of, look.seen), request.renew)
    if not wanted:
        return planned
    outcome = positions.commit(wanted, context.by, request.confirm)
    rows = (_done(row, outcome) if row.partition in wanted.get(row.group, ()) else row for row in planned.rows)
    return replace(planned, rows=tuple(rows))


@dataclass(frozen=True, slots=True)
class _Look:
    """What was read from source and destination, with translations and proofs.

    `busy`: the groups with a position that may have to be committed, sorted; the others cost nothing more.
    """

    seen: Gathered
    rows: tuple[PositionRow, ...]
    busy: tuple[str, ...]


def _look(mirror: OpenMirror, request: SyncRequest, context: CommandContext, views: Views | None) -> _Look:
    stored = views or read_views(DestinationSnapshot(cluster=mirror.destination), context)
    seen = gather(mirror, request.chosen, context, stored)
    request.confirm()  # also a heartbeat: a silent source takes its time, and so do proofs
    known = _settled(mirror, seen, request.chosen, context)
    left = without(seen, known)
    answers = answered(mirror, left, stored, request.chosen, context, _prover(mirror, left, request, context))
    rows = (*known, *translated(left, answers))
    busy = seen.names if request.renew else tuple(sorted({row.group for row in rows if not row.settled}))
    return _Look(seen, rows, busy)


def _settled(mirror: OpenMirror, seen: Gathered, chosen: Chosen, context: CommandContext) -> tuple[PositionRow, ...]:
    if not seen.positions or not may_be_settled(seen, chosen):
        return ()
    names = sorted(seen.positions)
    return tuple(settled(seen, mirror.destination.positions(mirror.spec.mirror).committed(names, context.by)))


def _planned(look: _Look, mirror: OpenMirror, request: SyncRequest, context: CommandContext) -> GroupSyncResult:
    there = _there(mirror, look.seen, look.busy, context)
    rules = replace(request.rules, on_rewind=mirror.spec.on_rewind)
    rows = decided(look.rows, there, rules, request.renew)
    if not request.renew:
        rows = tuple(as_committed(look.seen, row) for row in rows)
    return GroupSyncResult(rows=rows, seen=look.seen, there=there)


def _there(mirror: OpenMirror, seen: Gathered, names: Sequence[str], context: CommandContext) -> DestinationGroups:
    positions = mirror.destination.positions(mirror.spec.mirror)
    groups = positions.groups(context.by)
    committed = positions.committed(names, context.by) if names else {}
    return DestinationGroups(groups=groups, committed=committed, primary_until=seen.primary_until, mark=begin_of(seen))


def _prover(mirror: OpenMirror, seen: Gathered, request: SyncRequest, context: CommandContext) -> Prove:
    """Compares the records of translated positions, as far as the source answers within the time."""
    pair = mirror.pair
    if seen.source_answer.down is not None or isinstance(pair, TanistError):
        silent = ProofResult(Proof.NONE, "the source does not answer")
        return lambda pairs: dict.fromkeys(pairs, silent)
    proves_again = request.renew or is_followed(seen.spec) or bool(request.chosen.strategy)
    proofs, known = pair.proofs, frozenset() if proves_again else _committed(mirror, seen, context)

    def prove(pairs: Sequence[Pair]) -> Mapping[Pair, ProofResult]:
        unmoved = [each for each in pairs if (each.at, each.source, each.destination) in known]
        left = [each for each in pairs if (each.at, each.source, each.destination) not in known]
        by = Deadline(min(context.by.at, context.clock.deadline(request.prove_seconds).at))
        return dict.fromkeys(unmoved, _UNMOVED) | dict(proofs.compare(left, by) if left else {})

    return prove


def _committed(
    mirror: OpenMirror, seen: Gathered, context: CommandContext
) -> frozenset[tuple[MirrorPartition, int, int]]:
    """Partitions with a position at the source, and the offset here that was committed for it: none is proved again."""
    found = mirror.destination.positions(mirror.spec.mirror).committed(sorted(seen.positions), context.by)
    begin = begin_of(seen)
    return frozenset(
        (at, source, there.offset)
        for positions in found.values()
        if not isinstance(positions, TanistError)
        for at, there in ((MirrorPartition(*each), there) for each, there in positions.items())
        if not isinstance(there, TanistError) and (source := marked_offset(there.metadata, begin)) is not None
    )


def _done(row: PositionRow, outcome: Mapping[str, Outcome | TanistError]) -> PositionRow:
    answer = outcome[row.group]
    error = answer if isinstance(answer, TanistError) else _error(answer, row.partition)
    return replace(row, committed=error is None and row.will_commit, error=error)


def _error(outcome: Outcome, at: MirrorPartition) -> TanistError | None:
    return outcome[at]
