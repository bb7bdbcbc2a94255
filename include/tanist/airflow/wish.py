"""What somebody has asked for: the parameters of a failover's DAG run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param

from tanist.airflow.tasks import told
from tanist.composition.failover import failover_clusters
from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured
from tanist.domain.names import mirror_name
from tanist.domain.selection import EVERYTHING
from tanist.usecases.failover.clusters import Patience
from tanist.usecases.failover.planning import Asked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import Context

    from tanist.airflow.tasks import Task
    from tanist.usecases.failover.clusters import Clusters

_NAME: Final = r"^[A-Za-z0-9._-]+$"
_PATIENCE: Final = Patience()
PARAMS: Final = {
    "destination": Param(
        type="string", pattern=_NAME, title="Destination", description="The cluster that takes over: its connection."
    ),
    "mirror": Param(
        type="string", pattern=_NAME, title="Mirror", description="Its name, as `tanist mirrors list` shows it."
    ),
    "mode": Param(
        Mode.PLANNED.value,
        type="string",
        enum=[mode.value for mode in Mode],
        title="Mode",
        description="planned: the source lives and nothing is lost; unplanned: it does not answer.",
    ),
    "topics": Param(
        list(EVERYTHING),
        type="array",
        items={"type": "string"},
        minItems=1,
        title="Topics",
        description="Regular expressions, each for whole names.",
    ),
    "max_loss": Param(
        None,
        type=["null", "integer"],
        minimum=0,
        title="Offsets that may be lost",
        description="Unplanned only. Empty: what is forecast when the approver is asked.",
    ),
    "fence_proof": Param(
        _PATIENCE.proof,
        type="number",
        minimum=0,
        title="Proof of the fence (s)",
        description="How long the ends of a fenced source must rest; 0: nobody looks.",
    ),
    "drain": Param(
        _PATIENCE.drain,
        type="number",
        exclusiveMinimum=0,
        title="Drain (s)",
        description="A planned drain that takes longer is undone.",
    ),
    "budget": Param(
        _PATIENCE.budget,
        type="number",
        exclusiveMinimum=0,
        title="Budget (s)",
        description="How long an unplanned failover drains what still answers.",
    ),
}


def parameters(context: Context) -> Mapping[str, Any]:
    """What the run of this context was triggered with; Airflow has checked it against the schema.

    Raises:
        AirflowFailException: a name that its DAG does not have, which Airflow would take in silence.
    """
    given, known = context["params"], context["dag"].params
    with told():
        if strangers := sorted(set(given) - set(known)):
            raise Misconfigured(f"no such parameter: {', '.join(strangers)}; there are {', '.join(known)}")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which failover, and how patiently."""

    destination: str
    mirror: str
    asked: Asked
    patience: Patience

    @classmethod
    def of(cls, context: Context) -> Wish:
        """What the run of this context was triggered with. Raises what `parameters` does."""
        found = parameters(context)
        return cls(
            destination=found["destination"],
            mirror=found["mirror"],
            asked=Asked(mode=Mode(found["mode"]), include=tuple(found["topics"]), loss_tolerance=found["max_loss"]),
            patience=Patience(proof=found["fence_proof"], drain=found["drain"], budget=found["budget"]),
        )

    @property
    def approver(self) -> str:
        """The connection whose login may write approvals at the destination; no other connection's should."""
        return f"{self.destination}_approver"

    def asked_as(self, shown: Mapping[str, Any] | None) -> Asked:
        """The same with the loss that was shown: a forecast that has moved since must not make another plan."""
        return replace(self.asked, loss_tolerance=(shown or {}).get("loss_tolerance", self.asked.loss_tolerance))

    @contextmanager
    def clusters(self, task: Task) -> Iterator[Clusters]:
        """Both clusters of the mirror."""
        there = task.world.connect(self.destination)
        with failover_clusters(task.world, there, mirror_name(self.mirror), task.run) as clusters:
            yield clusters
