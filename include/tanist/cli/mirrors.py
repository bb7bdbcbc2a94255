"""`tanist mirrors`: the commands that change mirrors. Read-only commands are in `mirror_views`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tanist.cli import mirror_following, mirror_removal, mirror_reversal, mirror_seeding, mirror_settings, mirror_views
from tanist.cli.mirror_following import (
    AliasesOption,
    CopiedByOption,
    PollTimeoutOption,
    RenameOption,
    StrategyOption,
    split_aliases,
)
from tanist.cli.mirror_removal import TOPIC_COLUMNS
from tanist.cli.mirror_settings import (
    AclOption,
    AclPrincipalOption,
    DeliveryOption,
    DenyWritersOption,
    FenceSourceOption,
    GrantWritersOption,
    HolesOption,
    IntoExistingOption,
    LimitOption,
    OnLossOption,
    PausedOption,
    ReplicationOption,
    SmallBatchesOption,
    StartOption,
    ThreadsOption,
    TopicLimitOption,
    TransactionOption,
    rate_given,
    rules_given,
    show_spec,
)
from tanist.cli.options import (
    ExcludeOption,
    MirrorArgument,
    Session,
    TopicsOption,
    announcing,
    asking,
    confirm,
    selected,
)
from tanist.cli.output import emit, one_line, say
from tanist.cli.sync_options import (
    ConfigExcludeOption,
    GroupExcludeOption,
    GroupIncludeOption,
    GroupIntervalOption,
    OnRewindOption,
    SyncGroupsOption,
    SyncMetadataOption,
    sync_settings,
)
from tanist.domain.copier import Copier
from tanist.domain.errors import Misconfigured
from tanist.domain.fences import commands_to_allow, commands_to_lift
from tanist.domain.names import mirror_name
from tanist.domain.records import Engine, MirrorSpec, OffsetMode, TopicDesired
from tanist.domain.states import DesiredState
from tanist.domain.tails import commands_to_release
from tanist.usecases.items import topic_item
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest
from tanist.usecases.mirrors.create import create as create_mirror
from tanist.usecases.mirrors.follow import FollowRequest, refuse_options

if TYPE_CHECKING:
    from tanist.ports.logs import LogPrefixes

app = typer.Typer(
    no_args_is_help=True, help=("Create, change and show mirrors: topics of one cluster, kept identical on another.")
)

PromotedOption = Annotated[
    bool, typer.Option("--promoted", help="Accept topics of this source that were failed over to another cluster.")
]
AdoptOption = Annotated[
    bool,
    typer.Option(
        "--adopt",
        help="Take destination topics that have records, if these are the source's first ones at identical offsets.",
    ),
]
AbandonReason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", parser=one_line, help="Why the source fence is abandoned; printed, not stored."
    ),
]


@app.command()
@asking(changes=True)
def create(
    now: Session,
    name: MirrorArgument,
    *,
    source: Annotated[str, typer.Option("--source", "-s", metavar="NAME", help="The cluster to mirror.")],
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    offsets: Annotated[
        OffsetMode | None, typer.Option(help="How source and destination offsets relate (default: identical).")
    ] = None,
    engine: Annotated[Engine | None, typer.Option(help="How records are copied (default: batches).")] = None,
    holes: HolesOption = None,
    on_loss: OnLossOption = None,
    deny_writers: DenyWritersOption = None,
    replication_factor: ReplicationOption = None,
    merge_small_batches: SmallBatchesOption = None,
    promoted: PromotedOption = False,
    adopt: AdoptOption = False,
    copied_by: CopiedByOption = Copier.TANIST,
    rename: RenameOption = None,
    sync_metadata: SyncMetadataOption = None,
    sync_groups: SyncGroupsOption = None,
    group_sync_interval: GroupIntervalOption = None,
    config_exclude: ConfigExcludeOption = None,
    group_include: GroupIncludeOption = None,
    group_exclude: GroupExcludeOption = None,
    on_rewind: OnRewindOption = None,
    strategy: StrategyOption = None,
    mm2_aliases: AliasesOption = None,
    poll_timeout: PollTimeoutOption = None,
    transaction_ms: TransactionOption = None,
    delivery: DeliveryOption = None,
    start: StartOption = "",
    into_existing: IntoExistingOption = False,
    paused: PausedOption = False,
    fence_source: FenceSourceOption = None,
    grant_writers: GrantWritersOption = None,
    acl: AclOption = None,
    acl_principal: AclPrincipalOption = None,
    limit: LimitOption = None,
    topic_limit: TopicLimitOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Register a mirror and create its mirror topics, which `tanist fetcher run` then copies.

    The same specification again changes nothing; the same name with another specification is refused.

    With --offsets mapped records are copied in transactions, at offsets of the mirror topic's own. That takes no more
    rights than a producer has, and consumers of the mirror topics must read committed. With --delivery at-least-once
    they need not, and records may be there twice after a worker has died. With
    --rename they have other names than at the source.

    With --copied-by mm2 or other somebody else copies the records: nothing is created or copied, and without --topic
    all topics but internal ones are in the mirror. Its groups are followed by `tanist fetcher run` and translated by
    `tanist groups sync`.

    Example: tanist mirrors create dr --source east --destination west --topic 'orders.*'
    """
    sync = sync_settings(
        sync_metadata=sync_metadata,
        sync_groups=sync_groups,
        group_sync_interval=group_sync_interval,
        config_exclude=config_exclude,
        group_include=group_include,
        group_exclude=group_exclude,
        on_rewind=on_rewind,
    )
    following = {
        "--strategy": strategy is not None,
        "--mm2-aliases": mm2_aliases is not None,
        "--poll-timeout": poll_timeout is not None,
    }
    copying = {
        "--offsets": offsets is not None,
        "--engine": engine is not None,
        "--holes": holes is not None,
        "--on-loss": on_loss is not None,
        "--deny-writers": deny_writers is not None,
        "--replication-factor": replication_factor is not None,
        "--merge-small-batches": merge_small_batches is not None,
        "--transaction-ms": transaction_ms is not None,
        "--delivery": delivery is not None,
        "--promoted": promoted,
        "--adopt": adopt,
        "--start": bool(start),
        "--into-existing": into_existing,
        "--paused": paused,
        "--fence-source": fence_source is not None,
        "--grant-writers": grant_writers is not None,
        "--acl": acl is not None,
        "--acl-principal": acl_principal is not None,
        "--limit": limit is not None,
        "--topic-limit": topic_limit is not None,
        "--threads": threads is not None,
    }
    if copied_by is not Copier.TANIST:
        refuse_options(copying, mirror_following.NOT_COPIED_HERE)
        wanted = FollowRequest(
            mirror=name,
            copied_by=copied_by,
            include=tuple(topic or ()),
            exclude=tuple(exclude or ()),
            rename=tuple(rename or ()),
            strategies=tuple(strategy or ()),
            sync=sync,
            mm2_aliases=split_aliases(mm2_aliases or ""),
            poll_timeout_ms=round(1000 * (poll_timeout or 0)),
        )
        mirror_following.create(now, wanted, now.registry.connect(source), now.destination())
        return
    refuse_options(following, mirror_following.COPIED_HERE)
    request = CreateRequest(
        mirror=name,
        include=tuple(topic or ()),
        exclude=tuple(exclude or ()),
        offsets=offsets or OffsetMode.IDENTICAL,
        engine=engine or Engine.BATCHES,
        holes=holes,
        on_loss=on_loss,
        deny_writers=deny_writers,
        replication_factor=replication_factor,
        merge_small_batches=merge_small_batches,
        promoted=promoted,
        delivery=delivery,
        transaction_ms=transaction_ms,
        rename=tuple(rename or ()),
        start=start,
        into_existing=into_existing,
        fence_source=fence_source,
        grant_writers=grant_writers,
        sync=sync,
        acl_rules=None if acl is None else tuple(acl),
        acl_principals=None if acl_principal is None else tuple(acl_principal),
        limit=rate_given(limit),
        topic_limits=rules_given(topic_limit),
        threads=threads,
        desired=DesiredState.PAUSED if paused else DesiredState.MIRRORING,
    )
    destination = now.destination()
    prefixes = now.registry.log_prefixes(source, destination) if adopt else None
    created = create_mirror(request, now.registry.connect(source), destination, announcing(now, "mirror"), prefixes)
    _say_adopted(created.topics)
    _warn(created.warnings)
    done = created.changed and not now.context.dry_run
    if not created.changed:
        say(f"mirror {name} already exists with this specification: nothing was changed")
    elif done:
        say(f"created mirror {name} on {destination.name}")
    topics = [each.topic for each in created.topics]
    show_spec(now, created.spec, changed=done, warnings=list(created.warnings), topics=topics)


