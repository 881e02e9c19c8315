# Every verb installs what it needs, from Python >= 3.11 and Rust alone. `make` lists the six verbs of daily
# work, `make lab` all others.
PYTHON ?= python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# Keep compiled modules and rewritten asserts between runs: otherwise the collection of the tests takes twice as long.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest
# One worker per core. All tests of the Spark session run on one worker.
PARALLEL := --numprocesses auto --dist loadgroup --benchmark-disable
FAST := not slow and not spark and not launch and not pulsar and not faults and not proof

.DEFAULT_GOAL := help
# No verb makes a file of its own name.
.PHONY: $(shell grep -ohE '^[a-z-]+:' $(MAKEFILE_LIST) | tr -d :)

help:  ## List the verbs of daily work
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | grep -vE '^(lab|help)' | sed -E 's/:.*## /\t/' | expand -t 16

lab:  ## List the other verbs
	@grep -hE '^lab-[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 27

# The installer is pinned by requirements/bootstrap.txt, everything else by requirements/lock.txt.
.venv/.locked: requirements/bootstrap.txt requirements/lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ackwell needs Python >= 3.11; run make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/bootstrap.txt requirements/lock.txt
	@touch $@

# The step that the verbs share: the native module, built into .venv.
install: .venv/.locked
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release --uv --quiet

demo: install  ## Replay real broker traces on Spark and compare with the broker's own answers
	$(BIN)/python -m examples.demo

# BASE=main is the branch to compare with; tests/changed.py lists the tests of each file.
check-changed: .venv/.locked  ## After each change: lint, types, and the tests of the files changed since main
	$(BIN)/python -m tests.changed $(or $(BASE),main) "$(FAST)"

check: lab-lint lab-types lab-test-rust lab-test-python-fast  ## Before each commit: lint, types and the fast tests of both languages

test: lab-lint lab-types lab-test-rust lab-test-python  ## Before each merge: everything that must hold

# Each part has a job in .github/workflows/proof.yml.
proof: lab-proof-python lab-test-launch lab-test-faults lab-mutants  ## Every night: the same claims with large samples, in hours

format: .venv/.locked  ## Format both languages, and apply the automatic fixes of the linter
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lab-test-rust:  ## Model tests of the Rust core, with overflow checks on
	cargo test --workspace --locked

lab-test-python: install  ## The Python part of make test
	$(PYTEST) $(PARALLEL)

lab-test-python-fast: install  ## The Python part of make check
	$(PYTEST) -q $(PARALLEL) --hypothesis-profile check -m "$(FAST)"

lab-test-launch: install  ## Tests that start a JVM or a virtual environment of their own
	$(PYTEST) -m launch

# First the tests of `make test` with more Hypothesis examples, then the tests marked `proof`. A test of an hour is
# not a hanging test, so the second run has no watchdog; its dump of all stacks can end CPython 3.11 itself.
lab-proof-python: install  ## The Python part of make proof
	$(PYTEST) $(PARALLEL) --hypothesis-profile proof
	$(PYTEST) --hypothesis-profile proof -m proof -o faulthandler_timeout=0

# SEQUENCES=200 SEED=7 VERSIONS="4.2.4 4.0.7" plays more random sequences, other ones, on other brokers; SESSIONS=50
# records more traffic; CLIENTS=60 plays more sequences of the official client, LIVES=200 examines more lives.
lab-test-pulsar: install  ## Compare with Apache Pulsar's own code (Java >= 17 and Maven; skipped without)
	$(PYTEST) -m pulsar

# RESTARTS=4 TOPICS=50 plays more rolling restarts with more subscriptions, UPGRADES=16 predicts more states.
lab-test-cluster: install  ## Two brokers of Pulsar on one ZooKeeper: rolling restarts, upgrades (skipped without Java)
	$(PYTEST) tests/pulsar/test_rolling.py tests/pulsar/test_upgrades.py tests/pulsar/test_watched.py \
	  tests/pulsar/test_secure_cluster.py tests/pulsar/test_proxy.py tests/pulsar/test_recorded_moves.py \
	  tests/pulsar/test_transacting.py -m pulsar

# SUITE=<checkout of apache/pulsar-client-python>/tests; the suite needs requests and fastavro beside our own.
lab-test-clients: install  ## The official Python client's suite on the dev broker, with SUITE=…/tests (skipped without)
	@test -z "$(SUITE)" || $(BIN)/uv pip install --quiet --python $(BIN)/python --target build/clients requests fastavro
	PYTHONPATH=$(CURDIR)/build/clients $(BIN)/python -m tests.clients.official "$(SUITE)" -q -o faulthandler_timeout=120

# SUITE=<writable copy of the module github.com/apache/pulsar-client-go>; needs Go and the default ports of a broker.
lab-test-go: install  ## The official Go client's suite on the dev broker, with SUITE=… (skipped without)
	$(BIN)/python -m tests.clients.go_suite "$(SUITE)"

lab-test-go-admin: install  ## The suite of the Go admin library, with SUITE=… (skipped without)
	$(BIN)/python -m tests.clients.go_suite "$(SUITE)" ./pulsaradmin/...

