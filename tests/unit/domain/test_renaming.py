"""Names of copies: both directions, and every pair of rules that could give two topics one name is refused."""

from __future__ import annotations

from itertools import combinations, permutations, product
from typing import Final

import pytest

from tanist.domain.errors import Misconfigured
from tanist.domain.names import NoCopyName, SourcePartition, TopicNames
from tanist.domain.renaming import RenameRule, Renaming, rename_problems, renaming
from tests.builders import a_mirror


def named(*rename: str, destination: str = "west") -> Renaming:
    return renaming(rename, "east", destination)


def test_a_template_names_every_topic_anew() -> None:
    names = named("east.{topic}-dr")
    assert names.copy_of("orders") == "east.orders-dr"
    assert names.source_of("east.orders-dr") == "orders"
    assert names.source_of("east.-dr") is None, "nothing is no name"
    assert names.source_of("orders") is None


def test_a_pair_of_templates_names_what_matches_and_nothing_else_is_in_the_mirror() -> None:
    names = named("prod-{topic}=dr-{topic}", "audit=dr.audit")
    assert [names.copy_of(topic) for topic in ("prod-a", "audit", "a")] == ["dr-a", "dr.audit", None]
    assert [names.source_of(copy) for copy in ("dr-a", "dr.audit", "audit")] == ["prod-a", "audit", None]


def test_the_first_rule_that_matches_counts_in_both_directions() -> None:
    names = named("orders=legacy-orders", "{topic}=east.{topic}")
    assert names.copy_of("orders") == "legacy-orders"
    assert names.source_of("legacy-orders") == "orders"
    assert names.source_of("east.orders") is None, "another rule names it"
    assert names.source_of("east.clicks") == "clicks"


def test_the_presets_are_mirrormakers_two_policies() -> None:
    assert named("mm2-default").copy_of("orders") == "east.orders"
    assert named("mm2-default:primary").copy_of("orders") == "primary.orders"
    assert named("identity").copy_of("orders") == "orders"


@pytest.mark.parametrize("topic", ["west.orders", "west.east.orders", "a.west.orders"])
def test_mirrormaker_does_not_copy_back_what_it_has_copied_from_the_destination(topic: str) -> None:
    assert named("mm2-default").copy_of(topic) is None
    assert named("mm2-default").source_of(f"east.{topic}") is None
    assert named("identity").copy_of(topic) == topic, "IdentityReplicationPolicy cannot tell"


def test_a_topic_that_only_ends_like_the_alias_is_copied() -> None:
    assert named("mm2-default").copy_of("orders.west") == "east.orders.west"


def test_a_name_that_would_be_too_long_for_a_topic_is_none() -> None:
    assert named("east.{topic}").copy_of("o" * 245) is None


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("east.", "does not contain {topic}"),
        ("", "does not contain {topic}"),
        ("{topic}.{topic}", "more than once"),
        ("a=b.{topic}", "in both names, or in neither"),
        ("{topic}=b", "in both names, or in neither"),
        ("east/{topic}", "letters, digits"),
        ("orders=.", "not the name of a topic"),
        ("=orders", "not the name of a topic"),
        ("a=b=c", "not the name of a topic"),
        ("x" * 250 + "{topic}", "letters, digits"),
        ("mm2-default:", "names no alias"),
        ("mm2-default:a b", "letters, digits"),
    ],
)
def test_a_rule_that_makes_no_names_is_refused(rule: str, why: str) -> None:
    (found,) = rename_problems((rule,), "east")
    assert why in found.reason
    with pytest.raises(Misconfigured):
        named(rule)


@pytest.mark.parametrize(
    "rename",
    [
        ("a=c", "b=c"),
        ("a=east.b", "east.{topic}"),
        ("east.{topic}", "a-{topic}=east.{topic}-x"),
        ("x{topic}=y.{topic}", "{topic}ab=y.{topic}"),
        ("{topic}-1={topic}", "{topic}-2={topic}"),
        ("orders=legacy", "identity"),
    ],
)
def test_rules_that_can_give_two_topics_one_name_are_refused_with_an_example(rename: tuple[str, ...]) -> None:
    if rename[0] == "east.{topic}":
        rename = rename[::-1]
    (found,) = rename_problems(rename, "east")
    assert "the same name" in found.reason


_PARTS: Final = ("a", "b", "ab")
_TEMPLATES: Final = ("{topic}", "a{topic}", "{topic}b", "ab{topic}", "b{topic}a")
_RULES: Final = (
    *(f"{one}={other}" for one, other in product(_TEMPLATES, _TEMPLATES)),
    *(f"{one}={other}" for one, other in product(_PARTS, _PARTS)),
)
_NAMES: Final = tuple("".join(each) for size in range(1, 7) for each in product("abc", repeat=size))


def clash_of(rules: Renaming) -> bool:
    copies = [copy for name in _NAMES if (copy := rules.copy_of(name)) is not None]
    return len(copies) != len(set(copies))


def test_exactly_the_pairs_of_rules_that_give_two_topics_one_name_are_refused() -> None:
    """All names of up to six letters by brute force: long enough for each pair of these rules."""
    some = [pair for n, pair in enumerate(permutations(_RULES, 2)) if n % 3 == 0]
    wrong = [
        pair
        for pair in some
        if clash_of(Renaming(tuple(map(RenameRule.read, pair)))) is not bool(rename_problems(pair, "east"))
    ]
    assert wrong == []
    assert 50 < sum(bool(rename_problems(pair, "east")) for pair in some) < len(some)


def test_a_copy_leads_back_to_its_topic() -> None:
    for pair in combinations(_RULES[:60:3], 2):
        if rename_problems(pair, "east"):
            continue
        names = named(*pair)
        for name in _NAMES[:300]:
            copy = names.copy_of(name)
            assert copy is None or names.source_of(copy) == name


def test_partitions_of_a_mirror_have_both_names() -> None:
    names = a_mirror(rename=("mm2-default",)).names
    at = SourcePartition("orders", 3)
    assert str(names.mirrored(at)) == "east.orders-3"
    assert names.at_source(names.mirrored(at)) == at
    with pytest.raises(NoCopyName):
        names.mirrored(SourcePartition("west.orders", 0))


def test_a_mirror_without_rules_has_the_same_names_on_both_sides() -> None:
    assert a_mirror().names == TopicNames()
    assert a_mirror().names.source_of("orders") == a_mirror().names.copy_of("orders") == "orders"
