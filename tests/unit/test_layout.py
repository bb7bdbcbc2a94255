"""Promises of the house: what may be imported, what is shipped, what every error says."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import tanist
import tanist_testkit
from tanist.cli import extensions
from tanist.cli.app import app
from tanist.domain.errors import BrokerError, TanistError
from tanist.domain.filled import filled
from tanist.domain.states import MirrorState
from tanist.usecases.failover.route import ROUTE
from tests import quoted, reference
from tests.quoted import Quoted, left_in
from tests.storm.parts import PYTEST

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "include" / "tanist"
TESTKIT = ROOT / "include" / "tanist_testkit"
HEAVY = ("airflow", "pyspark", "confluent_kafka", "great_expectations", "pandas")
ROOMS_WITH_HEAVY_IMPORTS = ("tanist.airflow", "tanist.spark", "tanist_testkit.demo", "tanist_testkit.verify")


def python(code: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in the repository's root."""
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_package_refuses_a_second_name() -> None:
    """`include.tanist` would be a second copy of every enum, and nothing would equal anything."""
    refused = python("import include.tanist")
    assert refused.returncode != 0
    assert refused.stderr.splitlines()[-1].startswith("ImportError: this package is `tanist`, not `include.tanist`")


@pytest.mark.parametrize("package", ["tanist.cli", "tanist.domain", "tanist.kafka.protocol", "tanist.usecases"])
def test_the_core_starts_without_any_heavy_library(package: str) -> None:
    """The break-glass path runs on a bare host; `tanist --help` is quick."""
    loaded = python(
        f"import importlib, pkgutil, sys; import {package} as p\n"
        f"for m in pkgutil.walk_packages(p.__path__, p.__name__ + '.'):\n"
        f"    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        f"print(sorted(set(sys.modules) & set({HEAVY!r})))"
    )
    assert loaded.stdout.strip() == "[]", loaded.stderr or f"{package} imports {loaded.stdout}"


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    """DAGs and the plugin are deployed, not installed; `include` is no package of anybody's."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"tanist", f"tanist-{tanist.__version__}.dist-info"}
    sources = {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")}
    assert sources <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_the_wheel_of_the_testkit_holds_the_testkit_and_nothing_else(tmp_path: Path) -> None:
    """It is a distribution of its own, of the same version, and brings two commands."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=TESTKIT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        commands = opened.read(f"tanist_testkit-{tanist.__version__}.dist-info/entry_points.txt").decode()
    assert {name.split("/")[0] for name in names} == {
        "tanist_testkit",
        f"tanist_testkit-{tanist.__version__}.dist-info",
    }
    assert {str(path.relative_to(TESTKIT.parent)) for path in TESTKIT.rglob("*.py")} <= set(names)
    assert set(re.findall(r"^(\w+) =", commands, re.MULTILINE)) == set(extensions.TESTKIT)


def test_the_lock_names_no_host() -> None:
    """It installs from whatever index a machine is set up with; and every line is pinned by hashes."""
    lock = (ROOT / "locks" / "dev.txt").read_text(encoding="utf-8")
    assert "://" not in lock
    assert "--index-url" not in lock
    assert lock.count("--hash=sha256:") >= lock.count("==") > 20


def errors() -> Iterator[type[TanistError]]:
    walked = (
        *pkgutil.walk_packages(tanist.__path__, "tanist."),
        *pkgutil.walk_packages(tanist_testkit.__path__, "tanist_testkit."),
    )
    for module in walked:
        if not module.name.startswith(ROOMS_WITH_HEAVY_IMPORTS) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    todo: list[type[TanistError]] = [TanistError]
    while todo:
        error = todo.pop()
        todo += error.__subclasses__()
        yield error


def test_every_error_has_a_name_of_its_own_and_says_what_to_do() -> None:
    """Scripts tell errors apart by name, people read the action. A broker's errors have the names that Kafka gave them.

    A special case of an error may keep its name.
    """
    owners: dict[tuple[str, bool], type[TanistError]] = {}
    for error in errors():
        owner = owners.setdefault((error.name, issubclass(error, BrokerError)), error)
        assert issubclass(error, owner), f"{error} and {owner} share a name"
        assert error.name.replace("_", "").isupper()
        assert error.operator_action.strip()
        assert error.exit_code in {1, 2, 3, 4, 70}
        if "__init__" not in vars(error):
            action = filled(error.operator_action, mirror="", destination="", topics=(), plan="")
            assert str(error("the thing")) == f"{error.name}: the thing ({action})"


NAMED_ONLY = frozenset(
    {
        "tanist groups snapshot",
        "tanist mirrors create",
        "tanist mirrors create --adopt",
        "tanist mirrors lineage",
        "tanist state rebuild",
    }
)
"""Commands that an error names without knowing their arguments: of another mirror, or of none."""


def test_what_an_error_advises_can_be_typed_where_its_values_are_known() -> None:
    wrong: set[str] = set()
    for error in errors():
        said = filled(error.operator_action, mirror="dr", destination="west", topics=("orders",), plan="1c0ffee2")
        assert left_in(said) == [], error.name
        found = [replace(each, typed=True) for each in quoted.in_text(error.name, said)]
        wrong |= {each.text for each in found if quoted.problem(each)}
    assert wrong == NAMED_ONLY


