# Needs python3 (3.11 to 3.14), make and git. `make` alone lists the targets.

PYTHON ?= python3
UV_VERSION := 0.13.9
BIN := .venv/bin
READY := .venv/.ready
SERVE_PORT ?= 8000
TRAIN_READY := .venv/.ready-train

export DAGSTER_DISABLE_TELEMETRY := 1
export WHILE_DATA ?= $(CURDIR)/data
export PATH := $(CURDIR)/$(BIN):$(PATH)
# The fits are small: on a busy machine more threads than one only wait for each other.
export OPENBLAS_NUM_THREADS := 1
# Without cached bytecode every process compiles 2,000 modules anew: 6 s each.
unexport PYTHONDONTWRITEBYTECODE
# Hard links fail, with a warning for each package, when the cache is on another file system.
export UV_LINK_MODE := copy

.DEFAULT_GOAL := help
.PHONY: help setup setup-train demo third-day served-day test lint format lock ui clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Install everything into .venv, at the locked versions

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || \
		{ echo 'Python 3.11 to 3.14 is needed. Name one: make setup PYTHON=python3.12'; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@
	@echo 'Ready in .venv'

setup-train: $(TRAIN_READY) ## Also install what training an open-weight model needs (torch, TRL)

# Where pip finds no CPU build of torch, it takes the CUDA build: several GB on Linux.
$(TRAIN_READY): $(READY) requirements-train.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-train.txt
	@touch $@

demo: setup ## Two days of example traffic, each proving a better policy, and the report
	$(BIN)/while-pipeline run --days 2026-03-02:2026-03-03
	$(BIN)/while-pipeline report

third-day: setup ## After the demo: the promoted policy makes a day of traffic, and the loop goes on
	$(BIN)/python examples/telecom/make_traffic.py --day 2026-03-04 --policy promoted
	$(BIN)/while-pipeline run --day 2026-03-04
	$(BIN)/while-pipeline report

served-day: setup ## After the demo: customers call the promoted policy over HTTP today, and the loop goes on
	@$(BIN)/while-pipeline serve --port $(SERVE_PORT) & server=$$!; \
	$(BIN)/python examples/telecom/make_traffic.py --day 2026-03-04 \
		--endpoint http://127.0.0.1:$(SERVE_PORT)/v1; called=$$?; \
	kill $$server; wait $$server; exit $$called
	$(BIN)/while-pipeline run
	$(BIN)/while-pipeline report

test: lint ## All checks and all tests, the slow ones too
	$(BIN)/dagster definitions validate -w workspace.yaml
	$(BIN)/dg check defs
	$(BIN)/pytest --verbose --numprocesses auto

lint: setup ## Style, types, and who may import whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Rewrite the code in the project's style
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: setup ## Resolve requirements.lock anew after a change in pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --extra dev \
		--no-header --no-annotate --no-emit-index-url pyproject.toml --output-file requirements.lock

ui: setup ## Open the Dagster UI
	$(BIN)/while-pipeline ui

clean: ## Remove the data folder and all caches
	rm -rf data logs dist .logs_queue .tmp_dagster_home_* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## The same, and .venv
	rm -rf .venv
