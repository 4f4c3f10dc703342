# Every target sets up what it needs: the .venv, its packages, Debian's mosquitto.
# Nothing outside this directory is touched but the Debian packages that are missing.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3.11
# Holds the directory that .venv was made for. It is brought up to date when the package's own
# description changes, and when the directory was moved, since its scripts name it.
INSTALLED := $(VENV)/.installed
MOVED := $(if $(filter $(CURDIR),$(shell cat $(INSTALLED) 2>/dev/null)),,moved)

# Tests at a time: they wait more than they work, for brokers and processes of their own.
JOBS ?= 3

.DEFAULT_GOAL := help
.PHONY: moved help setup broker unit-checker base-builder fault-tools check format test bench fuzz demo chaos clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## make .venv with nodecast and all that its tests need

$(INSTALLED): setup.cfg pyproject.toml tools/venv $(MOVED)
	tools/venv "$(PYTHON)" $(VENV)
	@echo '$(CURDIR)' >$@

broker: ## see that a mosquitto is there; install Debian's where it is not
	@tools/need mosquitto mosquitto

# The tests of the systemd unit ask systemd itself.
unit-checker:
	@tools/need systemd-analyze systemd

# Those of docker/kubernetes have kubectl build it.
base-builder:
	@tools/need kubectl kubernetes-client

# What the tests of faults are done with: a false clock, and the ways in which people write a file.
fault-tools:
	@tools/need faketime faketime
	@tools/need rsync rsync
	@tools/need ex vim-tiny

check: $(INSTALLED) ## lint, format, types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## format the code, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(INSTALLED) unit-checker base-builder fault-tools broker ## run every test (ARGS='tests/unit -k settle' for some)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

bench: $(INSTALLED) broker ## run the benchmarks and print their table
	$(BIN)/python -m tests.bench $(ARGS)

# Seconds for all targets together; another seed, other inputs.
SECONDS ?= 300
SEED ?= 1
fuzz: $(INSTALLED) ## try nearly good inputs on all that reads (SECONDS=300 SEED=1 ARGS='messages')
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# The plan of a seed, played and compared; SOURCE: manifests or kubernetes, by the seed where not given.
chaos: $(INSTALLED) broker ## try to break a fleet (SECONDS=300 SEED=1 SOURCE=kubernetes)
	$(BIN)/python -m tests.chaos --seconds $(SECONDS) --seed $(SEED) \
	    $(if $(SOURCE),--source $(SOURCE)) $(ARGS)

demo: $(INSTALLED) broker ## bridge, broker and two agents on this machine (ONCE=1: to a proven end)
	$(BIN)/python docker/demo/run.py $(if $(filter-out 0,$(ONCE)),--once) $(ARGS)

clean: ## remove .venv, caches and build output
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	    .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
