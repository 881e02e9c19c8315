# The verbs. Each sets itself up from nothing but Python >= 3.11 and Rust; `make` alone lists them.
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PYTEST := $(BIN)/python -m pytest
# Two or more workers; those that need the one Spark session stay on one worker.
PARALLEL := --numprocesses auto --dist loadgroup --benchmark-disable
FAST := not slow and not spark and not pulsar and not faults and not soak

.DEFAULT_GOAL := help
.PHONY: help install demo check test test-rust test-python-fast test-python test-pulsar test-faults soak lint format types \
        fuzz bench bench-rust bench-python bench-peers wheel lock clean \
        bench-spark bench-stream test-spark-oldest

help:  ## List the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 19

# The installer is pinned by requirements/bootstrap.txt, everything else by requirements/lock.txt.
.venv/.locked: requirements/bootstrap.txt requirements/lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ackwell needs Python >= 3.11; run make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/bootstrap.txt requirements/lock.txt
	@touch $@

install: .venv/.locked  ## Build the native module into .venv
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release --uv --quiet

demo: install  ## Replay real broker traces on Spark and compare with the broker's own answers
	$(BIN)/python examples/demo.py

check: lint types test-rust test-python-fast  ## After each change: lint, types and the fast tests of both languages

test: lint types test-rust test-python  ## Everything that must hold, in 8 minutes on 2 cores

test-rust:  ## Model tests of the Rust core, with overflow checks on
	cargo test --workspace --locked

test-python: install  ## Differential, flow, store, command line and Spark tests
	$(PYTEST) $(PARALLEL)

test-python-fast: install
	$(PYTEST) -q --hypothesis-profile check -m "$(FAST)"

# SEQUENCES=200 SEED=7 VERSIONS="4.2.4 4.0.7" plays more random sequences, other ones, on other brokers.
test-pulsar: install  ## Apache Pulsar's own code as the judge (Java >= 17 and Maven; skipped without)
	$(PYTEST) -m pulsar

test-faults: install  ## Real processes killed with kill -9: in the middle of a save, a stream's driver and JVM
	$(PYTEST) -m faults

# The oldest of everything that pyproject.toml allows, so that its lower bounds are true. That NumPy has
# wheels for Python 3.11 and 3.12.
OLDEST := .venv-oldest

$(OLDEST)/.locked: .venv/.locked requirements/spark-oldest.txt
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(OLDEST)
	$(BIN)/uv pip sync --quiet --python $(OLDEST)/bin/python --require-hashes requirements/spark-oldest.txt
	@touch $@

test-spark-oldest: install $(OLDEST)/.locked  ## The Spark tests on the oldest PySpark supported (Python 3.11 or 3.12)
	PYTHONPATH=$(CURDIR)/python $(OLDEST)/bin/python -m pytest tests/spark

soak: install  ## Long proofs
	$(PYTEST) -m soak

lint: .venv/.locked  ## Formatting and lints of both languages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/typos

format: .venv/.locked  ## Rewrite what lint would refuse
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: install  ## mypy, and the stubs held against the built module
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest ackwell._native

FUZZ_TOOLS := target/fuzz-tools
RUNS ?= 1000000
TARGETS ?= $(patsubst tests/fuzz/fuzz_targets/%.rs,%,$(wildcard tests/fuzz/fuzz_targets/*.rs))

# Stable Rust serves too: bootstrap lets it instrument for coverage, and the core has no unsafe code that
# a sanitizer would look at.
fuzz:  ## Fuzz every target of tests/fuzz, RUNS=1000000 inputs each; TARGETS="compact pulsar" picks some
	PATH="$(FUZZ_TOOLS)/bin:$$PATH" cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked --root $(FUZZ_TOOLS) cargo-fuzz
	@for target in $(TARGETS); do \
	  PATH="$(CURDIR)/$(FUZZ_TOOLS)/bin:$$PATH" RUSTC_BOOTSTRAP=1 \
	    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none $$target -- -runs=$(RUNS) -max_len=4096 -timeout=10 -print_final_stats=1 || exit 1; \
	done

bench: bench-rust bench-python bench-peers  ## All benchmarks

bench-rust:  ## The core alone (criterion)
	cargo bench --workspace --locked

bench-python: install  ## Through the binding
	$(PYTEST) benches/python --benchmark-only

bench-peers: install  ## Both beside Pulsar's own classes (where Java and Maven are) and Python's, held against the bars
	$(BIN)/python -m benches.bars

bench-spark: install  ## The pipeline against Spark SQL, 20 M events (minutes)
	PYTHONPATH=. $(BIN)/python -m benches.spark.bench

bench-stream: install  ## A stream of 20 M events on two cores (minutes)
	PYTHONPATH=. $(BIN)/python -m benches.spark.streaming

wheel: .venv/.locked  ## Build a wheel into dist/
	$(BIN)/maturin build --release --out dist

lock: .venv/.locked  ## Pin the newest allowed versions of everything
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-emit-index-url --no-emit-find-links --all-extras --group dev pyproject.toml \
	  -o requirements/lock.txt
	$(BIN)/uv pip compile --quiet --upgrade --resolution lowest-direct --python-version 3.11 --generate-hashes \
	  --no-header --no-emit-index-url --no-emit-find-links --extra spark --extra connect --group dev pyproject.toml \
	  -o requirements/spark-oldest.txt
	cargo update

clean:  ## Remove what the verbs made
	rm -rf .venv $(OLDEST) target dist
