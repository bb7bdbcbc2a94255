"""Records of a partition that its source deleted before they were copied: put on record, then decided by the mirror."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tanist.domain.losses import MOST_RANGES, LostOffsets, LostRange, OnLoss, UncopiedRecordsDeleted, with_range
from tanist.domain.names import topic_id_text

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.recovery import LostSpan
    from tanist.fetcher.assignment import Assigned
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.ports.clock import Deadline

log = logging.getLogger(__name__)


class LossRecords:
    """Owned by the fetcher thread."""

    def __init__(self, tools: FetcherThreadTools) -> None:
        self._store = tools.losses
        self._claims = tools.claims
        self._clock = tools.clock

    def record(self, of: Assigned, topic_id: UUID | None, lost: LostSpan, by: Deadline) -> LostRange:
        """Put `lost` on record in the state topic, before anything is appended behind it; returns the range there.

        That range is longer than `lost` if a part of it was found before. `topic_id`: of the mirror topic.

        Raises:
            UncopiedRecordsDeleted: the mirror does not continue after a loss.
            NotOurs: the lease has ended. TanistError: the state topic cannot be written.
        """
        at = of.partition
        new = LostRange(lost.start, lost.until, self._clock.now())
        new = self._append(of, topic_id_text(topic_id) if topic_id else "", new, by)
        if of.spec.on_loss is OnLoss.FAIL:
            command = f"tanist mirrors alter {of.spec.mirror} --destination {of.spec.destination} --on-loss continue"
            raise UncopiedRecordsDeleted(
                f"the source deleted offsets {new} of {at}, {new.offsets} in all, before they were copied; "
                f"to continue without them run `{command}`"
            )
        return new

    def _append(self, of: Assigned, topic_id: str, new: LostRange, by: Deadline) -> LostRange:
        if self._store is None:
            return new
        self._claims.must_hold(of)
        spec = of.spec
        held = self._store.catch_up(by).lost(spec.mirror, of.partition, topic_id)
        ranges = with_range(held.ranges if held else (), new)
        (whole,) = (each for each in ranges if each.start <= new.start < each.until)
        if held is not None and ranges == held.ranges:
            return whole
        earlier = (held.earlier if held else 0) + sum(each.offsets for each in ranges[:-MOST_RANGES])
        record = LostOffsets(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            partition=of.partition,
            ranges=ranges[-MOST_RANGES:],
            earlier=earlier,
            topic_id=topic_id,
            at=self._clock.now(),
        )
        log.warning(
            "the source deleted records before they were copied",
            extra={"partition": str(of.partition), "lost": str(whole)},
        )
        self._store.append([record], by)
        return whole
