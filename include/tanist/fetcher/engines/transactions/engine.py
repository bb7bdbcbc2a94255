"""The engine that copies batches in transactions, with the position of the copy; the `CopyEngine` of a thread."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.fake_group import MOST_BYTES, MirrorTruncated
from tanist.domain.gap_markers import MarkerEpoch
from tanist.domain.lost_markers import LostMarker
from tanist.fetcher.engines.batches.true_ends import TrueEnds
from tanist.fetcher.engines.engine import Phase
from tanist.fetcher.engines.transactions.owned_id import OwnedId
from tanist.fetcher.engines.transactions.partition import TransactionPartition
from tanist.fetcher.engines.transactions.reading import SourceReadings
from tanist.fetcher.engines.transactions.recovery import MappedRecovery
from tanist.fetcher.engines.transactions.thinning import MapThinning
from tanist.fetcher.engines.transactions.write_back import WriteBack
from tanist.fetcher.runs import OffsetRuns
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.waits import in_turn, together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import BrokerId, MirrorPartition, TopicPartition
    from tanist.fetcher.assignment import Assigned, Report
    from tanist.fetcher.engines.engine import Incoming, Trouble
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.router import Router
    from tanist.kafka.wire.waits import Waits
    from tanist.ports.positions import CommittedPosition

log = logging.getLogger(__name__)

PUBLISH_SECONDS: Final = 10.0
MOST_UNPUBLISHED_BYTES: Final = MOST_BYTES // 2
"""A partition whose ranges cannot be published is not copied any further: its commit would be refused."""
COMMIT_AGAIN_SECONDS: Final = 3_600.0
"""Positions of idle partitions: brokers delete the offsets of a group that nobody commits in any more."""
LOOK_SECONDS: Final = 5.0
POSITIONS_SECONDS: Final = 30.0
"""So often it is read whether the positions of idle partitions are still there."""


class TransactionEngine:
    """Owned by the one fetcher thread of a mirror, as are both routers."""

    def __init__(self, routers: tuple[Router, Router], _broker: BrokerId, tools: FetcherThreadTools) -> None:
        self._destination = routers[1]
        self._tools = tools
        self._clock = tools.clock
        self._runs = OffsetRuns(tools.spec, tools.maps, tools.claims)
        self._recovery = MappedRecovery(routers, self._runs, tools)
        self._reading = SourceReadings(routers[0], tools.clock, tools.throttle)
        self._true_ends = TrueEnds(routers[0], tools.clock)
        self._thinning = MapThinning(routers[1], self._runs, tools)
        self._write_back = WriteBack(routers[0], tools)
        self._ids: dict[int, OwnedId] = {}
        self._unready: Mapping[int, TanistError | None] = {}
        self._unpublished: TanistError | None = None
        self._looked_at = self._positions_at = float("-inf")

    @property
    def stale_leaders(self) -> bool:
        """Never: this thread copies from every broker, and looks for their leaders itself."""
        return False

    def begin(self, assigned: Assigned, *, first_use: bool) -> TransactionPartition:
        del first_use  # there are no gap markers
        totals = self._tools.totals.of_topic(assigned.partition.topic)
        return TransactionPartition(assigned, MarkerEpoch(assigned.claim_epoch, spent=False), totals=totals)

    def prepare(self, partitions: Sequence[TransactionPartition]) -> None:
        """A new epoch for each transactional id that needs one.

        Whether the mirror still copies is read after this, and before its positions: a failover that fences these ids
        has written before that it does not.
        """
        self._unready = {number: self._id(number).begin() for number in self._by_id(partitions)}

    def recover(self, partitions: Sequence[TransactionPartition]) -> Sequence[Phase | TanistError]:
        found: dict[int, Phase | TanistError] = {}
        for number, some in self._by_id(partitions).items():
            outcomes = self._recover(self._id(number), some)
            found |= {id(each): outcome for each, outcome in zip(some, outcomes, strict=True)}
        return [found[id(each)] for each in partitions]

    def _recover(self, of: OwnedId, partitions: Sequence[TransactionPartition]) -> Sequence[Phase | TanistError]:
        if (unready := self._unready.get(of.number)) is not None:
            return [unready] * len(partitions)
        try:
            positions = of.positions()
            kept_out = {
                **self._end_what_is_open(of, partitions, positions),
                **of.fence(self._recovery.appended_to(partitions, positions)),
            }
        except Stopped:
            raise
        except TanistError as why:
            return [why] * len(partitions)
        of.resumed()
        going = [each for each in partitions if each.at not in kept_out]
        found = dict(zip([each.at for each in going], self._recovery.recover(going, positions), strict=True))
        for each in going:
            if found[each.at] is Phase.COPY and each.at not in positions:
                of.commit_again(each)  # it is new, or was lost; a copy that has no record yet has a position, too
        return [kept_out[each.at] if each.at in kept_out else found[each.at] for each in partitions]

    def _end_what_is_open(
        self,
        of: OwnedId,
        partitions: Sequence[TransactionPartition],
        positions: Mapping[TopicPartition, CommittedPosition | TanistError],
    ) -> Mapping[MirrorPartition, TanistError]:
        """Have the markers written again that were lost; why not, by partition. Raises as `OwnedId.mark`."""
        unended = self._recovery.unended(partitions, positions)
        if unended:
            of.must_be_fresh()
        lost = self._recovery.lost_markers(partitions, positions, unended, of.producer_id)
        kept_out = {at: each for at, each in lost.items() if isinstance(each, TanistError)}
        for at in (at for at, each in lost.items() if each is LostMarker.TRUNCATED):
            kept_out[at] = MirrorTruncated(f"{at} lacks the marker of its last transaction, and that is not all")
        for kind in (LostMarker.COMMIT, LostMarker.ABORT):
            some = [at for at, each in lost.items() if each is kind]
            kept_out |= of.mark(some, commit=kind is LostMarker.COMMIT)
        return kept_out

    def read(self, partitions: Sequence[TransactionPartition], *, hurry: bool) -> Incoming | None:
        if self._tools.throttle.is_muted(self._tools.spec.mirror):
            return None
        hurry = hurry or any(each.opened is not None for each in partitions)
        return self._reading if self._reading.post(partitions, hurry=hurry) else None

    def append(self, partitions: Sequence[TransactionPartition], until: Callable[[], bool]) -> None:
        """Append what was taken, and end the transactions that are due; all of them, if there are no partitions."""
        del until  # every answer is waited for: the buffers are used again
        self._append(partitions)
        left = _steps(partitions)
        while left:  # more ranges than can ride with one position
            self._append(partitions)
            before, left = left, _steps(partitions)
            if left == before:
                break

    def _append(self, partitions: Sequence[TransactionPartition]) -> None:
        channels: defaultdict[int, list[Waits[None]]] = defaultdict(list)
        for number, some in self._by_id(partitions).items():
            of = self._id(number)
            of.follow(some)
            going = [each for each in some if each.pipeline.steps and self._may_append(each)]
            channels[of.channel].append(of.append(going))
        together(map(in_turn, channels.values()))
        found: dict[MirrorPartition, CopiedPosition] = {}
        for each in self._ids.values():
            held = dict(each.partitions)
            committed = each.end_if_due(now=not partitions)
            found |= {at: position for at in committed if (position := held[at].publishable)}
        if found:
            self._publish(found, partitions)

    def leave(self, partitions: Sequence[TransactionPartition]) -> None:
        """Nothing: whatever is not given is not fetched."""

    def rests(self, partition: TransactionPartition) -> bool:
        del partition  # each is given to every call
        return False

    def news(self) -> Sequence[TransactionPartition]:
        return ()

    def idle(self, partitions: Sequence[TransactionPartition], *, whole: bool) -> None:
        del whole
        now = self._clock.monotonic()
        self._write_back.write(partitions)
        self._thinning.step(partitions)
        if not self._reading.stale:
            self._true_ends.look([each for each in partitions if each.halted is None], whole=True)
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            idle = [each for each in partitions if each.idle and now - each.committed_at > LOOK_SECONDS]
            self._look_at_ends(idle)
            lost = self._lost_positions(idle, now)
            for each in idle:
                old = now - each.committed_at > COMMIT_AGAIN_SECONDS
                if each.halted is None and (old or each.at in lost):
                    self._id(each.assigned.state_partition).commit_again(each)

    def report(self, partition: TransactionPartition, trouble: Trouble) -> Report:
        return partition.report(trouble)

    def _id(self, number: int) -> OwnedId:
        if number not in self._ids:
            self._ids[number] = OwnedId(self._destination, self._tools, number)
        return self._ids[number]

    @staticmethod
    def _by_id(partitions: Sequence[TransactionPartition]) -> Mapping[int, list[TransactionPartition]]:
        found: defaultdict[int, list[TransactionPartition]] = defaultdict(list)
        for each in partitions:
            found[each.assigned.state_partition].append(each)
        return found

    def _may_append(self, of: TransactionPartition) -> bool:
        if not of.rides_more_than(MOST_UNPUBLISHED_BYTES):
            return True
        if of.committed is not None:
            self._publish({of.at: of.committed}, [of])
        if not of.rides_more_than(MOST_UNPUBLISHED_BYTES):
            return True
        of.halt(self._unpublished, self._clock.monotonic())
        return False

    def _publish(
        self, positions: Mapping[MirrorPartition, CopiedPosition], partitions: Sequence[TransactionPartition]
    ) -> None:
        """Until it is done they ride on with the position."""
        try:
            self._runs.publish(positions, self._clock.deadline(PUBLISH_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            self._unpublished = why
            log.warning("offset ranges are not published", extra={"reason": why.reason})
            return
        for each in partitions:
            if each.at in positions:
                each.were_published()

    def _lost_positions(self, idle: Sequence[TransactionPartition], now: float) -> frozenset[MirrorPartition]:
        """Those of `idle` whose position in the group is not what was committed last: deleted, or another's."""
        if not idle or now - self._positions_at < POSITIONS_SECONDS:
            return frozenset()
        self._positions_at = now
        try:
            held = self._id(idle[0].assigned.state_partition).positions()
        except Stopped:
            raise
        except TanistError as why:
            log.warning("positions were not looked at", extra={"reason": why.reason})
            return frozenset()
        wanted = {each.at: each.committed for each in idle if each.committed is not None}
        return frozenset(
            at
            for at, last in wanted.items()
            if not isinstance(found := held.get(at), TanistError)
            and (found is None or (found.offset, found.metadata) != (last.position, last.metadata))
        )

    def _look_at_ends(self, idle: Sequence[TransactionPartition]) -> None:
        """Halt a partition whose end has moved without our appends: recovery reads who has written to it."""
        try:
            by = self._clock.deadline(PUBLISH_SECONDS)
            ends = requests.list_offsets(self._destination, {each.at: End.HIGH_WATERMARK for each in idle}, by)
        except Stopped:
            raise
        except TanistError as why:
            log.warning("idle copies were not looked at", extra={"reason": why.reason})
            return
        for each in idle:
            end = ends[each.at]
            if isinstance(end, TanistError) or end != each.pipeline.end:
                each.halt(end if isinstance(end, TanistError) else None, self._clock.monotonic())


def _steps(partitions: Sequence[TransactionPartition]) -> int:
    return sum(len(each.pipeline.steps) for each in partitions)
