"""The run is put on record, so whoever copies metadata of this mirror waits; its permissions are checked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.answers import answered
from tanist.domain.checks import Mode, named
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.rights import ClusterRole
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.rights import refusals, run_needs
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from tanist.domain.failover.plan import Intent
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.step import StepContext
    from tanist.usecases.mirror import OpenMirror


def ensure_permissions(intent: Intent, clusters: OpenMirror, command: CommandContext) -> None:
    """Whether this login may do at both clusters what the steps to come need, before there is no way back.

    Of the source only what a planned failover cannot do without: an unplanned one leaves a source fence pending, with
    the reason.

    Raises:
        AuthorizationFailed: it names the permissions that are certainly missing. What brokers do not report is left to
        the steps.
    """
    needs = run_needs(ClusterRole.DESTINATION, intent.names, clusters.spec)
    missing = refusals(clusters.destination, needs, command.first_contact())
    missing += _refused_by_the_source(intent, clusters, command)
    if missing:
        raise AuthorizationFailed(named(each.reason for each in missing))


def _refused_by_the_source(
    intent: Intent, clusters: OpenMirror, command: CommandContext
) -> tuple[AuthorizationFailed, ...]:
    source = clusters.source
    if intent.mode is not Mode.PLANNED or isinstance(source, TanistError):
        return ()
    names = map(clusters.spec.names.topic_at_source, intent.names)
    needs = run_needs(ClusterRole.SOURCE, names, clusters.spec)
    by = command.clock.deadline(SOURCE_SECONDS)
    return answered(lambda: refusals(source, needs, by)) or ()


def do(context: StepContext) -> Done:
    """Nothing copies metadata yet; the record is what will hold it.

    Raises:
        AuthorizationFailed: producers would be kept off the source for a run that must stop before its barrier.
    """
    ensure_permissions(context.intent, context.clusters, context.command)
    context.session.save()
    record = context.session.record
    return Done({"run": record.key, "approval": record.approval, "approver": record.approver})
