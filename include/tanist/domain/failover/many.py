"""Failovers of many mirrors by one command: which mirrors there are, how a plan is named, and what comes first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import filterfalse
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.checks import Readiness
from tanist.domain.detached import detached_topics
from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.followed import is_followed
from tanist.domain.names import MirrorName, mirror_name
from tanist.domain.problems import refuse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView

_WORST_FIRST: Final = (Readiness.NO_GO, Readiness.UNKNOWN, Readiness.ACCEPT, Readiness.GO)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAt:
    """A mirror, as its destination has it. `destination`: the name of the connection to it, as `--destination` has it.

    `idle`: no topic is in it, so there is nothing to fail over. `detached`: topics that a failover leaves out.
    """

    destination: str
    spec: MirrorSpec
    idle: bool
    detached: tuple[str, ...] = ()

    @property
    def mirror(self) -> MirrorName:
        return self.spec.mirror

    @property
    def where(self) -> str:
        """As `DESTINATION/NAME`."""
        return f"{self.destination}/{self.mirror}"


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """The hash of a plan and the mirror that it is for, as `DESTINATION/NAME=HASH` in a command.

    A name of a mirror is unique at its destination only, so the destination is always in it.
    """

    destination: str
    mirror: MirrorName
    plan: str

    def __str__(self) -> str:
        return f"{self.where}={self.plan}"

    @property
    def where(self) -> str:
        """The mirror alone, as `DESTINATION/NAME`."""
        return f"{self.destination}/{self.mirror}"

    @classmethod
    def read(cls, text: str, destination: str | None) -> Self:
        """As it was typed; `destination`: of one that does not say where it is.

        Raises:
            Misconfigured: it is not such a text, or nobody says where the mirror is. InvalidMirrorName.
        """
        where, _, plan = text.rpartition("=")
        there, _, name = where.rpartition("/")
        if not name or not plan:
            raise Misconfigured(f"{text!r} is not DESTINATION/NAME=HASH, as `tanist failover plan --all` prints it")
        if not (there or destination):
            raise Misconfigured(f"{text!r} does not say at which destination: give DESTINATION/{text} or --destination")
        return cls(there or str(destination), mirror_name(name), plan)


def named_plans(texts: Iterable[str], destination: str | None) -> tuple[NamedPlan, ...]:
    """The plans as they were typed, in that order, each once.

    Raises:
        Misconfigured: see `NamedPlan.read`; there is none, or two of one mirror. InvalidMirrorName. All that is wrong.
    """
    found: dict[str, NamedPlan] = {}
    problems: list[TanistError] = []
    for text in texts:
        try:
            each = NamedPlan.read(text, destination)
            if found.setdefault(each.where, each) != each:
                raise Misconfigured(
                    f"two plans are given for mirror {each.where}: {found[each.where].plan}, {each.plan}"
                )
        except TanistError as wrong:
            problems.append(wrong)
    if problems:
        refuse(problems)
    if not found:
        raise Misconfigured("no plan is given: `tanist failover plan --all` prints the whole command")
    return tuple(found.values())


def mirrors_at(views: Mapping[str, StateView], source: str | None = None) -> tuple[MirrorAt, ...]:
    """All mirrors that Tanist copies, by name, then destination.

    `views`: the state of each destination, by the name of its connection.
    `source`: only those that copy from that cluster. A cluster that has several names is counted once, by the name that
    the mirror was created with where that is one of them.
    """
    found: dict[tuple[str, str, str], MirrorAt] = {}
    for name, view in sorted(views.items()):
        for spec in filterfalse(is_followed, view.mirrors()):
            key = (spec.mirror, spec.id, spec.destination_cluster_id)
            if source in {None, spec.source} and (key not in found or spec.destination == name):
                apart = tuple(each.topic for each in detached_topics(view, spec.mirror))
                idle = not view.mirrored(spec.mirror)
                found[key] = MirrorAt(destination=name, spec=spec, idle=idle, detached=apart)
    return tuple(sorted(found.values(), key=lambda each: (each.mirror, each.destination)))


def missing(silent: Collection[str], given: Collection[str], found: Iterable[MirrorAt]) -> tuple[str, ...]:
    """Those of the clusters that do not answer which may have mirrors that are not in the list, sorted.

    `given`: the clusters that somebody has named; empty: all of the configuration. A source of the mirrors that were
    `found` is expected to be down; it is missing only if somebody has named it as a destination.
    """
    sources = {each.spec.source for each in found}
    return tuple(sorted(name for name in silent if name in given or name not in sources))


def worst_first(verdict: Readiness | None, mirror: str, destination: str) -> tuple[int, str, str]:
    """The key by which mirrors are sorted: what cannot be done, what somebody has to decide, what can be done.

    Then by name. `verdict` None: it could not be planned.
    """
    return (-1 if verdict is None else _WORST_FIRST.index(verdict), mirror, destination)
