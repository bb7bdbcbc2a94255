"""What exists once in the product: a second one would be another rule."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCT = Path(__file__).parents[2] / "include" / "tanist"

NAME_PRODUCER_IDS = frozenset(
    {
        "domain/log_writers.py",
        "domain/moves.py",
        "domain/promotions.py",
        "domain/records.py",
        "domain/tails.py",
        "domain/writer_identity.py",
        "kafka/adapters/producer_fencing.py",
        "usecases/failback/moving_state.py",
        "usecases/failback/replay.py",
        "usecases/failback/rescued.py",
        "usecases/failback/reverse.py",
    }
)
NAME_OFFSET_MAPS = frozenset(
    {
        "domain/appending.py",
        "domain/compacted_recovery.py",
        "domain/exclusive.py",
        "domain/lag.py",
        "domain/offset_map.py",
        "domain/offset_policy.py",
        "domain/recovery.py",
        "domain/translation.py",
        "domain/translators/by_map.py",
        "domain/validation/job.py",
        "fetcher/engines/batches/appending.py",
        "fetcher/engines/batches/evidence.py",
        "fetcher/runs.py",
        "kafka/protocol/records_left.py",
        "spark/spans.py",
    }
)


MADE = {
    "OpenMirror": {"wiring/registry.py"},
    "ReturnedMirror": {"usecases/mirror.py"},
    "FailoverRun": {"usecases/failover/step.py"},
    "TailDecision": {"usecases/failback/deciding.py"},
    "MirrorMove": {"usecases/failback/reverse.py"},
    "ApprovalRequest": {"usecases/approvals.py"},
    "Withdrawal": {"usecases/approvals.py", "kafka/protocol/stored.py"},
    "Approval": {"domain/approval/choosing.py", "kafka/protocol/stored.py"},
}
"""By class: the only modules that make one. Whatever is stored of a run is made from its approval, in one place."""
ASK_FOR_APPROVALS = frozenset(
    {
        "usecases/approvals.py",
        "usecases/failback/deciding.py",
        "usecases/failover/approval_gate.py",
        "usecases/failover/removal.py",
        "usecases/failover/unfinished_runs.py",
        "wiring/registry.py",
    }
)
"""Who has the approvers' topic of a cluster in hand."""
FETCH = {
    "kafka/adapters/log_reader.py": "spans of logs, with the rule of their end",
    "fetcher/engines/batches/evidence.py": "a worker that recovers waits for what it cannot read yet",
    "fetcher/engines/batches/first_reads.py": "one answer of many partitions, for whoever recovers one of them",
    "fetcher/engines/batches/lost_tombstones.py": "as far as it is worth it: what it does not find is not compared",
    "fetcher/engines/transactions/batches_read.py": "as far as a reader of committed records gets, if to any",
    "fetcher/group_sources.py": "follows a log, which has no end",
    "spark/inside.py": "one batch",
    "spark/reconciliation/source.py": "one batch",
}
"""Who fetches from partitions (the copy path apart, which has a pipeline of its own), and why not through the first."""


def calls(tree: ast.AST) -> Iterator[str]:
    """What is called, as it is written, without what stands before the last two names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ".".join(ast.unparse(node.func).split(".")[-2:])


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the product: its path below it, and its syntax tree."""
    files = sorted(PRODUCT.rglob("*.py"))
    return tuple((each.relative_to(PRODUCT).as_posix(), ast.parse(each.read_text(encoding="utf-8"))) for each in files)


@cache
def called() -> dict[str, frozenset[str]]:
    """By module of the product, as its path below it; without those that only compute, or only carry out."""
    return {where: frozenset(calls(tree)) for where, tree in modules() if not where.startswith(("domain/", "kafka/"))}


@pytest.mark.parametrize(
    ("what", "function", "module"),
    [
        ("appends approvals", "approvals.append", "usecases/approvals.py"),
        ("withdraws approvals", "Withdrawal", "usecases/approvals.py"),
        ("makes the approvers' topic", "approvals.create", "usecases/approvals.py"),
        ("signs for a user", "ApprovalRequest", "usecases/approvals.py"),
        ("reads what was approved", "kind.read", "usecases/approvals.py"),
        ("puts back the rows of a run", "row.undo", "usecases/runs/runner.py"),
        ("asks for the postcondition of a row", "row.holds", "usecases/runs/runner.py"),
        ("asks whether an approval has expired", "time_objections", "usecases/approvals.py"),
    ],
)
def test_one_module(what: str, function: str, module: str) -> None:
    """Four plans of four kinds were approved by two rules; one of them did not look at the brokers' clock."""
    assert [where for where, names in called().items() if function in names] == [module], what


@pytest.mark.parametrize("name", MADE)
def test_who_makes_what_is_stored_or_given_to_use_cases_is_listed(name: str) -> None:
    assert {where for where, tree in modules() if name in set(calls(tree))} == MADE[name]


