"""The two reversals of a failback, from the parameters of a run. Without any broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tanist.airflow.failback import PARAMS, FailbackParams
from tanist.domain.moves import MirrorMoved
from tests.unit.domain.test_pending_reversal import MOVE

pytestmark = pytest.mark.filterwarnings("default")


def of(**given: object) -> FailbackParams:
    run = SimpleNamespace(dag_id="mirror_failback", run_id="r", start_date="now")
    defaults = {name: param.value for name, param in PARAMS.items()}
    wanted = {"mirror": "dr", "primary": "west", "destination": "east", **given}
    context: Any = {"params": defaults | wanted, "dag_run": run, "dag": SimpleNamespace(params=PARAMS)}
    return FailbackParams.of(context)


def test_the_reversal_after_the_failback_goes_the_other_way_and_takes_back_all_that_has_returned() -> None:
    params = of(exclude=["stays"], recreate=[".*"], accept=["TAIL_UNDECIDED"])
    assert (params.back.home, params.back.to) == ("west", "east") == (params.again.to, params.again.home)
    first, last = params.back.request, params.again.request
    assert (first.exclude, first.recreate, first.accept) == (("stays",), (".*",), ("TAIL_UNDECIDED",))
    assert (last.exclude, last.recreate, last.accept) == ((), (), ())
    assert (first.answers, last.answers) == (
        f"{str(first.answers).rpartition('/')[0]}/reverse",
        f"{first.answers}_again",
    )


def test_a_mirror_that_has_moved_to_where_the_reversal_takes_it_is_reversed() -> None:
    """To a cluster that the run does not name it is not: that is another circle."""

    def moved_to_east(*_: object) -> NoReturn:
        raise MirrorMoved(MOVE, "west")

    registry = SimpleNamespace(connect=lambda name: name, open_mirror=moved_to_east)
    task: Any = SimpleNamespace(registry=registry, context=None)
    assert of().back.clusters(task) is None
    assert of().back.to_reverse(task) is None
    with pytest.raises(MirrorMoved):
        of(destination="north").back.clusters(task)
