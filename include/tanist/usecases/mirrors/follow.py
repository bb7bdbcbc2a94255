"""`tanist mirrors create --copied-by mm2|other`: registers a mirror whose records somebody else copies.

Only its spec is written. No topic but state topics is created, no producer id allocated and no config set.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.domain.errors import Misconfigured, SameCluster, TanistError, TopicAlreadyInMirror
from tanist.domain.followed import FollowedTopics, strategy_problems
from tanist.domain.names import ProducerId, mirror_name
from tanist.domain.owners import Owners
from tanist.domain.problems import ProblemCollector
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, MirrorSpec, OffsetMode
from tanist.domain.renaming import rename_problems
from tanist.domain.selection import pattern_problems
from tanist.domain.sync_settings import SyncSettings, not_of_followed
from tanist.usecases import snapshot
from tanist.usecases.mirror import distinct
from tanist.usecases.mirrors import take
from tanist.usecases.mirrors.followed import followed_in
from tanist.usecases.mirrors.same_settings import same_settings
from tanist.usecases.snapshot import MirrorSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.copier import Copier
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

_NO_ID: Final = ProducerId(-1)
_BOTH: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRequest:
    """The parameters of `tanist mirrors create --copied-by`. `copied_by`: anybody but Tanist."""

    mirror: str
    copied_by: Copier
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rename: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    sync: SyncSettings = field(default_factory=SyncSettings)
    mm2_aliases: tuple[str, ...] = ()
    poll_timeout_ms: int = 0

    def problems(self, source: str) -> tuple[TanistError, ...]:
        """What is wrong without asking any cluster. `source`: the name of the connection to it."""
        found = ProblemCollector(pattern_problems((*self.include, *self.exclude)))
        found.attempt(lambda: mirror_name(self.mirror))
        found.problems += rename_problems(self.rename, source)
        found.problems += self.sync.problems()
        found.problems += setting_problems(self.strategies, self.mm2_aliases)
        return tuple(found.problems)


def setting_problems(strategies: Sequence[str], mm2_aliases: Sequence[str]) -> Iterator[TanistError]:
    """What is wrong with the settings of a mirror that somebody else copies; empty: nothing, or they are not given."""
    yield from strategy_problems(strategies)
    if mm2_aliases and (len(mm2_aliases) != _BOTH or not all(mm2_aliases)):
        yield Misconfigured(f"--mm2-aliases {','.join(mm2_aliases)!r} is not SOURCE,DESTINATION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The mirror, and its topics now. `changed` is False if the same mirror existed already."""

    spec: MirrorSpec
    topics: FollowedTopics
    changed: bool

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should know who has just registered it."""
        if not self.topics.topics:
            return ("no topic of the source is in the mirror: see --topic, --exclude and --rename",)
        return tuple(f"{each.source}: {each.trouble}: {each.why}" for each in self.topics.troubled())


def refuse_options(given: Mapping[str, bool], why: str) -> None:
    """Raises Misconfigured, or several: an option of `given`, by its flag, was given."""
    ProblemCollector(Misconfigured(f"{flag} {why}") for flag, is_given in given.items() if is_given).raise_all()


def follow(request: FollowRequest, source: Cluster, destination: Cluster, context: CommandContext) -> Followed:
    """Register the mirror. Idempotent.

    Needs DESCRIBE on the topics of both clusters, and READ, WRITE (CREATE where they are missing) on the state topics.

    Raises:
        Problems, or the single error: everything that is wrong. MirrorExists: it has other settings.
        SameCluster: source and destination are one cluster, where a topic and its copy cannot be told apart.
    """
    found = ProblemCollector(request.problems(source.name))
    if source.name == destination.name:
        found.problems.append(SameCluster(f"{source.name!r} is the source and the destination"))
    found.raise_all()  # before the network is asked
    ids = distinct(source, destination, context)
    by, view = context.by, destination.state(STATE_TOPIC, context.by)
    wanted = _spec(request, (source, destination), ids, context)
    ProblemCollector(not_of_followed(wanted, request.sync)).raise_all()
    existing = view.mirror(wanted.mirror)
    spec = wanted if existing is None else same_settings(existing, wanted)
    topics = followed_in(MirrorSnapshot.of(spec, source, destination), context)
    if topics.source_down is not None:
        raise topics.source_down
    context.announce(list(topics.topics))
    if existing is not None:
        return Followed(spec=spec, topics=topics, changed=False)
    new_state = found.attempt(lambda: snapshot.missing_state_topics(destination, by)) or ()
    found.problems += found.attempt(lambda: take.rehearse(destination, new_state, by)) or ()
    found.problems += _taken(Owners.besides(view, spec.mirror), topics)
    found.raise_all()
    if context.dry_run:
        return Followed(spec=spec, topics=topics, changed=True)
    try:
        return _register(spec, topics, destination, context)
    except TanistError as error:
        raise take.partial(error) from error


def _taken(owners: Owners, topics: FollowedTopics) -> list[TanistError]:
    """Copies that are topics of other mirrors, whoever copies those: two replicators would write to them."""
    copies = sorted(each.copy for each in topics.topics.values())
    taken = ((copy, owner) for copy in copies if (owner := owners.of(copy)) is not None)
    return [TopicAlreadyInMirror(f"{copy!r} is in {owner.in_full}") for copy, owner in taken]


def _spec(
    request: FollowRequest, pair: tuple[Cluster, Cluster], ids: tuple[str, str], context: CommandContext
) -> MirrorSpec:
    """Without an id. Offsets are mapped: nobody promises that those of a copy are its source's."""
    return MirrorSpec(
        mirror=mirror_name(request.mirror),
        source=pair[0].name,
        destination=pair[1].name,
        source_cluster_id=ids[0],
        destination_cluster_id=ids[1],
        include=request.include,
        exclude=request.exclude,
        offsets=OffsetMode.MAPPED,
        data_id=_NO_ID,
        marker_id=_NO_ID,
        start_id=_NO_ID,
        created_at=context.clock.now(),
        copied_by=request.copied_by,
        rename=request.rename,
        strategies=request.strategies,
        mm2_aliases=request.mm2_aliases,
        poll_timeout_ms=request.poll_timeout_ms,
        **request.sync.given,
    )


def _register(draft: MirrorSpec, topics: FollowedTopics, destination: Cluster, context: CommandContext) -> Followed:
    by = context.by
    destination.open_store(OFFSETS_TOPIC, None, by, create=True).close()
    store = destination.open_store(STATE_TOPIC, draft.mirror, by, create=True)
    try:
        if existing := store.catch_up(by).mirror(draft.mirror):  # somebody was faster
            return Followed(spec=same_settings(existing, draft), topics=topics, changed=False)
        spec = replace(draft, mirror_id=str(uuid4()))
        store.append([spec], by)
    finally:
        store.close()
    return Followed(spec=spec, topics=topics, changed=True)
