SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Containers set it, and hundreds of processes would each compile our sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check storm bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## .venv with everything that the other targets need

$(STAMP): locks/dev.txt pyproject.toml include/tanist_testkit/pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v[:2] < (3, 14) else f"error: Python 3.11 to 3.13 is needed, {sys.executable} is {v[0]}.{v[1]} (make PYTHON=python3.11 ...)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) from locks/dev.txt (some minutes the first time)"
	@$(BIN)/python locks/install.py locks/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e include/tanist_testkit
	@touch $@

demo: $(STAMP) ## the main job on two real clusters and an Airflow, ending in a table of promises
	@$(BIN)/tanist demo --yes $(ARGS)

test: $(STAMP) ## every test but the long ones (make storm) and the benchmarks (make test ARGS=tests/unit/domain for some of them)
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@$(BIN)/python -m pytest -n $(or $(JOBS),4)
endif

check: $(STAMP) ## format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=include:. $(BIN)/lint-imports

storm: $(STAMP) ## the long tests and five storms: in parts, make storm PART=1/4; one storm, make storm FOR=600 SEED=7 [ARGS=--runbook|--circle|--mapped|--at-least-once]
ifeq ($(FOR)$(SEED)$(ARGS),)
	@$(BIN)/python -m tests.storm.parts $(PART)
else
	@$(BIN)/python -m tests.storm --seconds $(or $(FOR),300) $(if $(SEED),--seed $(SEED)) $(ARGS)
endif

bench: $(STAMP) ## beside MirrorMaker 2 (also on the way back), the official connector, the failover without Airflow; how fresh positions are
	@$(BIN)/python -m bench $(ARGS)
	@$(BIN)/python -m bench --tls --only bench-100b
	@$(BIN)/python -m bench.groups 60
	@$(BIN)/python -m bench.validation
	@$(BIN)/python -m bench.reconciliation
	@$(BIN)/python -m bench.orchestration
	@$(BIN)/python -m bench.failback
	@$(BIN)/python -m bench.failback 100 100

clean: ## everything that the targets above have made
	@rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist sandbox bench/results storm-results
