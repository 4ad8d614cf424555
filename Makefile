# Everything here runs in .venv, made from the hashed lock files. `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCKS := requirements.lock requirements-dev.lock
# The stamp's name holds the lock's hash: a changed lock makes a new environment.
KEY := $(shell sha256sum < requirements-dev.lock | cut -c1-16)
STAMP := .venv/.made-$(KEY)
BIN := .venv/bin
CRATE := crates/rowfall-decode
# Built again when a source of the crate has changed.
DECODER := .venv/.decoder-$(shell cat $(CRATE)/Cargo.* $(CRATE)/pyproject.toml \
	$(shell find $(CRATE)/src -name '*.rs' | sort) | sha256sum | cut -c1-16)
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup

.PHONY: help venv decoder demo rust memcheck test fast check faults bench lock clean

help:  ## list the targets
	@sed -nE 's/^([a-z]+):.*  ## (.*)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '%-8s %s\n' "$$name" "$$text"; done

venv: $(STAMP)  ## make .venv from requirements-dev.lock

$(STAMP):
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --require-hashes -r requirements-dev.lock
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	touch $@

decoder: $(DECODER)  ## build rowfall-decode into .venv, where there is a Rust toolchain

$(DECODER): $(STAMP)
	@if command -v cargo >/dev/null; then \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install -q --no-deps --no-build-isolation \
			--force-reinstall ./$(CRATE) && rm -f .venv/.decoder-* && touch $@; \
	else \
		echo "no Rust toolchain: text is parsed by the engine itself, which takes more CPU"; \
	fi

demo: venv decoder  ## load, query and resume, step by step, in a temporary folder
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

rust: venv  ## style and tests of the crate
	@command -v cargo >/dev/null || { echo "make test needs a Rust toolchain (cargo)"; exit 1; }
	cd $(CRATE) && cargo fmt --check && cargo clippy -q --all-targets -- -D warnings && \
		cargo test -q --release

# Not part of the tests, as it builds them once more. valgrind knows no AVX-512: the rest is run.
memcheck:  ## tests of the crate under valgrind: a read or write where none belongs is an error
	@command -v valgrind cargo >/dev/null || { echo "make memcheck needs valgrind and cargo"; exit 1; }
	cd $(CRATE) && export CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=target/memcheck \
		CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 PROPTEST_CASES=200 ROWFALL_MUTATIONS=100 \
		CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --error-exitcode=9" && \
		cargo test -q --release

check: venv  ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast: check  ## check, then the tests that need no service
	$(PYTEST) tests/unit

test: check rust decoder  ## check, then every test, against real services
	@$(PYTEST)

# ROWFALL_FAULT_SEED=N repeats a run, ROWFALL_FAULT_ROUNDS=N makes it shorter or longer.
faults: check  ## the fault tests again and again: 200 rounds of each kind of test
	@ROWFALL_FAULT_ROUNDS=$${ROWFALL_FAULT_ROUNDS:-200} $(PYTEST) tests/faults

bench: venv decoder  ## measure; never part of the tests
	$(BIN)/python bench/run.py
	$(BIN)/python bench/server.py
	$(BIN)/python bench/cluster.py

lock: venv  ## pin every dependency with its hashes again
	for f in $(LOCKS); do \
		dev=$$([ $$f = requirements.lock ] || echo "--group dev"); \
		$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --custom-compile-command "make lock" \
			pyproject.toml --group build $$dev -o $$f; \
	done

clean:  ## remove what the other targets made
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
