# SPDX-License-Identifier: MIT
"""What wrappers ask torch.cuda is answered from memory inside redirected calls, and by torch everywhere else."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

from tilegym_rs_backend.port import intercept  # noqa: E402
from tilegym_rs_backend.port.torch_view import torch_view  # noqa: E402
from tilegym_rs_backend.port.torch_view import view  # noqa: E402

ON_GPU, ELSEWHERE = SimpleNamespace(direct="".format), SimpleNamespace(direct=None)


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs with a current one and a current stream each; torch.cuda notes what it is asked."""
    found = SimpleNamespace(current=0, raw={0: 0, 1: 0}, asked=[])

    def asked(name, answer):
        def ask(device=None):
            found.asked.append((name, device))
            return answer(found.current if device is None else device)

        return ask

    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: found.current)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: found.raw[index])
    monkeypatch.setattr(torch.cuda, "current_stream", asked("stream", lambda index: f"{index}:{found.raw[index]}"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", asked("capability", lambda index: (9, index)))
    monkeypatch.setattr(torch.cuda, "get_device_properties", asked("properties", lambda index: [index]))
    return found


@contextlib.contextmanager
def inside(answers):
    token = intercept.answering.set(answers)
    try:
        yield
    finally:
        intercept.answering.reset(token)


def test_a_view_has_the_modules_attributes_at_any_time():
    module = ModuleType("some")
    module.first, module.other = 1, 2
    module.__getattr__ = {"late": 3}.__getitem__
    seen = view(module, other=20)
    assert (seen.first, seen.other, seen.late, module.other) == (1, 20, 3, 2)
    module.first = 10
    assert seen.first == 10
    seen.added = 5
    assert module.added == 5
    assert isinstance(seen, ModuleType)
    with pytest.raises(AttributeError):
        view(ModuleType("empty")).late  # noqa: B018


def test_the_current_stream_is_asked_for_once_each(gpus):
    cuda = torch_view(intercept.answering).cuda
    with inside(ON_GPU):
        assert [cuda.current_stream() for _ in range(3)] == ["0:0"] * 3
        gpus.raw[0] = 7
        assert [cuda.current_stream() for _ in range(2)] == ["0:7"] * 2
        gpus.current = 1
        assert cuda.current_stream() == "1:0"
        gpus.current, gpus.raw[0] = 0, 0
        assert cuda.current_stream() == "0:0"
        assert gpus.asked == [("stream", None)] * 3
        assert cuda.current_stream(1) == "1:0"  # of a GPU by name: by torch
    assert len(gpus.asked) == 4


def test_a_gpus_properties_are_asked_for_once_each(gpus):
    cuda = torch_view(intercept.answering).cuda
    with inside(ON_GPU):
        for _ in range(2):
            assert cuda.get_device_capability() == (9, 0)
            assert cuda.get_device_properties(1) == [1]
        gpus.current = 1
        assert cuda.get_device_capability() == (9, 1)
    assert gpus.asked == [("capability", None), ("properties", 1), ("capability", None)]


@pytest.mark.parametrize("answers", [None, ELSEWHERE])
def test_everywhere_else_torch_is_asked_every_time(gpus, answers):
    cuda = torch_view(intercept.answering).cuda
    with inside(answers):
        for _ in range(2):
            cuda.current_stream()
            cuda.get_device_properties("cuda")
    assert gpus.asked == [("stream", None), ("properties", "cuda")] * 2


def test_a_build_of_torch_without_cuda_is_seen_as_it_is(monkeypatch):
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream")
    assert torch_view(intercept.answering) is torch


def test_modules_of_cutile_ops_hold_the_view_and_a_capture_answers_through_it(monkeypatch):
    from tilegym_rs_backend.port.capture import capture

    modules = {}
    for name in ("tilegym.ops.cutile.like", "tilegym.ops.triton_like", "somebody.cutile.like"):
        modules[name] = ModuleType(name)
        exec("import torch\ndef ask(): return torch.cuda.get_device_capability()", modules[name].__dict__)
        monkeypatch.setitem(sys.modules, name, modules[name])
    intercept.install()
    assert [module.torch is torch for module in modules.values()] == [False, True, True]
    mine = modules["tilegym.ops.cutile.like"]
    assert mine.torch.Tensor is torch.Tensor
    found = []
    capture(lambda: found.append(mine.ask()), "sm_120")
    assert found == [(12, 0)]
