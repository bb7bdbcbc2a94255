"""`tanist mirrors alter|delete`: what holds for a whole mirror."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import MirrorNotEmpty, Misconfigured
from tanist.domain.names import mirror_name
from tanist.domain.problems import Findings
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, MirrorSpec
from tanist.domain.selection import pattern_problems
from tanist.domain.state_record import Tombstone
from tanist.domain.states import Wish
from tanist.usecases import sides
from tanist.usecases.mirrors import forget
from tanist.usecases.mirrors.create import option_problems
from tanist.usecases.mirrors.desire import changing

if TYPE_CHECKING:
    from tanist.domain.state_view import StateView
    from tanist.usecases.sides import Run, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """What is to change; None: stays as it is."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    replication_factor: int | None = None
    max_start_fill: int | None = None

    def of(self, spec: MirrorSpec) -> MirrorSpec:
        """`spec` with this alteration."""
        return replace(
            spec,
            include=spec.include if self.include is None else self.include,
            exclude=spec.exclude if self.exclude is None else self.exclude,
            replication_factor=self.replication_factor or spec.replication_factor,
            max_start_fill=spec.max_start_fill if self.max_start_fill is None else self.max_start_fill,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    spec: MirrorSpec
    changed: bool


def alter(mirror: str, alteration: Alteration, destination: Side, run: Run) -> Altered:
    """Change what may change of a mirror. Holds for topics that are taken from now on; those there stay."""
    found = Findings(pattern_problems((*(alteration.include or ()), *(alteration.exclude or ()))))
    found.problems += option_problems(alteration.replication_factor, alteration.max_start_fill or 0)
    if alteration == Alteration():
        found.problems.append(Misconfigured("nothing to alter: give one of the options"))
    found.attempt(lambda: mirror_name(mirror))
    found.settle()
    name = mirror_name(mirror)
    (cluster_id,) = sides.identify((destination,), run)
    with changing(destination, name, run) as (store, view):
        spec = sides.spec_of(view, name, destination.name)
        sides.same_as_pinned(spec, None, cluster_id)
        altered = alteration.of(spec)
        if altered != spec and not run.dry_run:
            store.append([altered], run.by)
    return Altered(spec=altered, changed=altered != spec)


def tombstones(view: StateView, spec: MirrorSpec) -> tuple[Tombstone, ...]:
    """What takes every trace of a mirror out of the state topic.

    Raises:
        MirrorNotEmpty: naming the topics that are still in it.
    """
    if held := [topic.topic for topic in view.topics(spec.mirror) if topic.wish is not Wish.REMOVED]:
        raise MirrorNotEmpty(f"mirror {spec.mirror!r} still has {len(held)} topic(s): {', '.join(held[:5])}")
    kinds = ("topic", "partition", "ends", "generation")
    ours = tuple(f"{kind}/{spec.mirror}/" for kind in kinds)
    return tuple(Tombstone(key) for key in (spec.key, *sorted(key for key in view if key.startswith(ours))))


def delete(mirror: str, destination: Side, run: Run) -> MirrorSpec:
    """Forget an empty mirror; its name can be used again. Returns what it was."""
    name = mirror_name(mirror)
    sides.identify((destination,), run)
    view = sides.read(destination, STATE_TOPIC, run.by)
    spec = sides.spec_of(view, name, destination.name)
    tombstones(view, spec)
    if run.dry_run:
        return spec
    # Done first: an empty mirror needs neither a map nor positions, and a later one of this name must not inherit them.
    for topic, kind in ((OFFSETS_TOPIC, "run"), (GROUPS_TOPIC, "group")):
        forget.keys(destination, spec.mirror, topic, (f"{kind}/{spec.mirror}/",), run)
    with changing(destination, name, run) as (store, now):
        store.append(tombstones(now, sides.spec_of(now, name, destination.name)), run.by)
    return spec
