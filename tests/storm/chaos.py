"""The schedule carried out on real processes, and everything healed at the end."""

from __future__ import annotations

import resource
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tests.storm import leaders, proxy
from tests.storm.schedule import AT_SOURCE, TRACKS, Fault, Kind, Track

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.ports.clock import Clock
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.environment import Environment
    from tests.storm.proxy import Door

HEAL_SECONDS = 90.0
AGAIN_SECONDS = 0.2
WAIT_SECONDS = 3.0
"""For a request of one kind: only who takes over asks for a producer id."""
DELAY_SECONDS = 0.15
"""Of each request, and of each answer."""
OF_A_TRANSACTION = (
    proxy.INIT_PRODUCER_ID,
    proxy.OFFSET_FETCH,
    proxy.ADD_PARTITIONS_TO_TXN,
    proxy.PRODUCE,
    proxy.ADD_OFFSETS_TO_TXN,
    proxy.TXN_OFFSET_COMMIT,
    proxy.END_TXN,
)
"""Every request of a worker that copies in transactions, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is hit. `doors`: what the workers take for source and destination. `options`: of workers that have some.

    `group`: where a mirror with mapped offsets keeps its positions.
    """

    house: Environment
    doors: tuple[Door, Door]
    workers: Sequence[str]
    topics: Sequence[str]
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    group: str = ""

    def start(self, worker: str) -> None:
        self.house.workers.start(worker, *self.options.get(worker, ()))


