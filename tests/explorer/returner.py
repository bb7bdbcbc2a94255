"""People on the way back: what its commands do, and who plans, approves and runs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from tanist.usecases.approvals import ApprovalTerms
from tests.explorer.people import EVERYTHING, PATIENCE, TRIES, Operator
from tests.explorer.place import APP, DR, PARTITIONS, Book
from tests.explorer.pointed import Pointed, side
from tests.explorer.product import (
    EVERY_TOPIC,
    STATE_TOPIC,
    AclBinding,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    CommandContext,
    FindingKind,
    GroupsMoved,
    MemoryApprovals,
    MemoryDeletion,
    MemoryQuarantine,
    MemoryReplays,
    MemorySizes,
    MemoryTails,
    MemoryTransactions,
    MetadataRequest,
    MirrorSpec,
    Mode,
    OpenMirror,
    OpenTransaction,
    ReturnedMirror,
    SyncRequest,
    TailAction,
    TailClass,
    TailStage,
    Tools,
    aborting,
    accepting,
    administer,
    deciding,
    deleting,
    metadata_sync,
    pending,
    replay,
    rescue,
    reversal,
    reversal_route,
    reverse,
    snapshot,
    spec_at,
    survey_and_record,
)
from tests.fakes.cluster import pair_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.explorer.circle import Circle
    from tests.explorer.place import Place
    from tests.explorer.product import Cluster, RecordedCluster

TERMS: Final = ApprovalTerms.of("drill", 3600.0)
ACTIONS: Final = {
    "replay": dict.fromkeys(TailClass, TailAction.REPLAY),
    "drop": dict.fromkeys(TailClass, TailAction.DROP),
    "safe": {each: TailAction.REPLAY if each is TailClass.SAFE else TailAction.DROP for each in TailClass},
}
READER: Final = AclBinding(
    AclResource.GROUP, "readers", AclPattern.LITERAL, "User:reader", "*", AclOperation.READ, AclPermission.ALLOW
)
ANOTHER: Final = AclEntry("User:another", "*", allowed=True)


@dataclass
class Returner(Operator):
    """A person for whom the mirror is where it is at the moment. `circle`: the same as `place`."""

    @property
    def circle(self) -> Circle:
        return cast("Circle", self.place)

    def ports(self, cluster: RecordedCluster) -> Cluster:
        """A cluster, with a login that may approve."""
        return replace(
            side(self.circle, cluster),
            approvals=self._watched("approvals", MemoryApprovals(cluster, self.name)),
            replays=self._watched("replays", MemoryReplays(cluster, APP)),
            transactions=self._watched("transactions", MemoryTransactions(cluster)),
            deletion=self._watched("deletion", MemoryDeletion(cluster)),
            sizes=self._watched("sizes", MemorySizes(cluster)),
        )

    def _watched(self, name: str, port: Any) -> Any:
        return Pointed(self.circle, name, port)

    # ── the way back ──────────────────────────────────────────────────────────────────────────────────────────────

    def survey(self) -> str:
        run = self._command()
        found = survey_and_record(self._returned(run), EVERY_TOPIC, run)
        return ", ".join(f"{each.partition} {each.verdict}" for each in found.found)

    def rescue(self) -> str:
        run = self._command()
        tools = rescue.RescueTools(manifest=lambda _: None, checkpoint=self._checkpoint("rescue"))
        done = rescue.rescue(self._returned(run), EVERY_TOPIC, tools, run)
        return ", ".join(f"{each.topic} {each.stage}" for each in done.tails)

    def decide(self, what: str) -> str:
        """Plan, approve; `replay` carries it out."""
        run = self._command()
        clusters = self._returned(run)
        made = deciding.plan_decision(clusters, EVERY_TOPIC, ACTIONS[what], run).plan
        deciding.approve_decision(made.hash, EVERY_TOPIC, ACTIONS[what], clusters, run, terms=TERMS)
        self._hash = made.hash
        return str(made.hash)

    def replay(self) -> str:
        """What is decided, by whomever."""
        run = self._command()
        clusters = self._returned(run)
        running = [each.plan for each in self._state(clusters, run).decisions(DR) if each.status == "RUNNING"]
        tools = replay.ReplayTools(manifest=lambda _: None, checkpoint=self._checkpoint("replay"))
        done = replay.replay(running[0] if running else self._hash, clusters, tools, run)
        return ", ".join(f"{each.partition}: {each.replayed}" for each in done.progress)

    def abort_transactions(self) -> str:
        run = self._command()
        clusters = self._returned(run)
        made = aborting.plan_abort(clusters, EVERY_TOPIC, run).plan
        aborting.approve_abort(made.hash, EVERY_TOPIC, clusters, run, terms=TERMS)
        return f"{len(aborting.abort_transactions(made.hash, clusters, run).aborted)} aborted"

    def delete_acls(self) -> str:
        """What has gone at the source: plan, approve, run."""
        run = self._command()
        at = deleting.plan_deletion(DR, self._west(), lambda _: self._east(), run)
        deleting.approve_deletion(at.plan.hash, at, run, terms=TERMS)
        return f"{len(deleting.delete(at.plan.hash, at, lambda _: self._east(), run))} deleted"

    def outlives_an_acl(self) -> None:
        """An ACL follows the source, and goes there."""
        run, source = self._command(), self.circle.other(self.circle.home())
        administer.alter(DR, administer.Alteration(acl_rules=("GROUP",)), self._west(), run)
        source.bindings.add(READER)
        metadata_sync(MetadataRequest(mirror=DR), self._west(), lambda _: self._east(), run)
        source.bindings.discard(READER)

    def reverse(self, accept: str = "", exclude: str = "") -> str:
        """Plan, approve, run; an unfinished reversal is completed. `exclude`: a topic that stays behind."""
        run, checkpoint = self._command(), self._checkpoint("reverse")
        accepted, excluded = ((each,) if each else () for each in (accept, exclude))
        asked = reversal.ReversalRequest(accept=accepted, exclude=excluded, recreate=(EVERYTHING,))
        clusters = self._returned(run)
        if not self.circle.moves():
            made = reversal.plan(asked, clusters, run).plan
            reversal.approve(made.hash, asked, clusters, run, terms=TERMS)
        done = reverse.reverse_mirror(asked, clusters, run, checkpoint)
        return f"{done.spec.source} to {done.spec.destination}"

    def withdraw(self) -> str:
        """Where it was begun."""
        run = self._command()
        begun = [each for each in self.circle.both if self.circle.state(each).mirror(DR) is not None]
        left = [each for each in begun if each is not self.circle.home()] or begun
        return reversal_route.withdraw(self._returned(run, left[0]), "enough", run, self._checkpoint("withdraw"))

    def accept(self) -> str:
        """Take note of what no rescue mends."""
        found = accepting.accept_findings(
            self._west(), DR, frozenset(FindingKind), EVERY_TOPIC, self._command(), reason="drill"
        )
        return "; ".join(map(str, found))

    def way_back(self, what: str) -> str:
        """All of it, as a person does it who reads status. What only a survey finds the rescue finds, too."""
        self.insists("rescue")
        for _ in range(2 * TRIES):
            stages = {each.stage for each in pending(self.circle.view(), DR)}
            if stages & {TailStage.UNKNOWN, TailStage.SURVEYED}:
                self.insists("rescue")
            elif TailStage.RESCUED in stages:
                self.insists("decide", what)
                self.insists("replay")
            elif TailStage.DECIDED in stages:
                self.insists("replay")
            else:
                break
        return self.insists("reverse")

    # ── disasters, and a console ──────────────────────────────────────────────────────────────────────────────────

    def loses(self, records: int, hidden: bool) -> None:
        self.circle.source_dies(records, hidden=hidden)

    def overflows(self) -> None:
        self.circle.overflows()

    def everybody_returns(self) -> None:
        self.circle.everybody_returns()

    def retention_runs(self) -> None:
        self.circle.retention_runs()

    def begins_transaction(self) -> None:
        """A coordinator of the mirror's source knows a transaction that has written nothing yet."""
        source = self.circle.named(self.circle.spec().source)
        source.named = (OpenTransaction(PARTITIONS[0], 77, self.circle.clock.now(), "payer"),)

    def grants(self) -> None:
        """An ACL that no plan has seen."""
        old = self.circle.other(self.circle.home())
        if self.circle.authorizer:
            old.rules["payments"] = (*old.rules["payments"], ANOTHER)

    # ── how ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _checkpoint(self, what: str) -> Callable[[str], None]:
        def reached(point: str) -> None:
            self.circle.check(f"{what}:{point}")
            self.circle.stage.point(f"{what}:{point}")

        return reached

    def _west(self) -> Cluster:
        """The destination of the mirror."""
        return self.ports(self.circle.home())

    def _east(self) -> Cluster:
        """Its source."""
        return self.ports(self.circle.other(self.circle.home()))

    def _state(self, clusters: ReturnedMirror, context: CommandContext) -> Any:
        return clusters.destination.state(STATE_TOPIC, context.by)

    def _spec_at(self, home: Cluster, context: CommandContext) -> MirrorSpec:
        return snapshot.spec_of(home.state(STATE_TOPIC, context.by), DR, home.name)

    def _returned(self, context: CommandContext, home: RecordedCluster | None = None) -> ReturnedMirror:
        """Both clusters, as the wiring opens them. `home`: the mirror's destination; None: where it is now."""
        destination = self.ports(home or self.circle.home())
        return self._open(spec_at(destination, DR, context), destination).returned()

    def _open(self, spec: MirrorSpec, destination: Cluster) -> OpenMirror:
        here, there = self.circle.named(spec.source), self.circle.named(spec.destination)
        quarantine = MemoryQuarantine(here, there, self.circle.stage.point)
        source = self.ports(here)
        return OpenMirror(
            spec=spec,
            source=source,
            destination=destination,
            pair=pair_with(
                tails=self._watched("tails", MemoryTails(here, there)),
                quarantine=self._watched("quarantine", quarantine),
            ),
            from_source=lambda context: self._open(spec_at(source, DR, context), source),
        )

    def _clusters(self, context: CommandContext) -> OpenMirror:
        home = self._west()
        return self._open(self._spec_at(home, context), home)

    def _tools(self, plan: str) -> Tools:
        return Tools(
            patience=PATIENCE,
            sink=self.circle.books.setdefault(plan, Book()),
            runner=self.name,
            is_process_dead=self.circle.stage.is_gone,
            checkpoint=self._checkpoint("failover"),
            move_groups=_no_groups,
        )

    def planned(self) -> str:
        """A failover in the direction that the mirror has."""
        return self.failover(Mode.PLANNED, EVERYTHING)


def person(circle: Circle, name: str) -> Returner:
    """Somebody who comes."""
    return Returner(cast("Place", circle), name, lambda _record: None)


def _no_groups(_mirror: OpenMirror, request: SyncRequest, _command: CommandContext) -> GroupsMoved:
    request.confirm()
    return GroupsMoved()