# CLASSPATH=<a file with the class path of the jar pulsar-client-tools>; needs Java.
lab-test-command-lines: install  ## pulsar-admin and pulsar-client on the dev broker, with CLASSPATH=… (skipped without)
	$(BIN)/python -m tests.clients.java_tables command_lines "$(CLASSPATH)"

lab-test-admin-calls: install  ## Calls of the Java class PulsarAdmin on the dev broker, with CLASSPATH=… (skipped without)
	$(BIN)/python -m tests.clients.java_tables admin_calls "$(CLASSPATH)"

# SUITE=<writable copy of the crate pulsar>; needs Rust, protoc and the default ports of a broker.
lab-test-rust-client: install  ## The Rust client's suite on the dev broker, with SUITE=… (skipped without)
	$(BIN)/python -m tests.clients.rust_suite "$(SUITE)"

lab-test-faults: install  ## Kill real processes with kill -9: in the middle of a save, a stream's driver and JVM
	$(PYTEST) -m faults

# The oldest packages of a cluster that ackwell supports without an extra: Spark 3.5. That NumPy has wheels for
# Python 3.11 and 3.12, and that Spark needs Java 17.
OLDEST := .venv-oldest

$(OLDEST)/.locked: .venv/.locked requirements/spark-oldest.txt
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(OLDEST)
	$(BIN)/uv pip sync --quiet --python $(OLDEST)/bin/python --require-hashes requirements/spark-oldest.txt
	@touch $@

lab-test-spark-oldest: install $(OLDEST)/.locked  ## The Spark tests on the oldest PySpark supported (Python 3.11 or 3.12)
	PYTHONPATH=$(CURDIR)/python $(OLDEST)/bin/python -m pytest tests/spark -m "not proof"

# The structures alone need no lock of versions: NumPy has wheels for these interpreters, not every tool does.
FREE_THREADED := .venv-free-threaded
FREE_THREADED_PYTHON ?= python3.14t

lab-test-free-threaded:  ## Threads on one structure under a free-threaded Python (FREE_THREADED_PYTHON=python3.14t)
	$(FREE_THREADED_PYTHON) -c 'import sys; sys.exit(sys._is_gil_enabled() and "a free-threaded Python is needed")'
	$(FREE_THREADED_PYTHON) -m venv $(FREE_THREADED)
	$(FREE_THREADED)/bin/python -m pip install --quiet pytest hypothesis "maturin>=1.16,<2"
	VIRTUAL_ENV=$(CURDIR)/$(FREE_THREADED) $(FREE_THREADED)/bin/maturin develop --release --quiet --group wheel
	$(FREE_THREADED)/bin/python -m pytest tests/threads

lab-lint: .venv/.locked  ## Formatting and lints of both languages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/typos

lab-stubs: install  ## Copy the docstrings of the native module into its stub
	$(BIN)/python rust/python/stubs.py

lab-types: install  ## mypy, and a comparison of the stubs with the built module
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest ackwell._native

# Sphinx: it imports the package, so the docstrings of native classes are read as users see them; warnings
# are errors, which finds each broken link between pages.
lab-docs: install  ## Build the site into build/docs, warnings as errors
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --jobs auto docs build/docs

lab-docs-links: install  ## Request every external address that the site links to (needs the network)
	$(BIN)/sphinx-build --quiet -b linkcheck docs build/links

