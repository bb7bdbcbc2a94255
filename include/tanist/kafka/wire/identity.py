"""Which cluster it is: asked of every bootstrap address, because a name may list brokers of two."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import AnotherCluster, TanistError, TimedOut, TwoClusters, Unreachable
from tanist.kafka.wire.router import Router, differing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.endpoint import Address, Endpoint
    from tanist.ports.clock import Deadline

OTHERS_SECONDS: Final = 0.5
"""How long the other addresses have after the first answer: a dead one must not make every command wait."""
RESTART_SECONDS: Final = 2.0
"""How long a cluster of which nobody listens is asked again; a rolling restart passes within it."""
_AGAIN_SECONDS: Final = 0.1


def identify(router: Router, by: Deadline) -> str:
    """The cluster id that every bootstrap address of the router's endpoint answers with; all are asked at once.

    One that does not answer in time is left out: the others are enough to work with. The connections that were opened
    are the router's own afterwards.

    Raises:
        TwoClusters: two addresses lead to different clusters; names both. AnotherCluster: the router is for another.
        Unreachable, AuthenticationFailed, WrongListener, TimedOut: no address answers; the first reason.
    """
    patience = min(by.at, time.monotonic() + RESTART_SECONDS)
    while True:
        try:
            return _same(router, _names_by_address(router, by))
        except Unreachable:
            if time.monotonic() + _AGAIN_SECONDS >= patience:
                raise
        router.pause(_AGAIN_SECONDS, by)


def _same(router: Router, found: Mapping[Address, Router]) -> str:
    (first, known), *others = found.items()
    try:
        for address, other in others:
            if other.cluster_id != known.cluster_id:
                raise differing(router.endpoint, (first, known.cluster_id), (address, other.cluster_id))
        for each in found.values():
            router.adopt(each)
    except (TwoClusters, AnotherCluster):
        for each in found.values():
            each.close()
        raise
    return str(known.cluster_id)


@dataclass(frozen=True, slots=True)
class _Answer:
    address: Address
    found: Router | TanistError


class _Answers:
    """What the threads have found; who comes after the end closes its own connections."""

    def __init__(self) -> None:
        self._queue: queue.Queue[_Answer] = queue.Queue()
        self._lock = threading.Lock()
        self._over = False

    def put(self, answer: _Answer) -> None:
        with self._lock:
            if not self._over:
                self._queue.put(answer)
            elif isinstance(answer.found, Router):
                answer.found.close()

    def collect(self, expected: int, by: Deadline) -> list[_Answer]:
        """All answers; once one address has told its cluster, those of the others that come in time."""
        collected: list[_Answer] = []
        ends = by.at
        while len(collected) < expected:
            try:
                answer = self._queue.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                break
            collected.append(answer)
            if isinstance(answer.found, Router):
                ends = min(ends, time.monotonic() + OTHERS_SECONDS)
        return collected + self._rest()

    def _rest(self) -> list[_Answer]:
        with self._lock:
            self._over = True
            return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


def _names_by_address(router: Router, by: Deadline) -> dict[Address, Router]:
    """Who has answered at each address, in their order; raises the first reason where nobody has."""
    endpoint = router.endpoint
    addresses = tuple(dict.fromkeys(endpoint.bootstrap))
    answers = _Answers()
    probes = {each: Router(replace(endpoint, bootstrap=(each,)), router.client_id) for each in addresses}
    for address, probe in probes.items():
        work = (address, probe, by, answers)
        threading.Thread(target=_ask, args=work, name=f"identify-{address}", daemon=True).start()
    collected: list[_Answer] = []
    try:
        collected = answers.collect(len(addresses), by)
    finally:
        found = {each.address: each.found for each in collected if isinstance(each.found, Router)}
        for address in probes.keys() - found.keys():
            probes[address].interrupt()
    if not found:
        raise _reason(endpoint, [each.found for each in collected if isinstance(each.found, TanistError)])
    return {address: found[address] for address in addresses if address in found}


def _ask(address: Address, router: Router, by: Deadline, answers: _Answers) -> None:
    """The thread of one address owns its router until it has answered.

    A name that does not resolve cannot be interrupted; nobody waits for it.
    """
    try:
        router.refresh([], by)
    except TanistError as why:
        router.close()
        answers.put(_Answer(address, why))
    else:
        answers.put(_Answer(address, router))


def _reason(endpoint: Endpoint, reasons: list[TanistError]) -> TanistError:
    """What speaks for itself, a refused login above all, goes before silence."""
    final = [why for why in reasons if not why.retriable] or reasons
    return final[0] if final else TimedOut(f"cluster {endpoint.name!r}: no bootstrap address answers")
