"""The parameters of a failover's DAG run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowSkipException

from tanist.airflow.tasks import translate_errors
from tanist.domain.approval.entries import run_request
from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured, RunUnderWay
from tanist.domain.failover.reserve import budget_of, time_of
from tanist.domain.names import EpochMs, mirror_name
from tanist.domain.selection import EVERYTHING
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.tools import Timeouts
from tanist.usecases.failover.unfinished_runs import must_be_asked_for, not_reversed, unfinished

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tanist.airflow.tasks import FailoverTask
    from tanist.domain.names import MirrorName
    from tanist.domain.records import FailoverRun
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


class Unfinished(StrEnum):
    """What to do with an unfinished failover of the mirror."""

    CONTINUE = "continue"
    ABORT = "abort"
    ABORT_ONLY = "abort-only"


_NAME: Final = r"^[A-Za-z0-9._-]+$"
_PATIENCE: Final = Timeouts()
_HOUR, _DAY = 3600, 86400
BOUNDS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"max_loss": (0, 2**63 - 1), "fence_proof": (0, _HOUR), "drain": (1, _DAY), "budget": (1, _HOUR)}
)
"""Minimum and maximum of each number: offsets are int64; longer waits are not useful."""


def _number(name: str, default: float | None, **schema: Any) -> Param:
    least, most = BOUNDS[name]
    return Param(default, **{"type": "number"} | schema, minimum=least, maximum=most)


PARAMS: Final = {
    "destination": Param(
        type="string", pattern=_NAME, title="Destination", description="The connection id of the destination cluster."
    ),
    "mirror": Param(
        type="string", pattern=_NAME, title="Mirror", description="The name of the mirror, see `tanist mirrors list`."
    ),
    "mode": Param(
        Mode.PLANNED.value,
        type="string",
        enum=[mode.value for mode in Mode],
        title="Mode",
        description="planned: the source answers and is drained first; unplanned: it is not waited for.",
    ),
    "unfinished": Param(
        Unfinished.CONTINUE.value,
        type="string",
        enum=[each.value for each in Unfinished],
        values_display={
            Unfinished.CONTINUE.value: "continue: resume it with its approval",
            Unfinished.ABORT.value: "abort: undo it, then plan this failover and ask for approval",
            Unfinished.ABORT_ONLY.value: "abort-only: undo it and do nothing else",
        },
        title="If a failover of this mirror is unfinished",
        description=(
            "continue: only if mode, topics, groups and loss are the same; otherwise the run fails and names the "
            "unfinished failover. abort: possible until its point of no return, even while another process runs "
            "it. If the source died during a planned failover, choose mode unplanned and abort."
        ),
    ),
    "topics": Param(
        list(EVERYTHING),
        type="array",
        items={"type": "string"},
        minItems=1,
        title="Topics",
        description="Regular expressions that match whole topic names.",
    ),
    "groups": Param(
        list(EVERYTHING),
        type="array",
        items={"type": "string"},
        minItems=1,
        title="Consumer groups",
        description="Consumer groups whose offsets are translated: regular expressions that match whole group names.",
    ),
    "max_loss": _number(
        "max_loss",
        None,
        type=["null", "integer"],
        title="Offsets that may be lost",
        description="Empty: the loss that is forecast when the approver is asked.",
    ),
    "reserve": Param(
        None,
        type=["null", "string"],
        title="Reserve",
        description=(
            "Unplanned: most offsets to reserve at each leader, as a time, a number, or none: offsets that the source "
            "may have used are not used again. Empty: 10s."
        ),
    ),
    "source_dead_since": Param(
        None,
        type=["null", "string"],
        title="Source dead since",
        description="Unplanned: when the source accepted its last record (ISO 8601 with zone); bounds the reserve.",
    ),
    "although_it_answers": Param(
        False,  # noqa: FBT003  # a default
        type="boolean",
        title="Although the source answers",
        description="Unplanned: fail over although every partition of the source answers.",
    ),
    "reverse": Param(
        False,  # noqa: FBT003  # a default
        type="boolean",
        title="Reverse the mirror afterwards",
        description="Planned: as the last step the mirror is reversed, so that it copies to its old source.",
    ),
    "fence_proof": _number(
        "fence_proof",
        _PATIENCE.proof,
        title="Proof of the fence (s)",
        description="How long a fenced source must take no records; 0 skips the proof.",
    ),
    "drain": _number(
        "drain", _PATIENCE.drain, title="Drain (s)", description="Longest planned drain; a longer one is undone."
    ),
    "budget": _number(
        "budget",
        _PATIENCE.budget,
        title="Budget (s)",
        description="How long an unplanned failover drains partitions that still answer.",
    ),
}


def parameters(context: Context) -> Mapping[str, Any]:
    """The parameters of this run; Airflow has checked them against the schema.

    Raises:
        AirflowFailException: an unknown parameter, which Airflow would accept silently; or a number out of bounds,
            which an older schema lets pass, and NaN any schema.
    """
    given, known = context["params"], context["dag"].params
    with translate_errors():
        if strangers := sorted(set(given) - set(known)):
            raise Misconfigured(f"unknown parameters: {', '.join(strangers)}; valid are {', '.join(known)}")
        for name, (least, most) in BOUNDS.items():
            if (value := given.get(name)) is not None and not _within(value, least, most):
                raise Misconfigured(f"{name} is {str(value)[:40]}: it must be a number from {least} to {most}")
    return given


def _parsed(parse: Callable[[str], int], text: object) -> int | None:
    """What `parse` makes of a parameter; None: it was not given."""
    if text is None:
        return None
    try:
        return parse(str(text))
    except ValueError as wrong:
        raise Misconfigured(str(wrong)) from None


def _within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def request_of(context: Context) -> str:
    """The request of this run: an approval that answers it permits this run only.

    The run id is not enough: a run can be deleted, and another one triggered with that id. A run that has ended and is
    cleared is a new request, too: approvals of the earlier attempt were withdrawn.
    """
    run = context["dag_run"]
    return run_request("airflow", f"{run.dag_id}/{run.run_id}/{run.start_date}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverParams:
    """Which failover, its timeouts, and what to do with an unfinished one."""

    destination: str
    mirror: str
    request: FailoverRequest
    patience: Timeouts
    unfinished: Unfinished
    although_it_answers: bool = False

    @classmethod
    def of(cls, context: Context) -> FailoverParams:
        """The parameters of this run. Raises as `parameters`."""
        found = parameters(context)
        loss = found["max_loss"]
        with translate_errors():
            reserve, dead_since = (
                _parsed(budget_of, found.get("reserve")),
                _parsed(time_of, found.get("source_dead_since")),
            )
        return cls(
            destination=found["destination"],
            mirror=found["mirror"],
            request=FailoverRequest(
                mode=Mode(found["mode"]),
                include=tuple(found["topics"]),
                loss_tolerance=None if loss is None else int(loss),  # 5.0 is an integer to JSON, and another plan to us
                groups=tuple(found["groups"]),
                reserve=reserve,
                dead_since=None if dead_since is None else EpochMs(dead_since),
                reverse=bool(found.get("reverse")),
            ),
            patience=Timeouts(proof=found["fence_proof"], drain=found["drain"], budget=found["budget"]),
            unfinished=Unfinished(found["unfinished"]),
            although_it_answers=bool(found.get("although_it_answers")),
        )

    @property
    def approver(self) -> str:
        """The connection with WRITE on the approvals topic of the destination; no other login should have it."""
        return f"{self.destination}_approver"

    @property
    def undoes(self) -> bool:
        """Whether an unfinished failover is to be undone."""
        return self.unfinished is not Unfinished.CONTINUE

    def to_adopt(self, clusters: OpenMirror, context: CommandContext) -> FailoverRun | None:
        """The failover to resume, unfinished or without the reversal after it, which must match the request.

        None: there is none.

        Raises:
            RunUnderWay: another failover has begun since this run began. Otherwise as `must_be_asked_for`.
            AirflowSkipException: only the abort was requested.
        """
        if self.unfinished is Unfinished.ABORT_ONLY:
            raise AirflowSkipException("only the abort was requested")
        if (held := unfinished(clusters, context)) is None:
            return None if self.undoes else not_reversed(self.request, clusters, context)
        if self.undoes:
            raise RunUnderWay(f"plan {held.plan} of {held.runner or 'nobody'} has begun since this run was opened")
        must_be_asked_for(held, self.request, clusters, context)
        return held

    def place(self, task: FailoverTask) -> tuple[Cluster, MirrorName]:
        """The mirror, and its destination, also if it has moved since."""
        there, mirror = task.registry.connect(self.destination), mirror_name(self.mirror)
        return task.registry.forwarded(there, mirror, task.context) or there, mirror

    def clusters(self, task: FailoverTask, *, follow: bool = False) -> OpenMirror:
        """Both clusters of the mirror. `follow`: also of one that has moved since, for what changes nothing."""
        unmoved = task.registry.connect(self.destination), mirror_name(self.mirror)
        there, mirror = self.place(task) if follow else unmoved
        return task.registry.open_mirror(there, mirror, task.context)
