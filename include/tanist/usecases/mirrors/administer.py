"""`tanist mirrors alter|delete`: changes to a whole mirror."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.acl_rules import acl_principals, acl_rules
from tanist.domain.checks import MOST_NAMED
from tanist.domain.detached import detached_elsewhere, detached_here
from tanist.domain.errors import MirrorNotEmpty, Misconfigured, Refused, TanistError
from tanist.domain.fences import not_lifted
from tanist.domain.followed import copied_here, is_followed
from tanist.domain.kept_fences import fence_groups
from tanist.domain.limits import limit_problems
from tanist.domain.mapped_settings import (
    DENIES_FOR_GOOD,
    ONE_THREAD,
    ONLY_IDENTICAL,
    ONLY_MAPPED,
    NotSupported,
    interval_problem,
    left_to_people_problems,
)
from tanist.domain.names import mirror_name
from tanist.domain.problems import ProblemCollector
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, MirrorSpec
from tanist.domain.selection import pattern_problems
from tanist.domain.sync_settings import SyncSettings, not_of_followed
from tanist.usecases import snapshot
from tanist.usecases.lock import changing
from tanist.usecases.mirror import identify, spec_at
from tanist.usecases.mirrors import forget, writers
from tanist.usecases.mirrors.create import option_problems
from tanist.usecases.mirrors.follow import refuse_options, setting_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.delivery import Delivery
    from tanist.domain.detached_record import TopicDetached
    from tanist.domain.fences import FencedTopic
    from tanist.domain.kept_fences import FenceGroup
    from tanist.domain.losses import OnLoss
    from tanist.domain.records import OffsetMode, SmallBatches, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import RetentionHeld
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext


_OF_COPYING: Final = frozenset(
    {
        "replication_factor",
        "max_start_fill",
        "merge_small_batches",
        "on_loss",
        "deny_writers",
        "offsets",
        "transaction_ms",
        "delivery",
        "fence_source",
        "grant_writers",
        "acl_rules",
        "acl_principals",
        "limit",
        "topic_limits",
        "threads",
    }
)
_OF_FOLLOWING: Final = {
    "strategies": "--strategy",
    "mm2_aliases": "--mm2-aliases",
    "poll_timeout_ms": "--poll-timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The changes, by the fields of a spec; None keeps the value."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    replication_factor: int | None = None
    max_start_fill: int | None = None
    merge_small_batches: SmallBatches | None = None
    on_loss: OnLoss | None = None
    transaction_ms: int | None = None
    delivery: Delivery | None = None
    offsets: OffsetMode | None = None
    """Never another one than the mirror has."""
    deny_writers: bool | None = None
    fence_source: bool | None = None
    grant_writers: bool | None = None
    limit: int | None = None
    topic_limits: tuple[str, ...] | None = None
    threads: int | None = None
    strategies: tuple[str, ...] | None = None
    mm2_aliases: tuple[str, ...] | None = None
    poll_timeout_ms: int | None = None
    sync: SyncSettings = field(default_factory=SyncSettings)
    acl_rules: tuple[str, ...] | None = None
    acl_principals: tuple[str, ...] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The new values by field."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self) if each.name != "sync")
        return {name: value for name, value in values if value is not None} | self.sync.given

    def of(self, spec: MirrorSpec) -> MirrorSpec:
        """`spec` with this alteration."""
        return replace(spec, **self.given)

    def problems(self) -> Iterator[TanistError]:
        """What is wrong without asking any cluster."""
        yield from pattern_problems((*(self.include or ()), *(self.exclude or ())))
        yield from self.sync.problems()
        yield from option_problems(self.replication_factor, self.max_start_fill or 0, self.threads)
        yield from limit_problems(self.topic_limits or ())
        yield from setting_problems(self.strategies or (), self.mm2_aliases or ())
        found = ProblemCollector()
        found.attempt(lambda: acl_rules(self.acl_rules or ()))
        found.attempt(lambda: acl_principals(self.acl_principals or ()))
        yield from found.problems
        if self.transaction_ms is not None and (problem := interval_problem(self.transaction_ms)):
            yield problem
        if not self.given:
            yield Misconfigured("nothing to alter: give at least one option, see `tanist mirrors alter --help`")

    def must_suit(self, spec: MirrorSpec) -> None:
        """Whether `spec` has these settings, by who copies it and how.

        Raises:
            CopiedByAnother, Misconfigured, NotSupported, or several.
        """
        if _OF_COPYING & self.given.keys():
            copied_here(spec)
        ProblemCollector(not_of_followed(spec, self.sync)).raise_all()
        if not is_followed(spec):
            why = f"is for mirrors that somebody else copies: {spec.copied_by.in_words} copies {spec.mirror!r}"
            refuse_options({flag: name in self.given for name, flag in _OF_FOLLOWING.items()}, why)
            ProblemCollector(self._unfit(spec)).raise_all()

    def _unfit(self, spec: MirrorSpec) -> Iterator[TanistError]:
        """Settings that do not go with the offsets of a mirror that Tanist copies."""
        if self.offsets not in {None, spec.offsets}:
            yield NotSupported(
                f"--offsets {self.offsets}: the copy of mirror {spec.mirror!r} has {spec.offsets} offsets for good: "
                "create another mirror"
            )
        if spec.is_mapped and self.max_start_fill is not None:
            yield Misconfigured(ONLY_IDENTICAL.format("--max-start-fill"))
        if spec.is_mapped and self.threads not in {None, 1}:
            yield Misconfigured(ONE_THREAD)
        if not spec.is_mapped and self.transaction_ms is not None:
            yield Misconfigured(ONLY_MAPPED.format("--transaction-ms"))
        if not spec.is_mapped and self.delivery is not None:
            yield Misconfigured(ONLY_MAPPED.format("--delivery"))
        if not spec.is_mapped:
            yield from left_to_people_problems(self.fence_source, self.grant_writers)
        altered = self.of(spec)
        if altered.deny_writers and not altered.grant_writers:
            yield Misconfigured(DENIES_FOR_GOOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    spec: MirrorSpec
    changed: bool
    warnings: tuple[str, ...] = ()


def alter(mirror: str, alteration: Alteration, destination: Cluster, context: CommandContext) -> Altered:
    """Change settings of a mirror.

    Of a mirror that Tanist copies, all but `merge_small_batches`, `on_loss`, `transaction_ms`, `delivery`, the limits,
    `threads`, `deny_writers` and `sync` apply only to topics added later. If `deny_writers` is given, it is carried out
    on all topics, also if that was interrupted before.

    Raises:
        Misconfigured, NotSupported, or several: a value is wrong, or the setting is not one of this mirror.
        AuthorizationFailed: this login may not create or delete the ACLs. Interrupted: not all were.
    """
    found = ProblemCollector(alteration.problems())
    found.attempt(lambda: mirror_name(mirror))
    found.raise_all()
    name = mirror_name(mirror)
    alteration.must_suit(spec_at(destination, name, context, any_copier=True))  # before the lock is taken
    with changing(destination, name, "mirrors alter", context, any_copier=True) as mirror_now:
        spec = mirror_now.spec
        alteration.must_suit(spec)
        altered = alteration.of(spec)
        changed: tuple[TopicDesired, ...] = ()
        warnings: tuple[str, ...] = ()
        if alteration.deny_writers is not None:
            changed, warnings = writers.switch(mirror_now, altered, destination)
            warnings += writers.without_effect(destination, context.by) if altered.deny_writers else ()
        elif altered != spec:
            mirror_now.append([altered])
    return Altered(spec=altered, changed=altered != spec or bool(changed), warnings=warnings)


class DetachedLeft(MirrorNotEmpty):
    operator_action = (
        "their copies are closed by this mirror: add them again (`tanist mirrors add --topic REGEX`) and remove them; "
        "or delete the copies, then `tanist mirrors remove --topic REGEX` forgets them; nothing was changed"
    )

    def __init__(self, message: str, *topics: str) -> None:
        super().__init__(message)
        self._topics = topics

    def action_for(self, *topics: str) -> str:
        """The topics that the message names, although it is one error."""
        return super().action_for(*topics, *self._topics)


class FenceOrphaned(Refused):
    name = "FENCE_STANDS"
    operator_action = (
        "lift it with `tanist fence lift NAME`, or abandon it with `tanist mirrors delete NAME "
        "--abandon-fence --reason TEXT`; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The deleted mirror.

    `abandoned`: its source fences, which Tanist will never lift; `kept`: those of topics that reversals left behind.
    `held`: topics of the old source whose retention and cleaning stay held, because nobody has put them back.
    `detached`: topics whose copies are at the source, because the mirror was reversed since; they stay closed there.
    """

    spec: MirrorSpec
    abandoned: tuple[FencedTopic, ...] = ()
    kept: tuple[FenceGroup, ...] = ()
    held: tuple[RetentionHeld, ...] = ()
    detached: tuple[TopicDetached, ...] = ()


