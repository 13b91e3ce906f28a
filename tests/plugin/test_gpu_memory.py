# SPDX-License-Identifier: MIT
"""Numbers of a case for which a shared GPU had not enough memory: it is looked at again, alone on the GPU."""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_cutile_rs import gpus
from pytest_cutile_rs.checks import numerics
from pytest_cutile_rs.session import ParitySession


class Session(SimpleNamespace):
    """What `ParitySession` needs for numbers; it notes turns, and what was given back in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: list[Any]) -> None:
        self.noted: list[str] = []

        @contextlib.contextmanager
        def turn(*, exclusive: bool):
            self.noted.append("alone" if exclusive else "shared")
            yield
            self.noted.append("left")

        def check(*_: Any) -> Any:
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
    calls: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append(1))
    gpus.release_memory()
    assert len(calls) == emptied


def test_a_peer_without_memory_is_no_fact_about_the_peer() -> None:
    def short(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("14 GiB")

    with pytest.raises(torch.OutOfMemoryError):
        numerics._called(SimpleNamespace(call=short), None, None, None)  # type: ignore[arg-type]
