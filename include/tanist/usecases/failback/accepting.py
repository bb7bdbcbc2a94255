"""`tanist failback accept`: somebody takes note, by name, of what no rescue mends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.entries import UNPROTECTED
from tanist.domain.errors import Misconfigured, Refused
from tanist.domain.failback.pending import findings_of
from tanist.domain.tails import FindingsAccepted
from tanist.usecases.lock import changing

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.domain.names import MirrorName
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import FindingKind, TailFinding
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

FINDING_COLUMNS: Final = ("topic", "promotion_epoch", "finding", "offsets", "accepted_by", "reason")


class NothingToAccept(Refused):
    name = "NOTHING_TO_ACCEPT"
    operator_action = "`tanist status` shows the findings that are not accepted; nothing was changed"


def accept_findings(  # what is accepted, where, and why
    destination: Cluster,
    mirror: MirrorName,
    accepted: Collection[FindingKind],
    topics: Selection,
    command: CommandContext,
    *,
    reason: str,
) -> tuple[TailFinding, ...]:
    """Record that this login accepts findings of the kinds `accepted`; returns all findings as they are then.

    Raises:
        NothingToAccept: no topic has such a finding that is not accepted. TopicNotInMirror. Misconfigured: no reason.
        MirrorLocked: another operation of this mirror is at work.
    """
    if not reason.strip():
        raise Misconfigured("accepting needs a --reason, which is stored with it")

    def check(view: StateView) -> object:
        return _chosen(view, mirror, accepted, topics)

    with changing(destination, mirror, "failback accept", command, check, patient=True) as locked:
        chosen, view = _chosen(locked.view(), mirror, accepted, topics), locked.view()
        by = destination.opening.principal() or UNPROTECTED
        before = {(each.topic, each.promotion_epoch): each for each in view.findings_accepted(mirror)}
        records = []
        for topic, epoch in dict.fromkeys((each.topic, each.promotion_epoch) for each in chosen):
            now = {
                each.finding: each.offsets for each in chosen if (each.topic, each.promotion_epoch) == (topic, epoch)
            }
            held = before.get((topic, epoch))
            both = dict(zip(held.findings, held.amounts, strict=False)) | now if held else now
            records.append(
                FindingsAccepted(
                    mirror=mirror,
                    mirror_id=locked.spec.mirror_id,
                    topic=topic,
                    promotion_epoch=epoch,
                    findings=tuple(both),
                    amounts=tuple(both.values()),
                    accepted_by=by,
                    reason=reason,
                    at=command.clock.now(),
                )
            )
        after = findings_of(locked.append(records), mirror)
        if command.dry_run:
            return tuple(replace(each, accepted_by=by, reason=reason) if each in chosen else each for each in after)
        return after


def _chosen(
    view: StateView, mirror: MirrorName, accepted: Collection[FindingKind], topics: Selection
) -> tuple[TailFinding, ...]:
    """Raises NothingToAccept, TopicNotInMirror."""
    found = [each for each in findings_of(view, mirror) if each.finding in accepted and not each.accepted_by]
    if not found:
        raise NothingToAccept(f"mirror {mirror!r} has no {' or '.join(accepted)} that is not accepted")
    wanted = topics.chosen({each.topic for each in found}, "topic with such a finding")
    return tuple(each for each in found if each.topic in wanted)


def finding_item(mirror: str, found: TailFinding) -> dict[str, Any]:
    """A finding; `accepted_by` is None while it is not accepted."""
    return {
        "mirror": mirror,
        "topic": found.topic,
        "promotion_epoch": found.promotion_epoch,
        "finding": found.finding,
        "offsets": found.offsets,
        "accepted_by": found.accepted_by or None,
        "reason": found.reason or None,
    }