FUZZ_TOOLS := target/fuzz-tools
SEEDS := tests/fuzz/seeds
RUNS ?= 1000000
TARGETS ?= $(patsubst tests/fuzz/fuzz_targets/%.rs,%,$(wildcard tests/fuzz/fuzz_targets/*.rs))

# Stable Rust serves too: bootstrap lets it instrument for coverage, and the core has no unsafe code that
# a sanitizer would look at.
lab-fuzz:  ## Fuzz every target of tests/fuzz, RUNS=1000000 inputs each; TARGETS="compact pulsar" picks some
	PATH="$(FUZZ_TOOLS)/bin:$$PATH" cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked --root $(FUZZ_TOOLS) cargo-fuzz
	@for target in $(TARGETS); do mkdir -p tests/fuzz/corpus/$$target; \
	  test ! -f $(SEEDS)/$$target.tar.gz || tar -C tests/fuzz/corpus --skip-old-files -xzf $(SEEDS)/$$target.tar.gz; \
	  PATH="$(CURDIR)/$(FUZZ_TOOLS)/bin:$$PATH" RUSTC_BOOTSTRAP=1 \
	    cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none $$target -- -runs=$(RUNS) -max_len=4096 -timeout=10 -print_final_stats=1 || exit 1; \
	done

lab-fuzz-seeds:  ## Store the useful inputs of `make lab-fuzz` as seeds of the next run, one archive for each target
	@for target in $(TARGETS); do \
	  tar -C tests/fuzz/corpus --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - $$target | gzip -9n >$(SEEDS)/$$target.tar.gz; \
	done

# A mutant is the program with one small fault; those that no test notices show which tests are missing.
MUTANTS := .venv-mutants
CARGO_MUTANTS := 27.1.0
SAMPLE ?= 40
SEED ?= 1

$(MUTANTS)/.locked: .venv/.locked requirements/mutants.txt
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(MUTANTS)
	$(BIN)/uv pip sync --quiet --python $(MUTANTS)/bin/python --require-hashes requirements/mutants.txt
	cargo install --quiet --locked --root $(MUTANTS) cargo-mutants@$(CARGO_MUTANTS)
	@touch $@

lab-mutants: install $(MUTANTS)/.locked  ## Run the tests on mutants of FILE: FILE=python/ackwell/cursor/cursor.py SAMPLE=40 SEED=1; hours without FILE
	PATH="$(CURDIR)/$(MUTANTS)/bin:$$PATH" python -m tests.mutants $(FILE) --sample $(SAMPLE) --seed $(SEED)

lab-bench: lab-bench-rust lab-bench-python lab-bench-peers  ## All benchmarks

lab-bench-rust:  ## The core alone (criterion)
	cargo bench --workspace --locked

lab-bench-python: install  ## Through the binding
	$(PYTEST) benches/python --benchmark-only

lab-bench-peers: install  ## The structures, Pulsar's own classes (with Java and Maven) and Python's types, compared with the limits
	$(BIN)/python -m benches.bars

lab-bench-replay: install  ## Local replay on every layout of events, beside DuckDB (minutes)
	PYTHONPATH=. $(BIN)/python -m benches.replay --record

lab-bench-spark: install  ## The pipeline against Spark SQL, 20 M events (minutes)
	PYTHONPATH=. $(BIN)/python -m benches.spark.bench

lab-bench-billion: install  ## A billion events, batches too, on one core (a minute or two)
	PYTHONPATH=. $(BIN)/python -m benches.spark.bench --part billion --add

lab-bench-stream: install  ## A stream of 20 M events on two cores (minutes)
	PYTHONPATH=. $(BIN)/python -m benches.spark.streaming

# `make lab-wheel` needs maturin alone. With TARGET it cross-links through zig, which knows every old glibc:
#   make lab-wheel TARGET=x86_64-unknown-linux-gnu COMPATIBILITY=manylinux2014
WHEEL := .venv-wheel
WHEEL_BIN := $(subst .venv,$(WHEEL),$(BIN))
WHEEL_LOCK := requirements/$(if $(TARGET),cross,wheel).txt

$(WHEEL)/.$(notdir $(WHEEL_LOCK)): $(WHEEL_LOCK)
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL_BIN)/python -m pip install --quiet --require-hashes -r $<
	@touch $@

lab-wheel: $(WHEEL)/.$(notdir $(WHEEL_LOCK))  ## Build a wheel into dist/
	PATH="$(CURDIR)/$(WHEEL_BIN):$$PATH" maturin build --release --locked --out dist --interpreter $(PYTHON) \
	  $(if $(TARGET),--zig --target $(TARGET) --compatibility $(COMPATIBILITY))

lab-sdist: $(WHEEL)/.wheel.txt  ## Pack the sources into dist/
	$(WHEEL_BIN)/maturin sdist --out dist

lab-check-dist: .venv/.locked  ## Check the files in dist/: metadata, README, platform tags, notices
	$(BIN)/twine check --strict dist/*
	$(BIN)/python .ci/check_dist.py dist/*

# RESOLUTION=lowest-direct or highest tests the oldest or the newest version of each requirement instead of the lock.
lab-test-wheel:  ## Install DIST=dist/ackwell-….whl (or .tar.gz) without Rust, and run the fast tests on it
	PYTHON=$(PYTHON) RESOLUTION=$(RESOLUTION) bash .ci/test-wheel $(DIST)

lab-test-clean:  ## Run .ci/run as a new machine would: no caches, no Java on PATH, a fresh home
	bash .ci/test-clean

# `make lab-lock` keeps what is pinned where that is allowed; `make lab-lock UPGRADE=--upgrade` takes the newest.
COMPILE = $(BIN)/uv pip compile --quiet $(UPGRADE) --generate-hashes --no-header --no-emit-index-url \
  --no-emit-find-links --python-version 3.11

lab-lock: .venv/.locked  ## Pin versions of everything: Python packages, crates, third-party notices
	$(COMPILE) --universal --all-extras --group dev pyproject.toml -o requirements/lock.txt
	$(COMPILE) --resolution lowest-direct --group spark-oldest pyproject.toml -o requirements/spark-oldest.txt
	$(COMPILE) --universal --group mutants -o requirements/mutants.txt
	$(COMPILE) --universal --group wheel -o requirements/wheel.txt
	$(COMPILE) --universal --group cross -o requirements/cross.txt
	$(if $(UPGRADE),cargo update)
	$(BIN)/python .ci/notices.py

lab-clean:  ## Remove all files that the targets create
	rm -rf .venv $(OLDEST) $(WHEEL) $(FREE_THREADED) $(MUTANTS) target dist build
