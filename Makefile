# Everything here runs in .venv, made from the hashed lock files. `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCKS := requirements.lock requirements-dev.lock
# Optional dependencies that the tests need: all of pyproject.toml but the decoder, which is built.
EXTRAS := embedded aws arrow read postgresql mysql kafka iceberg delta duckdb excel metrics otel openlineage mcp
# The stamp's name holds the lock's hash: a changed lock makes a new environment.
KEY := $(shell sha256sum < requirements-dev.lock | cut -c1-16)
STAMP := .venv/.made-$(KEY)
BIN := .venv/bin
CRATE := crates/rowfall-decode
# Built again when a source of the crate has changed.
SOURCES := $(shell cat $(CRATE)/Cargo.* $(CRATE)/pyproject.toml \
	$(shell find $(CRATE)/src -name '*.rs' | sort) | sha256sum | cut -c1-16)
DECODER := .venv/.decoder-$(SOURCES)
# What cargo compiles for the tests is kept for other checkouts, as the services are that the tests
# start: all the crates that ours needs are three minutes of CPU, ours alone is one.
KEPT := $(HOME)/.cache/rowfall-lab/crates-$(shell sha256sum < $(CRATE)/Cargo.lock | cut -c1-16)
# cargo knows a file by its time, and its path by where it lies in the crate: what another checkout
# has compiled there would be taken for this one's. So the files of ours are touched first.
define OURS
	@mkdir -p $(KEPT); [ "$$(cat $(KEPT)/checkout 2>/dev/null)" = "$(CURDIR)" ] || \
		{ find $(CRATE)/src $(CRATE)/tests -name '*.rs' -exec touch {} +; echo "$(CURDIR)" >$(KEPT)/checkout; }
endef
# The tests take the release build where it is there, and otherwise one without link-time
# optimisation, which takes minutes.
TESTED := $(or $(wildcard $(DECODER)),.venv/.decoder-quick-$(SOURCES))
# Four workers on two cores: a sixth of the time three of them waited. tests/conftest.py says which
# group starts first.
PYTEST := $(BIN)/pytest -n 4 --dist loadgroup --no-loadscope-reorder

# Wheels are made in an environment of their own: its linker is 200 MB that no test needs.
WHEELS_FOR ?= x86_64 aarch64
WHEELS_PROFILE ?= release
RELEASE_URL ?=
DIST ?= dist
DOCS_ENV := build/docs-$(shell sha256sum < requirements-docs.lock | cut -c1-16)
WHEELS_ENV := build/wheels-$(shell sha256sum < requirements-wheels.lock | cut -c1-16)

# Needs node and npm, which nothing else here does: the result is kept with the sources.
charts:  ## build the chart library of report pages from charts/package-lock.json, where there is npm
	cd charts && npm ci --no-audit --no-fund && node build.mjs

.PHONY: charts
.PHONY: help venv decoder demo rust memcheck miri aarch64 test test-all test-singlestore fast check faults simulate bench
.PHONY: bench-100b figures lock lock-integrations test-integrations
.PHONY: wheels release image docs clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '%-8s %s\n' "$$name" "$$text"; done

venv: $(STAMP)  ## make .venv from requirements-dev.lock

$(STAMP):
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --require-hashes -r requirements-dev.lock
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	touch $@

decoder: $(DECODER)  ## build rowfall-decode into .venv, where there is a Rust toolchain

.venv/.decoder-%: $(STAMP)
	$(OURS)
	@if cargo --version >/dev/null 2>&1; then \
		$(if $(findstring quick,$@),CARGO_TARGET_DIR=$(KEPT)) \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pip install -q --no-deps --no-build-isolation \
			--force-reinstall $(if $(findstring quick,$@),-C build-args="--profile quick") \
			./$(CRATE) && rm -f .venv/.decoder-* && touch $@; \
	else \
		echo "no Rust toolchain: text is parsed by the engine itself, which takes more CPU"; \
	fi

$(WHEELS_ENV): requirements-wheels.lock
	rm -rf $@
	$(PYTHON) -m venv $@.new
	$@.new/bin/python -m pip install -q --require-hashes -r requirements-wheels.lock
	mv $@.new $@

$(DOCS_ENV): requirements-docs.lock
	rm -rf $@ && mkdir -p build && $(PYTHON) -m venv $@.new
	$@.new/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements-docs.lock
	mv $@.new $@

docs: $(DOCS_ENV)  ## build the pages into build/site, with every link checked
	$(DOCS_ENV)/bin/python docs/make_site.py

