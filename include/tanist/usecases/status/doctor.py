"""`tanist doctor`: is everything in place on this host and in these clusters?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.answers import attempt
from tanist.domain.approval.entries import NoApproverTopic
from tanist.domain.checks import Check, Verdict
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.failover.expiring import certificates_check
from tanist.domain.failover.health import workers_check
from tanist.domain.followed import CopyTrouble, is_followed
from tanist.domain.logins import PrincipalUnknown
from tanist.domain.promotions import PromotionRecord
from tanist.domain.records import GROUPS_TOPIC, STATE_TOPIC, GroupPosition, PromotionEpoch
from tanist.domain.rights import ClusterRole
from tanist.domain.state_view import NOTHING_YET
from tanist.usecases import approvals, rights, snapshot
from tanist.usecases.mirror import identify
from tanist.usecases.mirrors.create import EXPIRATION, LONGEST_EXPIRATION_MS
from tanist.usecases.mirrors.followed import followed_in
from tanist.usecases.snapshot import MirrorSnapshot
from tanist.usecases.status import mirror_kinds
from tanist.usecases.status.observe import state_topic_problem, workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.domain.rights import RequiredAcl
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext


_MOST_TOPICS: Final = 50
_MOST_GROUPS: Final = 200
"""Only the first groups are checked: permissions are mostly granted by prefix."""


def unknown(name: str, error: TanistError) -> Check:
    """A check that could not be made, or that failed although the cluster answers."""
    verdict = Verdict.UNKNOWN if isinstance(error, CouldNotTell) else Verdict.FAIL
    return Check(name=name, verdict=verdict, observed=error.name, reason=f"{error.reason} ({error.action})")


def clusters(names: Sequence[str], connect: Callable[[str], Cluster], context: CommandContext) -> tuple[Check, ...]:
    """All checks of all configured clusters; one that does not answer does not hide the others."""
    open_sides: dict[str, Cluster] = {}
    ids: dict[str, str] = {}
    found: list[Check] = []
    for name in names:
        try:
            open_sides[name] = connect(name)
            (ids[name],) = identify((open_sides[name],), context)
        except TanistError as error:
            found.append(unknown(f"cluster {name}", error))
        else:
            found.append(Check(name=f"cluster {name}", verdict=Verdict.PASS, observed=f"cluster id {ids[name]}"))
    found.append(distinct(ids, len(names)))
    for name in ids:
        found += _of_cluster(name, open_sides, context)
        if certificates := open_sides[name].certificates():
            found.append(certificates_check(name, certificates, context.clock.now()))
    return tuple(found)


def distinct(ids: Mapping[str, str], configured: int) -> Check:
    """Whether all configured names are different clusters."""
    twice = sorted(name for name, found in ids.items() if list(ids.values()).count(found) > 1)
    verdict = Verdict.FAIL if twice else Verdict.UNKNOWN if len(ids) < configured else Verdict.PASS
    reason = f"{', '.join(twice)} lead to the same cluster" if twice else ""
    return Check(name="cluster ids", verdict=verdict, observed=f"{len(set(ids.values()))} distinct", reason=reason)


def _of_cluster(name: str, open_sides: Mapping[str, Cluster], context: CommandContext) -> Iterator[Check]:
    side = open_sides[name]
    try:
        if not snapshot.exists(side, STATE_TOPIC, context.by):
            yield _principal(side, (), context)
            yield _kinds(side, NOTHING_YET, context)
            return  # no destination of ours
        view = side.state(STATE_TOPIC, context.by)
        if promotions := _only_promotions(view):
            yield _principal(side, (), context)
            yield _kinds(side, view, context)
            yield _replaced_source(name, promotions)
            return
        yield _state_topic(side, context)
        mapped = [each.is_mapped for each in view.mirrors()]
        if not mapped or not all(mapped):
            yield _expiration(side, context)
        if any(mapped):
            yield _attempted(f"transactions on {name}", lambda: mirror_kinds.transactions(side, context.by))
        groups = side.state(GROUPS_TOPIC, context.by)
    except TanistError as error:
        yield unknown(f"state topic of {name}", error)
        return
    yield _principal(side, sorted({topic.topic for topic in view.topics()})[:_MOST_TOPICS], context)
    yield _kinds(side, view, context)
    if not all(map(is_followed, view.mirrors())):
        yield _attempted(f"approvals on {name}", lambda: _approvals(side, context))
    alive = workers_check(workers(view), context.clock.now())
    if view.mirrored():
        yield Check(name=f"workers of {name}", verdict=alive.verdict, observed=alive.observed, reason=alive.reason)
    kept = [each for each in groups.values() if isinstance(each, GroupPosition)]
    for spec in view.mirrors():
        if is_followed(spec):
            yield from _access_of_followed(spec, open_sides, context)
        else:
            yield from _access(spec, view, open_sides, context)
        names = sorted({each.group for each in kept if each.mirror == spec.mirror})
        yield from _groups(spec, names, open_sides, context)


def _only_promotions(view: StateView) -> tuple[PromotionEpoch, ...]:
    """The promotions in a state topic that contains nothing but what a source is told of them; otherwise none."""
    if not all(isinstance(each, PromotionRecord) for each in view.values()):
        return ()
    found = (each for each in view.values() if isinstance(each, PromotionEpoch))
    return tuple(sorted(found, key=lambda each: each.key))


def _replaced_source(name: str, promotions: Sequence[PromotionEpoch]) -> Check:
    """A source that was replaced: it has a state topic, but needs neither workers nor the other state topics."""
    known = [f"{each.topic} of mirror {each.mirror}" for each in promotions]
    return Check(
        name=f"state topic of {name}",
        verdict=Verdict.PASS,
        observed=f"a source: {len(known)} topic(s) were failed over to another cluster",
        reason=f"not a destination; failed over to another cluster: {_some(known, 10)}",
    )


def _principal(cluster: Cluster, topics: Sequence[str], context: CommandContext) -> Check:
    """Our principal there, and how it is known; at a destination also whether its ACLs apply to us."""
    name = f"principal on {cluster.name}"
    try:
        seen = cluster.access.login(topics, context.first_contact())
    except PrincipalUnknown as nameless:
        return Check(name=name, verdict=Verdict.UNKNOWN, observed=nameless.name, reason=nameless.reason)
    except TanistError as error:
        return unknown(name, error)
    if not seen.authorizer:
        return Check(name=name, verdict=Verdict.PASS, observed="no authorizer: every client may do everything")
    reported = f"{seen.login.principal}, from {seen.login.origin}"
    if seen.unbound:
        why = f"{seen.unbound}; a failover could not deny WRITE to this login"
        return Check(name=name, verdict=Verdict.FAIL, observed=reported, reason=why)
    if seen.unseen:
        why = f"whether a DENY would apply to it is not known: {seen.unseen}"
        return Check(name=name, verdict=Verdict.UNKNOWN, observed=reported, reason=why)
    return Check(name=name, verdict=Verdict.PASS, observed=reported)


def _approvals(cluster: Cluster, context: CommandContext) -> Check:
    """Whether there is a topic that keeps approvals: in a night of a failover nobody may be there who can make it."""
    name = f"approvals on {cluster.name}"
    why = approvals.keeps_none(cluster, context.first_contact())
    if why is None:
        return Check(name=name, verdict=Verdict.PASS, observed="whoever may write to the topic approves")
    if not isinstance(why, NoApproverTopic):
        return unknown(name, why)
    if not cluster.opening.has_authorizer(context.first_contact()):
        return Check(name=name, verdict=Verdict.PASS, observed="the first approval creates the topic")
    reason = f"{why.reason}: {why.action}"
    return Check(name=name, verdict=Verdict.FAIL, observed="nobody can approve", reason=reason)


def _kinds(cluster: Cluster, view: StateView, context: CommandContext) -> Check:
    topics = sorted({topic.topic for topic in view.mirrored()})[:_MOST_TOPICS]
    mirrors = [spec.mirror for spec in view.mirrors() if spec.is_mapped]
    name, by = f"kinds of mirror to {cluster.name}", context.first_contact()
    return _attempted(name, lambda: mirror_kinds.kinds(cluster, topics, mirrors, by))


def _attempted(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except TanistError as error:
        return unknown(name, error)


def _state_topic(cluster: Cluster, context: CommandContext) -> Check:
    name = f"state topic of {cluster.name}"
    if problem := state_topic_problem(cluster, context):
        return Check(name=name, verdict=Verdict.FAIL, observed="unsafe", reason=problem)
    return Check(name=name, verdict=Verdict.PASS, observed="compacted and safely replicated")


def _expiration(cluster: Cluster, context: CommandContext) -> Check:
    name = f"{EXPIRATION} of {cluster.name}"
    try:
        value = cluster.configs.broker(context.by).get(EXPIRATION)
    except TanistError as error:
        return unknown(name, error)
    if value is None:
        return Check(name=name, verdict=Verdict.UNKNOWN, reason="the broker does not report it")
    short = int(value) < LONGEST_EXPIRATION_MS
    why = f"partitions idle for longer are compared before copying resumes; recommended: {LONGEST_EXPIRATION_MS}"
    return Check(
        name=name, verdict=Verdict.FAIL if short else Verdict.PASS, observed=value, reason=why if short else ""
    )


def _groups(
    spec: MirrorSpec, groups: Sequence[str], open_sides: Mapping[str, Cluster], context: CommandContext
) -> Iterator[Check]:
    """Permissions for groups whose committed offsets are stored; other groups are unknown."""
    asked = groups[:_MOST_GROUPS]
    if (source := open_sides.get(spec.source)) is not None:
        yield _log(spec, source, context)
        if asked:
            yield _acl_check(
                f"groups of {spec.mirror} on {spec.source}",
                source,
                rights.group_needs(ClusterRole.SOURCE, asked),
                context,
            )
    destination = open_sides[spec.destination]
    if asked:
        needed = rights.group_needs(ClusterRole.DESTINATION, asked)
        yield _acl_check(f"groups of {spec.mirror} on {spec.destination}", destination, needed, context)


def _log(spec: MirrorSpec, source: Cluster, context: CommandContext) -> Check:
    """Reading `__consumer_offsets`. Without it committed offsets are polled, later but correct."""
    title = f"log of groups of {spec.mirror} on {spec.source}"
    return _without_failure(_acl_check(title, source, rights.group_log_needs(), context))


def _without_failure(found: Check) -> Check:
    """What can be done without is named, but is no failure."""
    return replace(found, verdict=Verdict.PASS) if found.verdict is Verdict.FAIL else found


def _access(
    spec: MirrorSpec, view: StateView, open_sides: Mapping[str, Cluster], context: CommandContext
) -> Iterator[Check]:
    names = [topic.topic for topic in view.mirrored(spec.mirror)]
    there = [spec.names.topic_at_source(name) for name in names]
    of_copying, of_failover = f"rights of {spec.mirror}", f"failover of {spec.mirror}"
    returning = f"reversal of {spec.mirror}"
    denying = rights.denying_needs() if spec.deny_writers or spec.acl_rules else ()
    of_destination = (*rights.fetcher_needs(names, mapped=spec.is_mapped), *rights.position_needs(spec))
    back = () if spec.is_mapped else names[:_MOST_TOPICS]
    failover = partial(rights.failover_needs, spec=spec)
    needs = (
        (of_copying, spec.source, rights.source_needs(there)),
        (of_copying, spec.destination, of_destination),
        (f"other writers of {spec.mirror}", spec.destination, denying),
        (of_failover, spec.source, failover(ClusterRole.SOURCE, there) if names else ()),
        (of_failover, spec.destination, failover(ClusterRole.DESTINATION, names) if names else ()),
        (returning, spec.source, rights.reversal_needs(back) if back else ()),
        (returning, spec.destination, rights.rescue_needs(back)),
    )
    if (written_back := rights.written_back_needs(spec)) and spec.source in open_sides:
        title = f"lag of {spec.mirror} shown on {spec.source}"
        yield _without_failure(_acl_check(title, open_sides[spec.source], written_back, context))
    for what, side, needed in needs:
        title = f"{what} on {side}"
        if side not in open_sides:
            yield Check(name=title, verdict=Verdict.UNKNOWN, reason=f"{side!r} is not in the configuration")
        elif needed:
            yield _acl_check(title, open_sides[side], needed, context, granting=what in {of_failover, returning})


def _access_of_followed(
    spec: MirrorSpec, open_sides: Mapping[str, Cluster], context: CommandContext
) -> Iterator[Check]:
    """Nothing of ours writes to its topics: it needs to read them, and what is kept of its groups."""
    source = open_sides.get(spec.source) or CouldNotTell(f"{spec.source!r} is not in the configuration")
    destination = open_sides[spec.destination]
    found = attempt(lambda: followed_in(MirrorSnapshot.of(spec, source, destination), context))
    title = f"rights of {spec.mirror} on"
    if isinstance(found, TanistError):
        yield unknown(f"{title} {spec.destination}", found)
        return
    topics = [*found.topics.values()][:_MOST_TOPICS]
    copies = [each.copy for each in topics if each.trouble is not CopyTrouble.MISSING]
    at_source = rights.following_needs(ClusterRole.SOURCE, [each.source for each in topics])
    if found.source_down is not None:
        yield unknown(f"{title} {spec.source}", found.source_down)
    elif not isinstance(source, TanistError):
        yield _acl_check(f"{title} {spec.source}", source, at_source, context)
    needed = rights.following_needs(ClusterRole.DESTINATION, copies)
    yield _acl_check(f"{title} {spec.destination}", destination, needed, context)


def _acl_check(
    title: str, cluster: Cluster, needed: Sequence[RequiredAcl], context: CommandContext, *, granting: bool = False
) -> Check:
    """`granting`: what is missing is named with the commands that grant it."""
    try:
        found = rights.met(cluster, needed, context.first_contact())
    except TanistError as error:
        return unknown(title, error)
    lacking = [each.acl for each in found if each.verdict is not Verdict.PASS]
    how = _granting(cluster, lacking, context) if granting and lacking else ""
    missing = [each.acl.description for each in found if each.verdict is Verdict.FAIL]
    unreported = [f"{each.acl.title}: {each.reason}" for each in found if each.verdict is Verdict.UNKNOWN]
    verdict = Verdict.FAIL if missing else Verdict.UNKNOWN if unreported else Verdict.PASS
    reason = (f"missing: {_some(missing, 10)}" if missing else _some(unreported, 5)) + how
    held = len(found) - len(missing) - len(unreported)
    return Check(name=title, verdict=verdict, observed=f"{held} of {len(found)} held", reason=reason)


def _granting(cluster: Cluster, lacking: Sequence[RequiredAcl], context: CommandContext) -> str:
    try:
        principal = cluster.access.login((), context.first_contact()).login.principal
    except TanistError:
        principal = None
    commands = rights.grants(lacking, principal or "User:NAME", cluster.bootstrap)
    return "; grant it with: " + "; ".join(commands)


def _some(texts: Sequence[str], most: int) -> str:
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more
