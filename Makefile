# SPDX-License-Identifier: MIT
# make parity            set everything up, then run the parity suite (PYTHON=... to stand on another Python and its torch)
# make parity-arch       Tile IR and machine code of the native ops for another GPU: make parity-arch ARCH=sm_100
# make test              what CI runs: lint, types, Rust, C, Python, a quick parity run
# make stress            the builder with the real cargo, killed, moved and starved; a new user's first minutes; memory
# make fuzz              damaged Tile IR bytecode, 100,000 seeded cases (make test runs 3,000)
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

PYTHON ?= python3
ARGS ?=
ARCH ?= sm_100
# Without a GPU a case is executed and compiled on a core; with one it is timed, and nothing may run beside it.
JOBS ?= $(shell ls /dev/nvidia[0-9]* >/dev/null 2>&1 && echo 0 || { n=$$(nproc); echo $$((n > 8 ? 8 : n)); })
BIN := .venv/bin
NATIVE = "$$($(BIN)/tilegym-rs describe | paste -sd,)"
# The tests start hundreds of Pythons: bytecode is written once, whatever the shell says (empty is as good as unset).
export PYTHONDONTWRITEBYTECODE :=
# One environment and one target folder for the lazy build, clippy and the tests: the dependencies compile once.
CARGO_ENV = eval "$$($(BIN)/tilegym-rs toolchain env)"

.PHONY: help setup setup-parity parity parity-arch test lint types fmt rust rust-lint rust-test c-test python-test quick-parity stress fuzz lock clean

help:
	@sed -n 's/^# make/make/p' Makefile

# Stamped by the locks' hash: a second run takes well under a second.
setup:
	@$(PYTHON) -m tilegym_rs_backend.toolchain.setup --checkout . --python "$(PYTHON)"

setup-parity:
	@$(PYTHON) -m tilegym_rs_backend.toolchain.setup --checkout . --python "$(PYTHON)" --parity

parity: setup-parity
	@$(BIN)/pytest -n $(JOBS) --cutile-rs $(ARGS)

parity-arch: setup-parity
	@$(BIN)/pytest -n $(JOBS) --cutile-rs --cutile-rs-arch $(ARCH) --cutile-rs-checks ir,sass --cutile-rs-ops $(NATIVE) $(ARGS)

test: setup-parity
	@$(MAKE) --no-print-directory lint types rust python-test quick-parity

lint: setup
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: setup
	@$(BIN)/mypy

fmt: setup
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format . ; cargo fmt --manifest-path rust/Cargo.toml

rust: rust-lint rust-test

rust-lint: setup
	@cargo fmt --manifest-path rust/Cargo.toml --check
	$(CARGO_ENV)
	cargo clippy --manifest-path rust/Cargo.toml --release --locked --all-targets -- -D warnings

rust-test: setup
	@$(CARGO_ENV)
	cargo test --manifest-path rust/Cargo.toml --release --locked

c-test: setup
	@$(BIN)/pytest tests/test_c_abi.py

python-test: setup
	@# Apart, because a driver that only notes launches stands in for libcuda in the second run's processes.
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --ignore tests/backend --ignore tests/test_rust_library.py $(ARGS)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder tests/backend tests/test_rust_library.py $(ARGS)

# Of the native ops; tests/port compares machine code of translated kernels, and `make parity` takes every op.
quick-parity: setup
	@$(BIN)/pytest -n $(JOBS) --cutile-rs --cutile-rs-quick --cutile-rs-ops $(NATIVE)

# One after the other, with figures; parts of it (read-only mounts, a root without cargo) need root.
stress: setup
	@TILEGYM_RS_RELOADS=10000 $(BIN)/pytest -n 0 -rPs tests/stress tests/build/test_loading.py $(ARGS)

fuzz: setup
	@TILEGYM_RS_FUZZ_CASES=100000 $(BIN)/pytest tests/tile_ir/test_reader_fuzz.py $(ARGS)

lock:
	@$(PYTHON) tools/lock.py

clean:
	@rm -rf .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info .cutile_rs
