"""The barrier: the point of no return is on record first, then every old writer is shut out, and that is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.anchoring import Writers
from tanist.domain.errors import TanistError
from tanist.usecases.failover.last_look import last_look
from tanist.usecases.failover.work import Done, NotYet

if TYPE_CHECKING:
    from tanist.usecases.failover.work import Work


def do(work: Work) -> Done:
    """Asks nothing of the source. What is sealed already gets nothing more."""
    if not work.record.no_return:
        last_look(work)
        work.save(no_return=True)
    work.tools.checkpoint("seal:no-return")
    spec = work.clusters.spec
    writers = Writers(spec.data_id, spec.filler_id, spec.start_id)
    open_yet = [each.partition for each in work.facts.partitions if each.sealed is not True]
    work.confirm()
    half = open_yet[: len(open_yet) // 2]
    ends = dict(work.clusters.destination.sealing.seal(dict.fromkeys(half, writers), work.run.by))
    work.tools.checkpoint("seal:half")
    rest = open_yet[len(half) :]
    ends |= work.clusters.destination.sealing.seal(dict.fromkeys(rest, writers), work.run.by)
    if failed := [f"{at}: {end}" for at, end in ends.items() if isinstance(end, TanistError)]:
        raise NotYet(f"{len(failed)} partition(s) could not be sealed: {'; '.join(failed[:3])}")
    return Done({"ends": {str(at): end for at, end in ends.items()}})