# manylinux2014: glibc 2.17 of 2012, as rowfall-decode is copied into servers that are older than the
# machine it was installed on. python -m, as scripts name the folder that the environment was made in.
wheels: $(WHEELS_ENV)  ## build into dist/: rowfall, and rowfall-decode for x86-64 and aarch64
	@command -v cargo >/dev/null || { echo "make wheels needs a Rust toolchain (cargo)"; exit 1; }
	mkdir -p $(DIST)
	$(WHEELS_ENV)/bin/python -m hatchling build -t wheel -d $(DIST)
	for cpu in $(WHEELS_FOR); do \
		[ -n "$${RUSTC:-}" ] || ! command -v rustup >/dev/null || \
			rustup -q target add $$cpu-unknown-linux-gnu; \
		PATH="$(abspath $(WHEELS_ENV))/bin:$$PATH" $(WHEELS_ENV)/bin/python -m maturin build -q \
			-m $(CRATE)/Cargo.toml --profile $(WHEELS_PROFILE) --zig \
			--target $$cpu-unknown-linux-gnu --compatibility manylinux2014 -o $(DIST); \
	done

# RELEASE_URL is where the files will be published: the recipes of Homebrew and conda lead there.
release: $(WHEELS_ENV)  ## build into dist/release, twice, what a release of this commit needs
	@command -v cargo >/dev/null || { echo "make release needs a Rust toolchain (cargo)"; exit 1; }
	$(WHEELS_ENV)/bin/python packaging/release.py --out $(DIST)/release --env $(WHEELS_ENV) \
		--cpus "$(WHEELS_FOR)" --profile $(WHEELS_PROFILE) --url "$(RELEASE_URL)" --twice

image:  ## build dist/image.tar from dist/release and Debian's packages, for docker and podman
	bash packaging/image.sh $(DIST)/release $(DIST)/image.tar

# In the environment of developers, where it is made; otherwise in one with what the demo needs, which
# is ready within a minute.
DEVELOPED := $(and $(wildcard $(STAMP)),$(wildcard $(DECODER) .venv/.decoder-quick-$(SOURCES)))
DEMO := build/demo-$(shell sha256sum < requirements.lock | cut -c1-8)-$(SOURCES)

demo: $(if $(DEVELOPED),,$(DEMO)/.made)  ## load, query and resume, step by step, in a temporary folder
	@PATH="$(CURDIR)/$(if $(DEVELOPED),.venv,$(DEMO))/bin:$$PATH" bash examples/demo.sh

build/demo-%/.made:
	@PYTHON="$(PYTHON)" bash examples/demo-setup.sh $(@D)

rust: venv  ## style and tests of the crate
	@command -v cargo >/dev/null || { echo "make test needs a Rust toolchain (cargo)"; exit 1; }
	$(OURS)
	export CARGO_TARGET_DIR=$(KEPT) && cd $(CRATE) && cargo fmt --check && \
		cargo clippy -q --profile quick --all-targets -- -D warnings && \
		cargo check -q --profile quick --no-default-features && \
		cargo test -q --profile quick

# Not part of the tests, as it builds them once more. valgrind knows no AVX-512: the rest is run.
memcheck:  ## tests of the crate under valgrind: a read or write where none belongs is an error
	@command -v valgrind cargo >/dev/null || { echo "make memcheck needs valgrind and cargo"; exit 1; }
	cd $(CRATE) && export CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=target/memcheck \
		CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 PROPTEST_CASES=200 ROWFALL_MUTATIONS=100 \
		CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind -q --error-exitcode=9" && \
		cargo test -q --release

# Miri runs no C code and no assembler: whole specs of text, without compression, some examples each.
# It sees what valgrind cannot: pointers that are used for what they were not made for.
miri:  ## some tests of the crate under Miri (a nightly toolchain with the component miri)
	cd $(CRATE) && export CARGO_TARGET_DIR=target/miri PROPTEST_CASES=2 \
		MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" && \
		cargo +nightly miri test -q --no-default-features --lib -- --skip rewrite && \
		cargo +nightly miri test -q --no-default-features --test decode -- \
		--skip large --skip memory --skip few_values --skip last_rows --skip asked_for

# Tests of a second run under qemu for minutes, so of thousands of mutations a hundred are tried. One
# test starts the program itself, which this machine's kernel cannot.
aarch64: venv  ## tests of the crate for aarch64 (NEON), compiled and run on x86-64; Debian only
	$(OURS)
	cd $(CRATE) && CARGO_TARGET_DIR=$(KEPT) PROPTEST_CASES=20 ROWFALL_MUTATIONS=100 \
		PYTHONPATH=../../tests ../../$(BIN)/python -m lab.aarch64 \
		cargo test -q --profile quick --target aarch64-unknown-linux-gnu --no-fail-fast \
		-- --skip short_text_does_not_take_much_memory

check: venv  ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast: check  ## check, then the tests that need no service
	$(PYTEST) -m "not long" tests/unit

# Style, types, import rules and the crate are checked beside the Python tests, with what those
# leave of the processors. What is said comes when all has ended, and pytest's last line last.
define BESIDE
log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
nice $(MAKE) --no-print-directory check rust >"$$log" 2>&1 & beside=$$!; \
trap 'kill $$beside 2>/dev/null || :; rm -f "$$log"' EXIT; \
failed=0; $(1) || failed=$$?; \
wait $$beside || { echo "make check rust:"; cat "$$log"; failed=1; }; \
exit $$failed
endef

