# Every target does its own set-up: the first call creates .venv from the pinned, hashed requirements.
SHELL := bash
.DEFAULT_GOAL := help
VENV ?= .venv
BIN := $(VENV)/bin
# The first interpreter that really is Python >= 3.11 (shims of version managers may only pretend).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
RESET ?=
DAYS ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## Start a broker on 127.0.0.1:9092 with its data in ./barnabas-data
	@exec $(BIN)/barnabas serve $(if $(findstring --config,$(ARGS)),,-D group.initial.rebalance.delay.ms=0 )$(ARGS)

test: $(VENV)/.dev ## Run every test at a size that fits into 15 minutes
	$(BIN)/python -m tests.suites $(ARGS)

quick: $(VENV)/.dev ## Format, lint, types, and the tests of what differs from main, within a minute
	$(BIN)/python -m tests.quick $(ARGS)

prove: $(VENV)/.dev ## Run the same proofs at their full figures
	$(BIN)/python -m tests.suites --full $(ARGS)

conformance: $(VENV)/.dev ## Run the test suites of Kafka's clients and tools (ARGS=kgo runs one)
	$(BIN)/python -m tests.clients.conformance $(ARGS)

check: $(VENV)/.dev ## Format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: $(VENV)/.dev ## Let ruff format and mend what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(VENV)/.dev ## A year of flights through a broker and PySpark (RESET=1 begins anew, DAYS=20 takes the first days)
	$(BIN)/python -m spark_jobs.flights.demo $(if $(RESET),--reset )$(if $(DAYS),--days $(DAYS))

bench: $(VENV)/.dev ## Measure beside Apache Kafka, in one table
	$(BIN)/python -m benchmarks $(ARGS)

crash: $(VENV)/.dev ## Check states that a power cut may leave (STATES=5000 SEED=1 METADATA=1 PAIRS=1; STATE=7 replays one)
	$(BIN)/python -m tests.crash --states $(or $(STATES),5000) --seed $(or $(SEED),1) $(if $(STATE),--state $(STATE)) $(if $(METADATA),--metadata) $(if $(PAIRS),--pairs)

sim: $(VENV)/.dev ## Simulate brokers and their faults (SEED=1 SEEDS=20 EVENTS=20000 BROKERS=1 TRANSACTIONS= CREDENTIALS=)
	$(BIN)/python -m tests.simulation $(if $(TRANSACTIONS),--transactions) $(if $(CREDENTIALS),--credentials) --brokers $(or $(BROKERS),1) --seed $(or $(SEED),1) --seeds $(or $(SEEDS),20) --events $(or $(EVENTS),20000)

sim-bugs: $(VENV)/.dev ## Look for the bugs that are planted for the simulator (SEEDS=100)
	$(BIN)/python -m tests.simulation.find_bugs --seeds $(or $(SEEDS),100)

fuzz: $(VENV)/.dev ## Send a broker damaged requests (MINUTES=1)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),1)

chaos: $(VENV)/.dev ## Deal faults to three brokers under load, and check what their clients saw (MINUTES=1 SEED=1 TRANSACTIONS= SECURE=)
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),1) --seed $(or $(SEED),1) $(if $(TRANSACTIONS),--transactions) $(if $(SECURE),--secure)

lock: ## Pin the newest versions that pyproject.toml allows, with hashes
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
		pyproject.toml -o requirements/run.txt
	uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
		--constraint requirements/run.txt --constraint requirements/pins.in \
		--all-extras pyproject.toml -o requirements/dev.txt

clean: ## Remove what the other targets made, except the data of `make run`
	rm -rf $(VENV) build dist demo-data .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "Barnabas needs Python 3.11 or newer: none found on PATH" >&2; exit 1; }
	@if command -v uv >/dev/null; then uv venv --quiet --seed --python $(PYTHON) $(VENV); else $(PYTHON) -m venv $(VENV); fi

# Two stamps: what a broker needs, and what its developers need.
$(VENV)/.run $(VENV)/.dev: $(VENV)/.%: requirements/%.txt pyproject.toml | $(BIN)/python
	@echo "installing requirements/$*.txt into $(VENV) ..."
	@if command -v uv >/dev/null; then \
		uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/$*.txt && \
		uv pip install --quiet --python $(BIN)/python --no-deps --editable .; \
	else \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/$*.txt && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .; \
	fi
	@$(BIN)/python -m compileall -q barnabas broker controller protocol storage  # so that even the first start is quick
	@touch $@

.PHONY: help run test quick prove conformance check fix demo bench crash sim sim-bugs fuzz chaos lock clean