class Chaos:
    """`start` it, `stop` it. Between faults of a side all its replicas are in sync, so never two are missing.

    A worker is down, frozen or well: the tracks never take the same one, and the last healthy one stays.
    """

    def __init__(
        self,
        target: Target,
        clock: Clock,
        seed: int,
        tell: Callable[[str], None],
        tracks: Sequence[Track] = TRACKS,
    ) -> None:
        self.counts: Counter[Kind] = Counter()
        self.requests: Counter[str] = Counter()
        """How many requests of transactions were disturbed, by their names."""
        self.died: list[BaseException] = []
        self.gave_up: list[str] = []
        """Workers that ended by themselves, because they could not start while brokers were down; started again."""
        self._target, self._house = target, target.house
        self._clock, self._seed, self._tell = clock, seed, tell
        self._stopping = threading.Event()
        self._hit: set[str] = set()
        self._lock = threading.Lock()
        self._sides = (threading.Lock(), threading.Lock())
        self._threads = [threading.Thread(target=self._run, args=(t,), name=t.name, daemon=True) for t in tracks]
        self._threads.append(threading.Thread(target=self._supervise, name="supervisor", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when everything that was broken runs again."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(HEAL_SECONDS)
        for cluster in (self._house.source, self._house.destination):
            cluster.start()  # where a track has died between a fault and its end
        if self.died:
            raise self.died[0]
        if stuck := [thread.name for thread in self._threads if thread.is_alive()]:
            raise TimeoutError(f"not healed: {stuck}")

    @contextmanager
    def peace(self, cluster: SandboxCluster) -> Iterator[None]:
        """Meanwhile no broker of it is killed or started, and no leader moved."""
        with self._sides[0 if cluster is self._house.source else 1]:
            yield

    def _run(self, track: Track) -> None:
        try:
            for number, fault in enumerate(track.faults(self._seed)):
                if self._stopping.wait(fault.pause):
                    return
                self._strike(fault, Random(f"{self._seed}/{track.name}/{number}"))
        except BaseException as bug:  # noqa: BLE001 -- raised by stop
            self.died.append(bug)

    def _strike(self, fault: Fault, dice: Random) -> None:
        side = 0 if fault.kind in AT_SOURCE else 1
        cluster, door = (self._house.source, self._house.destination)[side], self._target.doors[side]
        match fault.kind:
            case Kind.KILL_WORKER | Kind.FREEZE_WORKER:
                self._hit_worker(fault)
            case Kind.KILL_SOURCE | Kind.KILL_DESTINATION:
                with self._sides[side]:
                    self._kill_broker(fault, cluster, cluster.spec.broker_ids[fault.victim % cluster.spec.brokers])
            case Kind.KILL_COORDINATOR:
                with self._sides[side]:
                    self._kill_coordinator(fault, cluster)
            case Kind.FILL_SOURCE | Kind.FILL_DESTINATION:
                with self._sides[side]:
                    self._fill_disk(fault, cluster)
            case Kind.MOVE_SOURCE | Kind.MOVE_DESTINATION:
                with self._sides[side]:
                    self._move(fault, cluster, dice)
            case Kind.LOSE_REQUEST | Kind.LOSE_ANSWER | Kind.DELAY_REQUEST:
                self._disturb_one(fault, door)
            case _:
                self._disturb(fault, cluster, door)

    def _note(self, fault: Fault, what: str) -> None:
        self.counts[fault.kind] += 1
        self._tell(what)

    def _supervise(self) -> None:
        """As whatever runs the service does: one that gave up is started again. Bugs are no reason to give up."""
        while not self._stopping.wait(AGAIN_SECONDS):
            self.revive()

    def revive(self) -> None:
        """Starts again who gave up."""
        for worker, words in self._house.workers.gave_up().items():
            self.gave_up.append(f"{worker}: {words}")
            self._tell(f"{worker} gave up and is started again: {words}")
            self._target.start(worker)

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _hit_worker(self, fault: Fault) -> None:
        worker = self._take_one(fault)
        if worker is None:
            return
        try:
            if fault.kind is Kind.KILL_WORKER:
                self._note(fault, f"kill -9 of {worker}")
                self._house.workers.kill(worker)
                self._stopping.wait(min(fault.lasts, 3.0))
                self._target.start(worker)
            else:
                self._note(fault, f"freeze of {worker} for {fault.lasts:.1f} s")
                self._house.workers.freeze(worker)
                self._stopping.wait(fault.lasts)
                self._house.workers.thaw(worker)
        finally:
            with self._lock:
                self._hit.discard(worker)

    def _take_one(self, fault: Fault) -> str | None:
        with self._lock:
            well = [worker for worker in self._target.workers if worker not in self._hit]
            if len(well) < 2:
                return None
            chosen = well[fault.victim % len(well)]
            self._hit.add(chosen)
            return chosen

    # ── brokers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _kill_coordinator(self, fault: Fault, cluster: SandboxCluster) -> None:
        if self._healed(cluster) and (broker := leaders.coordinator(cluster, fault.victim, self._target.group)):
            self._kill_broker(fault, cluster, broker)

    def _kill_broker(self, fault: Fault, cluster: SandboxCluster, broker: int) -> None:
        if not self._healed(cluster):
            return
        self._note(fault, f"{fault.kind}: {broker} of {cluster.name} for {fault.lasts:.1f} s")
        cluster.kill(broker)
        self._stopping.wait(fault.lasts)
        cluster.start_broker(broker)

    def _fill_disk(self, fault: Fault, cluster: SandboxCluster) -> None:
        """No file of the broker can grow any more, as on a full disk: it gives up its only log directory, and ends."""
        if not self._healed(cluster):
            return
        broker = cluster.brokers[fault.victim % cluster.spec.brokers]
        assert broker.pid is not None
        self._note(fault, f"full disk of broker {broker.id} of {cluster.name}")
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        self._stopping.wait(fault.lasts)
        cluster.kill(broker.id)
        cluster.start_broker(broker.id)

    def _disturb(self, fault: Fault, cluster: SandboxCluster, door: Door) -> None:
        """Between the workers and one cluster."""
        self._note(fault, f"{fault.kind} ({cluster.name})")
        match fault.kind:
            case Kind.CUT_SOURCE | Kind.CUT_DESTINATION:
                door.cut()
            case Kind.DELAY_SOURCE | Kind.DELAY_DESTINATION:
                door.delay = DELAY_SECONDS
                self._stopping.wait(fault.lasts)
                door.delay = 0.0
            case _:
                door.silence()
                self._stopping.wait(fault.lasts)
                door.speak()

    def _disturb_one(self, fault: Fault, door: Door) -> None:
        """The next request of one kind: it is lost with all connections, or arrives late; or its answer is lost."""
        key = OF_A_TRANSACTION[fault.victim % len(OF_A_TRANSACTION)]
        held = door.hold(key, answer=fault.kind is Kind.LOSE_ANSWER)
        if not held.wait(WAIT_SECONDS):
            held.release()
            return
        self._note(fault, f"{fault.kind} ({proxy.NAMES[key]})")
        self.requests[proxy.NAMES[key]] += 1
        if fault.kind is Kind.LOSE_REQUEST:
            door.cut()
        elif fault.kind is Kind.DELAY_REQUEST:
            self._stopping.wait(fault.lasts)
            held.release()

    def _healed(self, cluster: SandboxCluster) -> bool:
        while not leaders.in_sync(cluster):
            if self._stopping.wait(AGAIN_SECONDS):
                return False
        return not self._stopping.is_set()

    def _move(self, fault: Fault, cluster: SandboxCluster, dice: Random) -> None:
        try:
            moved = leaders.move(cluster, self._target.topics, dice)
        except TanistError as why:
            self._tell(f"leaders of {cluster.name} could not be moved: {why.reason}")
            return
        self._note(fault, f"{moved} leaders of {cluster.name} are asked to move")
