"""Which mirrors there are, how their plans are named, and what comes first."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import typer

from tanist.cli.app import app
from tanist.domain.checks import Mode, Readiness
from tanist.domain.detached_record import TopicDetached
from tanist.domain.errors import InvalidMirrorName, Misconfigured
from tanist.domain.failover.commands import approve_all_command, plan_all_command, run_all_command
from tanist.domain.failover.many import MirrorAt, NamedPlan, mirrors_at, missing, named_plans, worst_first
from tanist.domain.names import EpochMs, MirrorName
from tanist.domain.problems import Problems, exit_code_of_many
from tanist.domain.states import DesiredState
from tests.builders import DR, a_mirror, a_topic, a_view

STOCK = MirrorName("stock")


def test_a_plan_is_named_with_its_destination_because_names_of_mirrors_are_not_unique() -> None:
    plan = NamedPlan("west", DR, "1c0ffee2")
    assert str(plan) == "west/dr=1c0ffee2"
    assert named_plans([str(plan), "south/dr=2", str(plan)], None) == (plan, NamedPlan("south", DR, "2"))


def test_a_destination_may_have_any_name() -> None:
    """Of `--bootstrap-server` it is an address."""
    assert named_plans(["a=b/c:9092/dr=1"], None) == (NamedPlan("a=b/c:9092", DR, "1"),)


def test_the_given_destination_is_that_of_plans_without_one() -> None:
    assert named_plans(["dr=1", "south/dr=2"], "west") == (NamedPlan("west", DR, "1"), NamedPlan("south", DR, "2"))
    with pytest.raises(Misconfigured, match=r"'dr=1' does not say at which destination: give DESTINATION/dr=1 or"):
        named_plans(["dr=1"], None)


@pytest.mark.parametrize("text", ["", "dr", "west/dr", "west/dr=", "west/=1", "=1"])
def test_what_is_no_plan_of_a_mirror_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="is not DESTINATION/NAME=HASH"):
        named_plans([text], "west")


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(Problems) as refused:
        named_plans(["west/d r=1", "west/dr=1", "west/dr=2", "dr"], None)
    assert [type(each) for each in refused.value.problems] == [InvalidMirrorName, Misconfigured, Misconfigured]
    assert "two plans are given for mirror west/dr: 1, 2" in refused.value.reason


def test_the_commands_parse_and_name_the_same_plans() -> None:
    plans = (NamedPlan("west", DR, "1c0ffee2"), NamedPlan("it's", STOCK, "2"))
    root: Any = typer.main.get_command(app)
    for command in (approve_all_command(plans), run_all_command(plans)):
        _, group, verb, *words = shlex.split(command)
        found = root.commands[group].commands[verb].make_context(verb, words).params
        texts = [found["name"], *([found["plan"]] if verb == "approve" else []), *(found["more"] or ())]
        assert (found["every"], named_plans(texts, None)) == (True, plans)
    _, group, verb, *words = shlex.split(plan_all_command(Mode.UNPLANNED, ["west", "south"], "east"))
    found = root.commands[group].commands[verb].make_context(verb, words).params
    assert (found["every"], found["mode"], found["name"]) == (True, Mode.UNPLANNED, None)
    assert (list(found["destination"]), found["source"]) == (["west", "south"], "east")


def test_all_mirrors_of_all_destinations_are_found_by_name() -> None:
    west = a_view(a_mirror(STOCK), a_mirror(), a_topic())
    south = a_view(a_mirror(source="north", destination="south", destination_cluster_id="s"), a_topic())
    found = mirrors_at({"west": west, "south": south})
    assert [(each.where, each.idle) for each in found] == [
        ("south/dr", False),
        ("west/dr", False),
        ("west/stock", True),
    ]
    assert [each.where for each in mirrors_at({"west": west, "south": south}, "north")] == ["south/dr"]


def test_a_mirror_whose_topics_have_all_left_it_is_idle() -> None:
    (found,) = mirrors_at({"west": a_view(a_mirror(), a_topic(desired=DesiredState.REMOVED))})
    assert found.idle
    assert found.detached == ()


def test_an_idle_mirror_names_what_was_detached_from_it() -> None:
    spec = a_mirror()
    apart = TopicDetached(mirror=spec.mirror, topic="orders", cluster_id="w", kept=a_topic(), at=EpochMs(1))
    (found,) = mirrors_at({"west": a_view(spec, apart)})
    assert (found.idle, found.detached) == (True, ("orders",))


def test_a_cluster_with_several_names_is_counted_once() -> None:
    """By the name that its mirrors were created with: nobody fails a mirror over twice."""
    view = a_view(a_mirror(), a_topic())
    assert [each.where for each in mirrors_at({"admin": view, "west": view, "x": view})] == ["west/dr"]
    assert [each.where for each in mirrors_at({"admin": view, "x": view})] == ["admin/dr"]


def test_a_silent_source_of_a_mirror_is_not_missing_but_every_other_silent_cluster_is() -> None:
    found = [MirrorAt(destination="west", spec=a_mirror(), idle=False)]
    assert missing({"east"}, (), found) == ()
    assert missing({"east"}, ("west", "east"), found) == ("east",), "somebody has named it as a destination"
    assert missing({"south", "east"}, (), found) == ("south",)


def test_the_worst_comes_first_then_the_name() -> None:
    mirrors = [
        (Readiness.GO, "a", "west"),
        (Readiness.GO, "a", "south"),
        (Readiness.ACCEPT, "b", "west"),
        (Readiness.UNKNOWN, "c", "west"),
        (Readiness.NO_GO, "d", "west"),
        (None, "e", "west"),
    ]
    assert [name for _, name, _ in sorted(mirrors, key=lambda each: worst_first(*each))] == [*"edcbaa"]
    assert max(mirrors, key=lambda each: worst_first(*each))[2] == "west"


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 1), 4),
        ((0, 3), 4),
        ((1, 4), 4),
        ((3, 4), 4),
        ((1, 1), 1),
        ((1, 3), 3),
        ((1, 2), 2),
    ],
)
def test_the_exit_code_of_many_is_partial_where_something_was_done(codes: tuple[int, ...], code: int) -> None:
    assert exit_code_of_many(codes) == code