@app.command()
@asking(changes=True)
def add(
    now: Session,
    name: MirrorArgument,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    *,
    promoted: PromotedOption = False,
    adopt: AdoptOption = False,
    into_existing: IntoExistingOption = False,
) -> None:
    """Add topics of the source to a mirror.

    A topic that was detached (`remove --keep-copy`) goes on where it stopped, if its copy still is a true prefix of
    the source's log.

    Example: tanist mirrors add dr --destination west --topic payments
    """
    run, destination = announcing(now, "add"), now.destination()

    def prefixes(spec: MirrorSpec) -> LogPrefixes:
        return now.registry.log_prefixes(spec.source, destination, spec.source_cluster_id)

    accepted = desire.Accepted(promoted=promoted, adopt=adopt, into_existing=into_existing, prefixes=prefixes)
    desired = desire.add(name, selected(topic, exclude), destination, now.registry.connect, run, accepted)
    _warn(desired.warnings)
    for gone_on, ends in desired.continued.items():
        say(f"{gone_on} goes on where it stopped: at offset {', '.join(map(str, ends))} of its partitions, in order")
    _say_adopted(tuple(each for each in desired.topics if each.topic not in desired.continued))
    _show_topics(now, desired)


@app.command()
@asking(changes=True)
def pause(now: Session, name: MirrorArgument, topic: TopicsOption = None, exclude: ExcludeOption = None) -> None:
    """Stop copying topics until they are resumed; their mirror topics stay unchanged.

    Example: tanist mirrors pause dr --destination west --topic 'orders.*'
    """
    run = announcing(now, "pause")
    _show_topics(now, desire.set_desired(name, selected(topic, exclude), desire.paused, now.destination(), run))


