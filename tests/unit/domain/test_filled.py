"""What refusals advise can be typed as it stands, where its values are known."""

from __future__ import annotations

import shlex

from tanist.domain.errors import MirrorLocked, PastReturn
from tanist.domain.failback.decision import DecisionUnfinished
from tanist.domain.failback.outdated import ReversalOutdated
from tanist.domain.failback.reversal import LogDiverged, OffsetsOverlap
from tanist.domain.filled import OF_A_MIRROR, REASON, filled
from tanist.domain.problems import Problems, about, lines, of_mirror, to_finish
from tests.builders import a_run
from tests.quoted import every_command, in_text, problem, takes_a_mirror


def commands_of(action: str) -> list[str]:
    return [each.text for each in in_text("", action)]


def test_a_value_that_is_not_known_stays_as_it_is() -> None:
    text = "`tanist mirrors reverse NAME --recreate REGEX`, `tanist failback replay NAME --plan HASH`"
    assert filled(text, mirror="", destination="", topics=(), plan="") == text


def test_the_reason_is_one_word_of_the_command() -> None:
    error = of_mirror(ReversalOutdated("it was promoted again"), "dr", "west")
    (command,) = commands_of(error.action)
    assert shlex.split(command)[3:] == ["dr", "--destination", "west", "--withdraw", "--reason", REASON]


def test_a_refusal_about_a_topic_names_it_in_its_command_as_an_expression_that_matches_it_alone() -> None:
    error = about("orders.v1", OffsetsOverlap("orders.v1-0 ends at 7"))
    error.mirror = "dr"
    assert shlex.join(("--recreate", r"orders\.v1")) in error.action
    for command in in_text("", error.action):
        assert not problem(command)


def test_refusals_of_many_topics_share_a_command_that_names_all_of_them() -> None:
    errors = [about(f"t{n}", LogDiverged(f"t{n}: the logs differ")) for n in range(6)]
    (line,) = lines(Problems(errors))
    assert " ".join(f"--recreate t{n}" for n in range(6)) in line


def test_a_plan_that_has_to_be_finished_is_in_the_command() -> None:
    error = DecisionUnfinished("1c0ffee2", "is not replayed yet")
    error.mirror = "dr"
    assert commands_of(error.action) == ["tanist failback replay dr --plan 1c0ffee2"]


def test_every_one_of_several_refusals_gets_the_mirror_that_it_does_not_know_by_itself() -> None:
    own, other = DecisionUnfinished("1c0ffee2", "is not replayed yet"), DecisionUnfinished("2c0ffee2", "is begun")
    of_mirror(own, "back", "")
    several = of_mirror(Problems([own, other]), "dr", "west")
    assert "replay back --plan 1c0ffee2" in str(several)
    assert "replay dr --destination west --plan 2c0ffee2" in str(several)


MORE_IS_NEEDED = {"failover approve", "failover run", "mirrors lineage"}
"""The plan; and the mirror that has failed a topic over, which may be another one."""


def test_every_command_that_takes_a_mirror_gets_it_where_it_is_quoted_without_it() -> None:
    """The list was kept by hand: `next`, `status`, `metadata sync` and ten others were not in it."""
    of_a_mirror = {" ".join(path) for path in every_command() if takes_a_mirror(path)}
    assert of_a_mirror - MORE_IS_NEEDED == set(OF_A_MIRROR)
    assert len(OF_A_MIRROR) == len(set(OF_A_MIRROR))
    for command in OF_A_MIRROR:
        for options in ("", " --dry-run"):
            said = filled(f"`tanist {command}{options}`", mirror="dr", destination="west", topics=(), plan="")
            assert said == f"`tanist {command} dr --destination west{options}`"


def test_a_command_with_another_argument_keeps_it() -> None:
    text = "`tanist next back`, `tanist failover status NAME`, `tanist mirrors list`, `tanist mirrors alternate`"
    said = filled(text, mirror="dr", destination="", topics=(), plan="")
    assert said == text.replace("NAME", "dr")


def test_a_reason_names_the_mirror_in_its_commands_as_the_advice_behind_it_does() -> None:
    """`failover run` stood there without its plan, and `failover abort` without its mirror."""
    unfinished = a_run(plan="1c0ffee2")
    error = of_mirror(MirrorLocked(f"failover 1c0ffee2 is unfinished: {unfinished.next_actions}"), "dr", "west")
    assert commands_of(error.reason) == [
        "tanist failover run dr --destination west --plan 1c0ffee2",
        "tanist failover abort dr --destination west",
    ]


def test_a_refusal_for_a_failover_that_can_only_be_finished_has_the_command_that_does_so() -> None:
    past = of_mirror(to_finish("1c0ffee2", PastReturn("plan 1c0ffee2 of mirror 'dr'")), "dr", "west")
    assert commands_of(past.action) == ["tanist failover run dr --destination west --plan 1c0ffee2"]


def test_a_command_without_a_mirror_gets_its_place_where_that_is_known() -> None:
    text = "`tanist fetcher forget w --destination PLACE`"
    assert filled(text, mirror="dr", destination="", topics=(), plan="") == text
    assert filled(text, mirror="", destination="the west", topics=(), plan="") == text.replace("PLACE", "'the west'")