test: $(TESTED)  ## what a merge has to pass: style, types, the crate, and the tests of the gate
	@$(call BESIDE,$(PYTEST) --durations=20 -m "not long")

# The longest form of a test is a hundred commands, of which each is a second and more among four workers.
test-all: $(TESTED)  ## the same with every test and more examples of each: some hours
	@export ROWFALL_TESTS=all ROWFALL_FAULT_ROUNDS=$${ROWFALL_FAULT_ROUNDS:-20}; $(call BESIDE,$(PYTEST) --timeout=600 --durations=20)

# Each in an environment of its own, made from its lock file: orchestrators bring hundreds of packages.
INTEGRATIONS ?= $(patsubst integrations/%/requirements.lock,%,$(wildcard integrations/*/requirements.lock))

test-integrations: $(TESTED)  ## the tests of integrations/; INTEGRATIONS=dagster for one
	@bash integrations/test.sh $(INTEGRATIONS)

# What MariaDB stands in for otherwise: its own tests, every source into it, and connections that are
# cut and a rowfall that is killed at each step. In the database of the URL the tables t_* and
# _rowfall_loaded are dropped; all else is in databases db_* and into_*, which are made and dropped.
test-singlestore: venv decoder  ## the tests of SingleStore against ROWFALL_SINGLESTORE_URL
	@test -n "$$ROWFALL_SINGLESTORE_URL" || { echo "set ROWFALL_SINGLESTORE_URL=singlestore://user:password@host:3306/database"; exit 1; }
	@ROWFALL_TESTS=all $(PYTEST) tests/e2e/test_to_singlestore.py tests/contract/test_matrix.py \
		tests/faults/test_to_mysql.py -k "test_to_singlestore or -singlestore] or connection_is_cut \
		or rowfall_is_killed or two_loads_of_the_same_files"

# ROWFALL_FAULT_SEED=N repeats a run, ROWFALL_FAULT_ROUNDS=N makes it shorter or longer.
faults: check  ## the fault tests again and again: 200 rounds of each kind of test
	@ROWFALL_FAULT_ROUNDS=$${ROWFALL_FAULT_ROUNDS:-200} $(PYTEST) tests/faults

# A million seeds: three hours of one core. ROWFALL_SIM_SEEDS=N for another number.
simulate: venv  ## the protocol among faults in simulated time: a million runs
	@ROWFALL_SIM_SEEDS=$${ROWFALL_SIM_SEEDS:-1000000} $(PYTEST) tests/faults/test_simulator.py

bench: venv decoder  ## measure; never part of the tests
	$(BIN)/python bench/run.py
	$(BIN)/python bench/server.py
	$(BIN)/python bench/spared.py
	$(BIN)/python bench/cluster.py
	$(BIN)/python bench/sources.py
	$(BIN)/python bench/targets.py
	$(BIN)/python bench/push.py
	$(BIN)/python bench/doctor.py
	$(BIN)/python bench/doctor.py --slowed
	$(BIN)/python bench/soak.py --server
	$(BIN)/python bench/many_objects.py
	$(BIN)/python bench/tune.py
	$(BIN)/python bench/articles.py all
	$(BIN)/python docs/make_figures.py

figures: venv  ## write the figures of README.md and docs from bench/results*.json
	$(BIN)/python docs/make_figures.py

# WORK=folder on a disk with room (it says how much), SLICE=2h stops and is gone on with by the next run.
bench-100b: venv decoder  ## load 100 billion rows, killed twice on the way, in slices of two hours
	$(BIN)/python bench/hundred_billion.py --work $${WORK:?name a folder} --slice $${SLICE:-2h}

lock: venv  ## pin every dependency with its hashes again
	for f in $(LOCKS); do \
		dev=$$([ $$f = requirements.lock ] && echo "--extra embedded --extra aws" || \
			echo "--group dev $(EXTRAS:%=--extra %)"); \
		$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --custom-compile-command "make lock" \
			pyproject.toml --group build $$dev -o $$f; \
	done
	for group in wheels docs; do \
		$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-emit-index-url --custom-compile-command "make lock" \
			--group $$group -o requirements-$$group.lock; \
	done

lock-integrations: venv  ## pin what integrations are tested with again; INTEGRATIONS=dagster for one
	for name in $(INTEGRATIONS); do \
		$(BIN)/uv pip compile -q --upgrade --python-version 3.11 --generate-hashes --no-emit-index-url \
			--custom-compile-command "make lock-integrations" \
			pyproject.toml --extra embedded --group build integrations/$$name/pyproject.toml \
			--group integrations/$$name/pyproject.toml:dev -o integrations/$$name/requirements.lock; \
	done

clean:  ## remove what the other targets made
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests integrations -name __pycache__ -type d -prune -exec rm -rf {} +