@app.command()
@asking(changes=True)
def resume(now: Session, name: MirrorArgument, topic: TopicsOption = None, exclude: ExcludeOption = None) -> None:
    """Resume copying of topics that are paused, or have FAILED partitions, where it stopped.

    Of a FAILED partition a fetcher compares both logs again, once for each time this command is run. It continues where
    the mirror partition is a true prefix of the source; else it is FAILED again. So mend the cause first.

    Example: tanist mirrors resume dr --destination west --topic 'orders.*'
    """
    run = announcing(now, "resume")
    desired = desire.set_desired(name, selected(topic, exclude), desire.resumed, now.destination(), run)
    for each in desired.failed:
        say(f"{each.partition} is FAILED with {each.error}: a fetcher compares both logs before it continues")
    _show_topics(now, desired)


@app.command()
@asking(changes=True, confirms=True)
def delete(
    now: Session,
    name: MirrorArgument,
    *,
    abandon_fence: Annotated[
        bool,
        typer.Option(
            "--abandon-fence", help=("Delete although a source fence is in force; prints how to lift it by hand.")
        ),
    ] = False,
    reason: AbandonReason = "",
) -> None:
    """Delete an empty mirror. Topics stay; the name can be used again.

    Lift a source fence that is in force or pending first (`tanist fence lift`): it cannot be lifted afterwards. Or give
    --abandon-fence with a --reason.

    Example: tanist mirrors delete dr --destination west
    """
    if abandon_fence and not reason.strip():
        raise Misconfigured("--abandon-fence needs a --reason, which is printed with the commands and not stored")
    destination = now.destination()
    confirm(f"Delete mirror {mirror_name(name)} of {destination.name}?", yes=now.yes or now.context.dry_run)
    deleted = administer.delete(name, destination, now.context, abandon=reason if abandon_fence else "")
    say(f"{'would delete' if now.context.dry_run else 'deleted'} mirror {name}")
    bootstrap = now.registry.bootstrap(deleted.spec.source) or "SOURCE:PORT"
    by_hand = [*commands_to_lift(deleted.abandoned, bootstrap)]
    for group in deleted.kept:
        by_hand += commands_to_lift(group.topics, now.registry.bootstrap(group.spec.source) or "CLUSTER:PORT")
    if by_hand:
        say(f"source fence abandoned: {reason}")
    for command in by_hand:
        say(f"by hand: {command}")
    if deleted.held:
        say(f"warning: retention is still held at {deleted.spec.source}: {', '.join(e.topic for e in deleted.held)}")
    for command in commands_to_release(deleted.held, bootstrap):
        say(f"by hand: {command}")
    _say_left_closed(deleted, bootstrap)
    show_spec(now, deleted.spec, changed=not now.context.dry_run, abandoned_fences=by_hand)


mirror_removal.register(app)
mirror_reversal.register(app)
mirror_seeding.register(app)
mirror_settings.register(app)
mirror_views.register(app)


def _say_left_closed(deleted: administer.Deleted, bootstrap: str) -> None:
    """Copies at the source that the mirror had closed before it was reversed, and how to allow their writers again."""
    if deleted.detached:
        names = ", ".join(each.topic for each in deleted.detached)
        say(f"warning: the copies of detached topics stay closed at {deleted.spec.source}: {names}")
    for each in deleted.detached:
        for command in commands_to_allow(each.topic, each.kept.denied, bootstrap):
            say(f"by hand: {command}")


def _warn(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        say(f"warning: {warning}")


def _say_adopted(topics: tuple[TopicDesired, ...]) -> None:
    for topic in topics:
        if topic.copy_starts:
            starts = ", ".join(map(str, topic.copy_starts))
            say(f"adopted {topic.topic}: copying begins at offset {starts} of its partitions, in order")


def _show_topics(now: Session, desired: desire.Desired) -> None:
    emit([topic_item(topic) for topic in desired.topics], TOPIC_COLUMNS, now.as_json)
