"""The settings of a mirror: their options, `tanist mirrors alter`, and what is shown of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tanist.cli.mirror_following import (
    AliasesOption,
    PollTimeoutOption,
    StrategyOption,
    split_aliases,
)
from tanist.cli.options import ExcludeOption, MirrorArgument, Session, TopicsOption, asking
from tanist.cli.output import emit, say
from tanist.cli.sync_options import (
    ConfigExcludeOption,
    GroupExcludeOption,
    GroupIncludeOption,
    GroupIntervalOption,
    OnRewindOption,
    SyncGroupsOption,
    SyncMetadataOption,
    given,
    sync_settings,
)
from tanist.domain.compaction import Holes
from tanist.domain.delivery import Delivery
from tanist.domain.limits import NO_LIMIT, rate
from tanist.domain.losses import OnLoss
from tanist.domain.mapped_settings import DEFAULT_INTERVAL_MS, LONGEST_INTERVAL_MS, SHORTEST_INTERVAL_MS
from tanist.domain.records import MirrorSpec, OffsetMode, SmallBatches
from tanist.usecases.items import spec_item
from tanist.usecases.mirrors.administer import Alteration
from tanist.usecases.mirrors.administer import alter as alter_mirror

SPEC_COLUMNS = ("mirror", "source", "destination", "offsets", "engine", "include", "exclude")

ReplicationOption = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        metavar="N",
        help=("Replication factor of the mirror topics (default: the destination's)."),
    ),
]
SmallBatchesOption = Annotated[
    SmallBatches | None,
    typer.Option(
        "--merge-small-batches",
        help="Merge runs of small batches while all workers can recover on them (default for a new mirror: auto).",
    ),
]
HolesOption = Annotated[
    Holes | None,
    typer.Option(
        help="What offsets hold whose records compaction has removed at the source (default for a new mirror: copies)."
    ),
]
OnLossOption = Annotated[
    OnLoss | None,
    typer.Option(
        help="What to do when the source has deleted records before they were copied (default for a new mirror: fail)."
    ),
]
TransactionOption = Annotated[
    int | None,
    typer.Option(
        "--transaction-ms",
        metavar="N",
        help=f"With mapped offsets: milliseconds after which a transaction is committed, {SHORTEST_INTERVAL_MS} to "
        f"{LONGEST_INTERVAL_MS} (default for a new mirror: {DEFAULT_INTERVAL_MS}).",
    ),
]
DeliveryOption = Annotated[
    Delivery | None,
    typer.Option(
        help="With mapped offsets: whether records are copied in transactions, or may be there twice after a worker "
        "has died (default for a new mirror: exactly-once)."
    ),
]
StartOption = Annotated[
    str,
    typer.Option(
        "--start",
        metavar="earliest|latest|TIME",
        help="With mapped offsets: where the copies of topics begin, now and of those that `add` takes: earliest "
        "(default), latest, or the first record of a time, in ISO 8601 with its zone or in ms since 1970.",
    ),
]
IntoExistingOption = Annotated[
    bool,
    typer.Option(
        "--into-existing",
        help="With mapped offsets: take topics that have records at the destination; the copies begin behind them.",
    ),
]
PausedOption = Annotated[
    bool, typer.Option("--paused", help="Copy nothing before `tanist mirrors resume`, as for `mirrors seed-offsets`.")
]
DenyWritersOption = Annotated[
    bool | None,
    typer.Option(
        "--deny-writers/--no-deny-writers",
        help="Deny WRITE on mirror topics, by name, to others whom ACLs allow it, until a failover, if the destination "
        "has an authorizer (default for a new mirror: deny; with mapped offsets: do not).",
    ),
]
FenceSourceOption = Annotated[
    bool | None,
    typer.Option(
        "--fence-source/--no-fence-source",
        help="With mapped offsets: whether failovers block the producers of the source (default), which takes ALTER on "
        "that cluster. Without it you stop them, and each plan says so.",
    ),
]
GrantWritersOption = Annotated[
    bool | None,
    typer.Option(
        "--grant-writers/--no-grant-writers",
        help="With mapped offsets: whether failovers grant WRITE at the destination to those who have it at the "
        "source, and take it from the mirror (default), which takes ALTER on that cluster. Without it you grant it, "
        "and each plan says so.",
    ),
]
AclOption = Annotated[
    list[str] | None,
    typer.Option(
        "--acl",
        metavar="RULE",
        help="Which ACLs of the source, for reading topics, for groups and for transactional ids, `metadata sync` "
        "creates at the destination: resourceType;resourceName;operation;permissionType;principal, where * is any, and "
        "may be left out at the end; as KIP-1279 (default for a new mirror: none). Repeatable.",
    ),
]
AclPrincipalOption = Annotated[
    list[str] | None,
    typer.Option(
        "--acl-principal",
        metavar="SOURCE=DESTINATION",
        help="The name that a principal of the source has at the destination, as User:app=User:app-dr. Repeatable.",
    ),
]
LimitOption = Annotated[
    str | None,
    typer.Option(
        "--limit",
        metavar="RATE",
        help="Most bytes per second that all workers together copy, for example 10MB/s (default for a new mirror: "
        f"{NO_LIMIT}).",
    ),
]
TopicLimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic-limit",
        metavar="REGEX=RATE",
        help="Most bytes per second of each topic that matches, for example 'orders.*=1MB/s', or none; repeatable, the "
        "first match counts.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        help="With identical offsets: threads of each worker for each broker of the source (default for a new mirror: "
        "1).",
    ),
]


@asking(changes=True)
def alter(
    now: Session,
    name: MirrorArgument,
    *,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    replication_factor: ReplicationOption = None,
    max_start_fill: Annotated[
        int | None,
        typer.Option(
            "--max-start-fill",
            metavar="N",
            help=("Largest gap to fill for a log that starts above offset 0, in offsets."),
        ),
    ] = None,
    merge_small_batches: SmallBatchesOption = None,
    on_loss: OnLossOption = None,
    transaction_ms: TransactionOption = None,
    delivery: DeliveryOption = None,
    offsets: Annotated[
        OffsetMode | None, typer.Option(help="How source and destination offsets relate; no mirror can change that.")
    ] = None,
    deny_writers: DenyWritersOption = None,
    fence_source: FenceSourceOption = None,
    grant_writers: GrantWritersOption = None,
    sync_metadata: SyncMetadataOption = None,
    sync_groups: SyncGroupsOption = None,
    group_sync_interval: GroupIntervalOption = None,
    config_exclude: ConfigExcludeOption = None,
    limit: LimitOption = None,
    topic_limit: TopicLimitOption = None,
    threads: ThreadsOption = None,
    group_include: GroupIncludeOption = None,
    group_exclude: GroupExcludeOption = None,
    on_rewind: OnRewindOption = None,
    strategy: StrategyOption = None,
    mm2_aliases: AliasesOption = None,
    poll_timeout: PollTimeoutOption = None,
    acl: AclOption = None,
    acl_principal: AclPrincipalOption = None,
) -> None:
    """Change the settings of a mirror for topics added from now on; topics in it keep theirs.

    --topic and --exclude replace the mirror's filters. What follows the source (--sync-metadata, --sync-groups,
    --group-sync-interval, --config-exclude, --group-include, --group-exclude, --on-rewind), --merge-small-batches,
    --on-loss, --transaction-ms, --delivery, --limit, --topic-limit and --threads apply to all topics within seconds:
    with --on-loss continue, partitions that FAILED with UNCOPIED_RECORDS_DELETED continue behind the loss.
    --no-deny-writers allows exactly those again that were denied; run the same command again if it was interrupted.
    --acl and --acl-principal replace what the mirror has, from the next `metadata sync` on.

    Of a mirror that somebody else copies, --strategy, --mm2-aliases and --poll-timeout apply from the next
    translation on. An empty value takes a filter, a strategy, aliases or rules away: --group-exclude ''.

    Example: tanist mirrors alter dr --destination west --replication-factor 3
    """
    alteration = Alteration(
        include=given(topic),
        exclude=given(exclude),
        replication_factor=replication_factor,
        max_start_fill=max_start_fill,
        merge_small_batches=merge_small_batches,
        on_loss=on_loss,
        transaction_ms=transaction_ms,
        delivery=delivery,
        offsets=offsets,
        deny_writers=deny_writers,
        fence_source=fence_source,
        grant_writers=grant_writers,
        limit=rate_given(limit),
        topic_limits=rules_given(topic_limit),
        threads=threads,
        strategies=given(strategy),
        mm2_aliases=None if mm2_aliases is None else split_aliases(mm2_aliases),
        poll_timeout_ms=None if poll_timeout is None else round(1000 * poll_timeout),
        sync=sync_settings(
            sync_metadata=sync_metadata,
            sync_groups=sync_groups,
            group_sync_interval=group_sync_interval,
            config_exclude=config_exclude,
            group_include=group_include,
            group_exclude=group_exclude,
            on_rewind=on_rewind,
        ),
        acl_rules=given(acl),
        acl_principals=given(acl_principal),
    )
    altered = alter_mirror(name, alteration, now.destination(), now.context)
    for warning in altered.warnings:
        say(f"warning: {warning}")
    if not altered.changed:
        say(f"mirror {name} already has these values: nothing was changed")
    show_spec(now, altered.spec, changed=altered.changed and not now.context.dry_run)


def rate_given(text: str | None) -> int | None:
    """Bytes per second of --limit, 0: none; None: the option was not given."""
    return None if text is None else rate("--limit", text or NO_LIMIT)


def rules_given(texts: list[str] | None) -> tuple[str, ...] | None:
    """As `given`; a single 'none' takes away what the mirror has, too."""
    return () if texts == [NO_LIMIT] else given(texts)


def show_spec(now: Session, spec: MirrorSpec, **more: Any) -> None:
    """The settings of a mirror. `more`: what else the JSON has."""
    item = spec_item(spec) | more
    cells = {name: " ".join(item[name]) or None for name in ("include", "exclude")}
    emit([item], SPEC_COLUMNS, now.as_json, rows=[item | cells])


def register(app: typer.Typer) -> None:
    """Add the command to `tanist mirrors`."""
    app.command()(alter)