def test_no_module_is_too_long_to_read() -> None:
    """Four hundred lines; who needs more has two subjects."""
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in (PACKAGE, TESTKIT)
        for path in package.rglob("*.py")
    }
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_every_promise_of_the_invariants_has_its_test() -> None:
    """Every row of docs/invariants-tests.md names a test, and the test is there."""
    text = (ROOT / "docs" / "invariants-tests.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.startswith("| must hold ")]
    assert [row for row in rows if not re.search(r"`tests/[^`]+\.py::\w+`", row)] == []
    named = re.findall(r"`(tests/[^`]+\.py)::(\w+)`", text)
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / file).read_text("utf-8")]
    assert named
    assert missing == []


def test_what_make_test_leaves_out_make_storm_runs() -> None:
    """Tests that take minutes were run by no target at all."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]["addopts"]
    assert options[options.index("-m") + 1] == "not long"
    bare = {"PATH": os.environ["PATH"]}  # of an outer make, arguments would come along
    planned = subprocess.run(["make", "-n", "storm"], cwd=ROOT, env=bare, capture_output=True, text=True, check=True)
    assert "-m tests.storm.parts" in planned.stdout
    assert PYTEST[-2:] == ("-m", "long")
    planned = subprocess.run(
        ["make", "-n", "storm", "PART=2/3"], cwd=ROOT, env=bare, capture_output=True, text=True, check=True
    )
    assert "-m tests.storm.parts 2/3" in planned.stdout


def documents() -> Iterator[tuple[str, str]]:
    """What users and contributors read, with its name; of Python files the strings, such as the `doc_md` of a DAG."""
    pages = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "dags").glob("*.md")))
    for file in pages:
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def commands_outside_the_package() -> Iterator[Quoted]:
    for name, text in documents():
        yield from quoted.in_text(name, text)
    for folder in ("dags", "plugins", "spark_jobs"):
        for each in quoted.in_sources(ROOT / folder):
            yield Quoted(f"{folder}/{each.where}", each.text, each.typed)


def test_every_command_that_is_quoted_exists() -> None:
    """In errors, help, docs: whoever is told to type something at night can type it."""
    found = [
        *quoted.in_sources(PACKAGE),
        *quoted.in_sources(TESTKIT),
        *commands_outside_the_package(),
    ]
    assert len(found) > 150
    assert {"README.md", "CONTRIBUTING.md", "docs/failover.md"} <= {each.where for each in found}
    assert any(each.where.startswith("dags/mirror_failover.py:") for each in found)
    wrong = {f"{each.where}: {each.text}": why for each in found if (why := quoted.problem(each))}
    assert wrong == {}


def test_the_help_of_every_command_that_is_quoted_can_be_shown() -> None:
    """Each command once, in this process; `a|b` stands for each of them."""
    texts = [each.text for each in commands_outside_the_package()]
    texts += [each.text for error in errors() for each in quoted.in_text(error.name, error.operator_action)]
    paths = sorted({path for text in texts for path in quoted.paths(text)})
    assert len(paths) > 25
    shown = {path: CliRunner().invoke(app, [*path, "--help"]) for path in paths}
    assert {path: each.output for path, each in shown.items() if each.exit_code or "Usage:" not in each.output} == {}


def test_the_concepts_show_the_route_and_the_states_of_the_code() -> None:
    """Every step in its order, every state."""
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \d+ \| `(\w+)` \|", text, re.MULTILINE) == [step.id for step in ROUTE]
    named = re.search(r"^## States$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert named
    assert set(re.findall(r"\b[A-Z]{5,}\b", named[1])) == set(MirrorState)


def test_every_path_in_the_concepts_exists() -> None:
    """A file, or a folder with a slash at its end, below the package."""
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text)) - {"include/tanist/", "items.py"}
    assert len(named) > 20
    assert {each for each in named if not (PACKAGE / each).exists()} == set()
    assert {each for each in named if each.endswith("/") and not (PACKAGE / each).is_dir()} == set()


def test_every_verb_has_its_recipe() -> None:
    """Each command of the product is typed in docs/howto.md with arguments that parse."""
    text = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")
    shown = {path for each in quoted.in_text("howto", text) if each.typed for path in quoted.paths(each.text)}
    commands = quoted.every_command()
    assert len(commands) > 25
    assert commands - shown == set()


@pytest.mark.parametrize("page", sorted(reference.pages()))
def test_the_committed_reference_is_what_the_code_says(page: str) -> None:
    """`python -m tests.reference` writes it again."""
    assert (reference.FOLDER / page).read_text(encoding="utf-8") == reference.pages()[page]


def test_every_option_that_an_error_quotes_exists() -> None:
    known = quoted.every_option()
    wrong = {error.name: quoted.options_in(error.operator_action) - known for error in errors()}
    assert {name: options for name, options in wrong.items() if options} == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tanist mirrors nosuch", "there is no command 'nosuch'"),
        ("tanist nosuch", "there is no command 'nosuch'"),
        ("tanist groups list|nosuch", "there is no command 'nosuch'"),
        ("tanist validate dr --nosuch", "there is no option --nosuch"),
        ("tanist fence lift dr more", "unexpected extra argument"),
        ("tanist failover run dr --until nosuch", "'nosuch' is not a step"),
        ("tanist failover approve dr 1c0ffee", "Missing option '--reason'"),
        ("tanist failover plan|approve --group REGEX", ""),
        ("tanist fence lift", ""),
        ("tanist fetcher run 2> log &", ""),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, why: str) -> None:
    assert why in quoted.problem(Quoted("here", text))
    assert bool(why) is bool(quoted.problem(Quoted("here", text)))
