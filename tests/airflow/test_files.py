"""Every DAG file: quick to parse, light, and without what would go wrong only in production."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FILES: Final = sorted((ROOT / "dags").glob("*.py"))
HEAVY: Final = ("confluent_kafka", "great_expectations", "kafka", "pandas", "pyspark")
LIMIT: Final = 0.6
"""Of the processor time that importing Airflow takes, which is 1.6 s on a quiet machine."""
PARSE: Final = """
import json, os, runpy, sys, time
began = time.process_time()
import airflow.sdk, airflow.providers.standard.operators.hitl, airflow.triggers.base  # what a DAG processor has loaded
from airflow.dag_processing.dagbag import DagBag
imported = time.process_time() - began
unwanted = set(sys.argv[1].split(","))
assert not unwanted & set(sys.modules)
for file in sys.argv[2:]:
    if os.fork():
        os.wait()
        continue
    began = time.process_time()
    runpy.run_path(file)
    took = time.process_time() - began
    heavy = sorted(set(sys.modules) & unwanted)
    dags = DagBag(file).dags.values()
    tasks = [(t.task_id, bool(getattr(t, "inherits_from_skipmixin", False)), bool(t.get_closest_mapped_task_group()))
             for dag in dags for t in dag.tasks]
    print("PARSED", json.dumps({
        "file": file, "took": took / imported, "tasks": tasks, "heavy": heavy,
        "dags": [[d.dag_id, sorted(d.tags), bool(d.doc_md)] for d in dags],
    }), flush=True)
    os._exit(0)
"""
METADATA: Final = ("airflow.models", "airflow.settings", "airflow.utils.session")
"""A real task has no database, but `dag.test()` lends it one: such an import passes in tests only."""


@pytest.fixture(scope="module")
def all_parsed() -> dict[str, dict[str, Any]]:
    """Each in a process of its own, split off from one that has Airflow loaded: that takes ten times as long."""
    argv = [sys.executable, "-W", "ignore", "-c", PARSE, ",".join(HEAVY), *map(str, FILES)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    found = [json.loads(line.split(" ", 1)[1]) for line in done.stdout.splitlines() if line.startswith("PARSED ")]
    assert len(found) == len(FILES), done.stderr
    return {each["file"]: each for each in found}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def parsed(request: pytest.FixtureRequest, all_parsed: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return all_parsed[str(request.param)]


def test_a_dag_file_is_quick_and_light(parsed: dict[str, Any]) -> None:
    """Airflow reads it every few seconds: about a second of work, and none of the heavy libraries."""
    assert parsed["took"] < LIMIT
    assert parsed["heavy"] == []


def test_a_dag_can_be_found_and_says_what_it_does(parsed: dict[str, Any]) -> None:
    assert parsed["dags"]
    assert all("tanist" in tags and documented for _, tags, documented in parsed["dags"])


def test_nothing_that_skips_stands_in_a_mapped_group(parsed: dict[str, Any]) -> None:
    """There Airflow looks a rejection up under the wrong index, and what was rejected runs."""
    assert not [task for task, skips, mapped in parsed["tasks"] if skips and mapped]


def test_no_task_reaches_for_the_metadata_database() -> None:
    """Neither in a DAG file, nor in the plugin, nor in what they call."""
    files = [*FILES, *(ROOT / "plugins").glob("*.py"), *(ROOT / "include" / "tanist" / "airflow").rglob("*.py")]
    imported = {
        (str(file.relative_to(ROOT)), name)
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in _modules(node)
    }
    assert not [each for each in imported if each[1].startswith(METADATA)]


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
