# SPDX-License-Identifier: MIT
"""Bytecode of captured launches in the store: what hits, what does not, what is never kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

from tilegym_rs_backend import artifacts  # noqa: E402
from tilegym_rs_backend.port import signature  # noqa: E402
from tilegym_rs_backend.port import stored  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.capture import import_tilegym  # noqa: E402
from tilegym_rs_backend.store import Store  # noqa: E402

OWN = Path(__file__).parents[1] / "checks" / "own"


@pytest.fixture
def front_end(tmp_path, monkeypatch):
    """Counts what is compiled; the store is empty."""
    monkeypatch.setattr(artifacts, "_store", lambda: Store(tmp_path))
    runs: list[str] = []
    original = signature.bytecode

    def counting(launch, **options):
        runs.append(launch.name)
        return original(launch, **options)

    monkeypatch.setattr(signature, "bytecode", counting)
    return runs


def softmax(*shape: int, arch: str = "sm_90", dtype=torch.float16, **options):
    pytest.importorskip("tilegym")
    ops = import_tilegym().ops
    x = torch.empty(shape, dtype=dtype)
    [launch] = capture(lambda: ops.softmax(x, backend="cutile", **options), arch, device="cpu")
    return launch


def test_a_second_launch_of_the_same_specialization_is_not_compiled(front_end):
    first = stored.bytecode(softmax(64, 1000))
    assert stored.bytecode(softmax(64, 1000)) == first
    assert front_end == ["_softmax_kernel"]
    assert signature.bytecode(softmax(64, 1000)) == first


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ((64, 1001), {}),
        ((64, 1000), {"dtype": torch.float32}),
        ((64, 1000), {"arch": "sm_100"}),
        ((64, 1000), {"use_tma": True}),
    ],
)
def test_another_specialization_is(front_end, shape, more):
    stored.bytecode(softmax(64, 1000))
    stored.bytecode(softmax(*shape, **more))
    assert len(front_end) == 2


def test_other_options_values_or_sources_are_other_kernels(front_end, monkeypatch):
    launch = softmax(64, 1000)
    keys = {stored._key(softmax(1, 1000), False), stored._key(launch, True)}
    module = sys.modules[launch.module]
    monkeypatch.setattr(module, "A_VALUE_OF_THE_MODULE", 3, raising=False)
    keys.add(stored._key(launch, True))
    monkeypatch.setattr(stored, "sources_hash", lambda package: f"other sources of {package}")
    keys.add(stored._key(launch, True))
    monkeypatch.setattr(launch.kernel, "_compiler_options", "others")
    keys.add(stored._key(launch, True))
    assert len(keys) == 5
    assert None not in keys


def test_a_kernel_outside_of_a_package_is_compiled_every_time(front_end, monkeypatch):
    monkeypatch.syspath_prepend(str(OWN))
    from own_softmax import run

    [launch] = capture(lambda: run(torch.empty(64, 1000)), device="cpu")
    assert stored.bytecode(launch) == stored.bytecode(launch)
    assert front_end == ["own_softmax", "own_softmax"]


def test_the_hash_follows_the_sources(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "hashed_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernel.py").write_text("A = 1\n")
    stored.sources_hash.cache_clear()
    first = stored.sources_hash("hashed_package")
    assert stored.sources_hash("hashed_package") == first
    (package / "kernel.py").write_text("A = 2\n")
    stored.sources_hash.cache_clear()
    assert stored.sources_hash("hashed_package") != first
    assert stored.sources_hash("no_such_package_at_all") is None
