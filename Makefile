# Everything sets itself up: the first call makes .venv and fetches the embedded model, later calls start at once.
#   make demo    a server on a temporary folder, five queries on the demo's tables, their tokens and seconds
#   make test    the tests
#   make check   format, lint, types, import layers, tests
#   make format  rewrites the sources the way `make check` wants them
#   make wheel   dist/covey-*.whl
#   make clean   removes what the above made, the cached model apart

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
SETUP := $(STAMPS)/venv
MODEL := $(STAMPS)/model
SOURCES := storage planner engine server clients tests bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check format-check lint types layers format wheel clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(SETUP) $(MODEL)

$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "covey needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0])'
	@mkdir -p $(STAMPS)
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (the first time this downloads about 3 GB, most of it torch)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -e '.[server,dev]'
	@$(BIN)/python -c 'from covey_engine.prefill.scheduling import scheduler; scheduler.compile_kernels()'
	@touch $@

$(MODEL): $(SETUP)
	@$(BIN)/python -c 'from covey_storage.model_files import fetch_embedded; print("embedded model:", fetch_embedded())'
	@touch $@

demo: $(MODEL)
	@$(BIN)/covey demo

test: $(MODEL)
	@$(BIN)/pytest

check: format-check lint types layers test

format-check: $(SETUP)
	@$(BIN)/ruff format --check $(SOURCES)

lint: $(SETUP)
	@$(BIN)/ruff check $(SOURCES)

types: $(SETUP)
	@$(BIN)/mypy

layers: $(SETUP)
	@$(BIN)/lint-imports

format: $(SETUP)
	@$(BIN)/ruff check --fix-only --quiet $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

wheel: $(SETUP)
	@rm -rf dist
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist >/dev/null
	@ls dist/*.whl

clean:
	rm -rf $(VENV) $(STAMPS) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