def test_nothing_that_is_made_once_is_imported_under_another_name() -> None:
    """Else a second place would not be seen here."""
    guarded = {*MADE, "time_objections", "choose", "unexpired"}
    found = [
        (where, each.name)
        for where, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if each.name in guarded and each.asname is not None
    ]
    assert found == []


def reads(attribute: str) -> set[str]:
    """The modules that read an attribute of this name."""
    return {
        where
        for where, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load)
    }


def test_only_the_rule_of_approvals_reads_when_one_expires() -> None:
    """One other module shows it. A second rule looked at our clock, and not at the brokers'."""
    assert reads("expires_at") == {"domain/approval/choosing.py", "usecases/failover/items.py"}


def test_who_has_the_approvers_topic_in_hand_is_listed() -> None:
    assert {where for where in reads("approvals") if not where.startswith("kafka/")} == ASK_FOR_APPROVALS


def fetches(tree: ast.AST) -> bool:
    """Whether a module has the function that fetches from partitions, whatever it calls it."""
    imports = (each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom))
    names = {(each.module, alias.name) for each in imports for alias in each.names}
    return ("tanist.kafka.wire.requests", "fetch") in names or "requests.fetch" in set(calls(tree))


def test_one_module_decides_when_a_span_of_a_log_has_been_read() -> None:
    """Eight loops did, by three rules: one empty answer was the end of a log for some, and an error for others."""
    assert {where for where, tree in modules() if fetches(tree)} == set(FETCH)
    judges = {where for where in reads("last_stable_offset") if where.startswith("kafka/adapters/")}
    assert judges == {"kafka/adapters/log_reader.py"}


def test_one_function_finds_a_mirror_by_its_name_and_proves_its_destination() -> None:
    """Seven did; whoever looks again under a lock has proved it before."""
    ritual = {"identify", "snapshot.spec_of", "same_as_pinned"}
    found = [
        node.name
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and ritual <= set(calls(node))
    ]
    assert found == ["spec_at"]


def test_no_command_dag_or_wiring_reads_for_itself_where_a_mirror_is() -> None:
    """Each of them did, and they differed: `domain/circle.locate` says it."""
    readings = {"view.move", "view.moving", "view.removed", "view.mirrored", "view.unfinished"}
    above = {where: names for where, names in called().items() if where.startswith(("cli/", "airflow/", "wiring/"))}
    assert "wiring/registry.py" in above
    assert {where for where, names in above.items() if names & readings} == set()


@pytest.mark.parametrize(
    ("names", "modules"),
    [({"producer_ids", "ProducerIds"}, NAME_PRODUCER_IDS), ({"OffsetMap"}, NAME_OFFSET_MAPS)],
    ids=["producer ids", "offset maps"],
)
def test_who_depends_on_how_a_mirror_writes_is_listed(names: set[str], modules: frozenset[str]) -> None:
    """A mirror of another kind has neither its own producer ids nor offset maps: whoever names them is in its way."""
    found = {
        file.relative_to(PRODUCT).as_posix()
        for file in PRODUCT.rglob("*.py")
        if names & set(re.findall(r"\w+", file.read_text(encoding="utf-8")))
    }
    assert found - modules == set(), "one more: can it be given what it needs?"
    assert modules - found == set(), "one less: take it off the list"


def builders(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of what tests of a module are given, each with its syntax tree and those of what it uses of the module."""
    found: dict[str, ast.AST] = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("test_"):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            (target,) = node.targets if isinstance(node, ast.Assign) else (node.target,)
            found[ast.unparse(target)] = node.value

    def whole(name: str, seen: tuple[str, ...] = ()) -> str:
        used = {each.id for each in ast.walk(found[name]) if isinstance(each, ast.Name)} & found.keys()
        below = [whole(each, (*seen, name)) for each in sorted(used - {*seen, name})]
        return "\n".join((ast.unparse(found[name]), *below))

    for name, built in found.items():
        if not isinstance(built, ast.Call) or len(built.args) + len(built.keywords) > 1:
            yield name, whole(name)


def test_no_two_unit_test_modules_have_a_builder_of_one_name_and_one_body() -> None:
    """Ten had the same mirror, fourteen its name: what several need is in `tests/builders.py`, or a conftest."""
    homes: dict[tuple[str, str], list[str]] = {}
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        for builder in builders(ast.parse(file.read_text(encoding="utf-8"))):
            homes.setdefault(builder, []).append(file.name)
    assert {name: files for (name, _), files in homes.items() if len(files) > 1} == {}


def test_acls_are_listed_in_one_place() -> None:
    """S3.7. Whoever asks for some of them lists them once more; `has_authorizer` asks for none."""
    listing = {where for where, tree in modules() if "describe_acls" in calls(tree)}
    assert listing == {"kafka/adapters/acls.py", "kafka/adapters/rules.py"}
