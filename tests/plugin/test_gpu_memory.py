# SPDX-License-Identifier: MIT
"""Numbers of a case for which a shared GPU had not enough memory: it is looked at again, alone on the GPU."""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_cutile_rs import gpus
from pytest_cutile_rs.checks import numerics
from pytest_cutile_rs.checks.guard import guarded
from pytest_cutile_rs.session import ParitySession
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import LaunchError


class Session(SimpleNamespace):
    """What `ParitySession` needs for numbers; it notes turns, and what was given back in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: list[Any]) -> None:
        self.noted: list[str] = []

        @contextlib.contextmanager
        def turn(*, exclusive: bool):
            self.noted.append("alone" if exclusive else "shared")
            yield
            self.noted.append("left")

        def check(*_: Any, alone: bool) -> Any:
            assert alone == (self.noted[-1] == "alone")
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        super().__init__(
            noted=self.noted,
            measuring=SimpleNamespace(turn=turn),
            backend=None,
            peer=None,
            device=None,
            arch="sm_90",
            options=SimpleNamespace(seed=0),
        )
        self._numbers = functools.partial(ParitySession._numbers, self)  # type: ignore[arg-type]
        monkeypatch.setattr(numerics, "check", check)
        monkeypatch.setattr(gpus, "release_memory", lambda: self.noted.append("released"))

    def numerics(self) -> Any:
        return ParitySession._numerics(self, None, None)  # type: ignore[arg-type]


def test_memory_is_given_back_before_the_turn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch, ["right"])
    assert session.numerics() == "right"
    assert session.noted == ["shared", "released", "left"]


def test_a_case_that_ran_out_of_memory_is_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch, [torch.OutOfMemoryError("14 GiB"), "right"])
    assert session.numerics() == "right"
    assert session.noted == ["shared", "released", "left", "alone", "released", "left"]


def test_out_of_memory_alone_on_the_gpu_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch, [torch.OutOfMemoryError("14 GiB"), torch.OutOfMemoryError("15 GiB")])
    with pytest.raises(torch.OutOfMemoryError, match="15 GiB"):
        session.numerics()


def test_another_error_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch, [ValueError("wrong"), "never"])
    with pytest.raises(ValueError, match="wrong"):
        session.numerics()


@pytest.mark.parametrize(("reserved", "emptied"), [(gpus.KEPT_BYTES, 0), (gpus.KEPT_BYTES + 1, 1)])
def test_little_memory_is_kept_for_the_next_case(monkeypatch: pytest.MonkeyPatch, reserved: int, emptied: int) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("emptied"))
    monkeypatch.setattr(gpus.gc, "collect", lambda: calls.append("collected"))
    gpus.release_memory()
    assert calls == ["collected", "emptied"] * emptied


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("14 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("Failed to allocate memory for the kernel's arguments"),
        LaunchError("softmax_row: CUDA error 2 CUDA_ERROR_OUT_OF_MEMORY: out of memory", rc=-5),
    ],
    ids=lambda error: str(error)[:20],
)
def test_whoever_ran_out_of_memory_it_is_seen(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    session = Session(monkeypatch, [error, "right"])
    assert session.numerics() == "right"


@pytest.mark.parametrize(
    "error",
    [
        BuildError("cargo was killed: the machine ran out of memory or processes", stage="cargo"),
        CompileError("tileiras: out of memory"),
        MemoryError("out of memory"),
        ValueError("wrong"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_memory_of_the_host_is_another_matter(error: Exception) -> None:
    assert not gpus.out_of_memory(error)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("14 GiB"), RuntimeError("CUDA error: out of memory")])
def test_a_peer_without_memory_is_a_fact_only_where_it_had_the_gpu_alone(error: Exception) -> None:
    def short(*_: Any, **__: Any) -> None:
        raise error

    peer: Any = SimpleNamespace(call=short)
    with pytest.raises(type(error)):
        numerics._called(peer, None, None, None, alone=False)  # type: ignore[arg-type]
    theirs = numerics._called(peer, None, None, None, alone=True)  # type: ignore[arg-type]
    assert theirs.note == f"{type(error).__name__}: {error}"


def test_bands_are_given_back_without_a_collection() -> None:
    """Their buffers are as large as all that an op allocates, on a GPU that others wait for."""
    gc.collect()
    gc.disable()
    try:
        with guarded() as bands:
            torch.empty(8)
        buffer = weakref.ref(bands.buffers[0][1])
        del bands
        assert buffer() is None
    finally:
        gc.enable()


def test_a_measurement_gives_memory_back_before_its_turn_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_cutile_rs.checks import perf
    from pytest_cutile_rs.measuring import Measuring

    session = Session(monkeypatch, [])
    measuring: Any = SimpleNamespace(turn=session.measuring.turn, timer=None, noise_floor=None)
    measuring._session = SimpleNamespace(
        options=SimpleNamespace(
            seed=0, threshold_of=lambda op: 0.95, perf_budget=1.0, waivers=(), protocol="", timer="fake"
        ),
        peer=SimpleNamespace(available=lambda: None),
        backend=None,
        device=None,
    )
    monkeypatch.setattr(perf, "check", lambda *_: "measured")
    assert Measuring.check(measuring, None, SimpleNamespace(op="softmax")) == "measured"  # type: ignore[arg-type]
    assert session.noted == ["alone", "released", "left"]
