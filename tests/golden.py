"""What machines are given on a circle in memory, word for word: `python -m tests.golden` writes tests/golden.json.

A failover and a reversal of one mirror: the JSON of the commands, the plans that are signed, the evidence, and the
records that are left in both state topics. Whoever moves code changes none of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tanist.domain.checks import Mode
from tanist.domain.failover import evidence
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.kafka.protocol.stored import encode
from tanist.usecases import approvals
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import reverse
from tanist.usecases.failback.survey import survey, survey_item
from tanist.usecases.failover.items import approval_item, outcome_item, plan_item
from tanist.usecases.items import spec_item, status_item, topic_item
from tanist.usecases.status.observe import observe
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.readings import reading
from tests.unit.usecases.returning import returned

FILE: Final = Path(__file__).with_suffix(".json")


def documents() -> dict[str, Any]:
    """By name, in the order of the story."""
    with patch.object(approvals, "token_hex", lambda _size: "0" * 16):
        return _story(FailoverWorld())


def _story(world: FailoverWorld) -> dict[str, Any]:
    found: dict[str, Any] = {"status before": _status(world)}
    for mode in Mode:
        planned = world.plan(mode)
        found |= {f"{mode} plan": plan_item(planned), f"{mode} words": json.loads(planned.plan.canonical_plan)}
    signed = world.approve()
    found["approval"] = approval_item(signed)
    found["run"] = outcome_item(world.run(signed.plan), "evidence")
    assert world.sink.kept is not None
    found["evidence"] = json.loads(evidence.as_json(world.sink.kept))
    found["status after"] = _status(world)
    found["state of west after the failover"] = _stored(world, "west")
    return found | _way_back(world)


def _way_back(world: FailoverWorld) -> dict[str, Any]:
    clusters, request = returned(world), ReversalRequest()
    found: dict[str, Any] = {
        "survey": [survey_item(DR, each) for each in survey(clusters, EVERY_TOPIC, world.command())]
    }
    made = reversal.plan(request, clusters, world.command()).plan
    found["reversal words"] = json.loads(made.canonical_plan)
    terms = ApprovalTerms.of("drill", 60)
    found["approval of the reversal"] = approval_item(
        reversal.approve(made.hash, request, clusters, world.command(), terms=terms)
    )
    done = reverse(request, clusters, world.command())
    found["reversed"] = {
        "spec": spec_item(done.spec),
        "topics": [topic_item(each) for each in done.topics],
        "warnings": done.warnings,
    }
    return found | {f"state of {name} after the reversal": _stored(world, name) for name in ("east", "west")}


def _status(world: FailoverWorld) -> list[dict[str, Any]]:
    asked = reading(world.east, world.west, world.command())
    return [status_item(each.status) for each in observe(asked, DR)]


def _stored(world: FailoverWorld, name: str) -> dict[str, Any]:
    """Each record by its key, as it is written."""
    side = (world.east if name == "east" else world.west).side()
    view = side.state(STATE_TOPIC, world.soon())
    written = dict(encode(view[key]) for key in sorted(view))
    return {key.decode(): json.loads(value or b"null") for key, value in written.items()}


def text() -> str:
    """The file, as it should be."""
    return json.dumps(documents(), indent=1, sort_keys=True, default=str) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
