"""Who wrote what lies at the end of a copy: two logs of one length may hold different records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.domain.recovery import ProducerIds
    from tanist.ports.clock import Deadline
    from tanist.ports.logs import LogEnds, Logs


def foreign(
    logs: Logs,
    ends: Mapping[TopicPartition, LogEnds],
    ours: ProducerIds,
    fenced: Collection[TopicPartition],
    by: Deadline,
) -> dict[TopicPartition, bool]:
    """Whether somebody else than the mirror wrote the last batch of each copy; not there: it could not be told.

    Behind a barrier it is not asked: there others write by right. An empty log has no foreign end.
    """
    last = {at: each.high_watermark - 1 for at, each in ends.items() if each.start < each.high_watermark}
    asked = {at: offset for at, offset in last.items() if at not in fenced}
    try:
        answers = logs.producers(asked, by) if asked else {}
    except TanistError:
        answers = {}
    reported = {at: each not in ours for at, each in answers.items() if not isinstance(each, TanistError)}
    return dict.fromkeys(set(ends) - set(asked), False) | reported
