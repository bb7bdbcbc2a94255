"""Which cluster it is: asked of every bootstrap address, because a name may list brokers of two."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError, TimedOut, Unreachable
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


def cluster_id(endpoint: Endpoint, client_id: str, by: Deadline) -> str:
    """The cluster id that every bootstrap address of `endpoint` answers with; all are asked at once.

    One that does not answer in time is left out: the others are enough to work with.

    Raises:
        TwoClusters: two addresses lead to different clusters; names both.
        Unreachable, AuthenticationFailed, WrongListener, TimedOut: no address answers; the first reason.
    """
    patience = min(by.at, time.monotonic() + RESTART_SECONDS)
    while True:
        try:
            return _same(endpoint, _names_by_address(endpoint, client_id, by))
        except Unreachable:
            if time.monotonic() + _AGAIN_SECONDS >= patience:
                raise
        threading.Event().wait(_AGAIN_SECONDS)


def _same(endpoint: Endpoint, found: Mapping[Address, str]) -> str:
    first, *others = found.items()
    for other in others:
        if other[1] != first[1]:
            raise differing(endpoint, first, other)
    return first[1]


@dataclass(frozen=True, slots=True)
class _Answer:
    address: Address
    found: str | TanistError


def _names_by_address(endpoint: Endpoint, client_id: str, by: Deadline) -> dict[Address, str]:
    """What each address says, in their order; raises the first reason where none says anything."""
    addresses = tuple(dict.fromkeys(endpoint.bootstrap))
    answers: queue.Queue[_Answer] = queue.Queue()
    routers = {each: Router(replace(endpoint, bootstrap=(each,)), client_id) for each in addresses}
    for address, router in routers.items():
        work = (address, router, by, answers)
        threading.Thread(target=_ask, args=work, name=f"identify-{address}", daemon=True).start()
    try:
        collected = _collected(answers, len(addresses), by)
    finally:
        for router in routers.values():
            router.interrupt()
    found = {each.address: each.found for each in collected if isinstance(each.found, str)}
    if not found:
        raise _reason(endpoint, [each.found for each in collected if isinstance(each.found, TanistError)])
    return {address: found[address] for address in addresses if address in found}


def _ask(address: Address, router: Router, by: Deadline, answers: queue.Queue[_Answer]) -> None:
    """The thread of one address owns its router. A name that does not resolve cannot be interrupted; nobody waits."""
    try:
        router.refresh([], by)
        answers.put(_Answer(address, router.cluster_id or ""))
    except TanistError as why:
        answers.put(_Answer(address, why))
    finally:
        router.close()


def _collected(answers: queue.Queue[_Answer], expected: int, by: Deadline) -> list[_Answer]:
    """All answers; once one address has told its cluster, those of the others that come in time."""
    collected: list[_Answer] = []
    ends = by.at
    while len(collected) < expected:
        try:
            answer = answers.get(timeout=max(0.0, ends - time.monotonic()))
        except queue.Empty:
            break
        collected.append(answer)
        if isinstance(answer.found, str):
            ends = min(ends, time.monotonic() + OTHERS_SECONDS)
    return collected


def _reason(endpoint: Endpoint, reasons: list[TanistError]) -> TanistError:
    """What speaks for itself, a refused login above all, goes before silence."""
    final = [why for why in reasons if not why.retriable] or reasons
    return final[0] if final else TimedOut(f"cluster {endpoint.name!r}: no bootstrap address answers")