def delete(mirror: str, destination: Cluster, context: CommandContext, *, abandon: str = "") -> Deleted:
    """Delete an empty mirror, or one that somebody else copies: its name can be used again.

    `abandon`: the reason why records of source fences in force, or pending, may be deleted too.

    Raises:
        MirrorNotEmpty. FenceOrphaned: a source fence is in force or pending. MirrorLocked: another command holds it.
    """
    name = mirror_name(mirror)
    identify((destination,), context)

    def left_behind(view: StateView) -> tuple[FenceGroup, ...]:
        spec = snapshot.spec_of(view, name, destination.name, any_copier=True)
        _ensure_empty(view, spec)
        groups = fence_groups(view, spec)
        fences = tuple(group for group in groups if not_lifted(group.topics))
        if fences and not abandon.strip():
            topics = ", ".join([each.topic for group in fences for each in not_lifted(group.topics)][:5])
            raise FenceOrphaned(
                f"the source fence of {topics} is in force or pending and could not be lifted after the deletion"
            )
        return fences

    with changing(destination, name, "mirrors delete", context, left_behind, any_copier=True) as mirror_now:
        groups = left_behind(mirror_now.view())
        abandoned = tuple(each for group in groups if not group.kept for each in not_lifted(group.topics))
        kept = tuple(group for group in groups if group.kept)
        held = tuple(mirror_now.view().retention_held(name).values())
        apart = tuple(detached_elsewhere(mirror_now.view(), mirror_now.spec).values())
        if not context.dry_run:
            for topic in (OFFSETS_TOPIC, GROUPS_TOPIC):
                mirror_now.confirm()
                forget.everything(destination, mirror_now, topic)
        mirror_now.finish()
    return Deleted(spec=mirror_now.spec, abandoned=abandoned, kept=kept, held=held, detached=apart)


def _ensure_empty(view: StateView, spec: MirrorSpec) -> None:
    mirror = spec.mirror
    if held := [topic.topic for topic in view.mirrored(mirror)]:
        raise MirrorNotEmpty(f"mirror {mirror!r} still has {len(held)} topic(s): {', '.join(held[:5])}")
    if apart := [*detached_here(view, spec)]:
        first = apart[:MOST_NAMED]
        raise DetachedLeft(f"mirror {mirror!r} still has {len(apart)} detached topic(s): {', '.join(first)}", *first)
