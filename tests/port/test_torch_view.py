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
if not hasattr(torch._C, "_cuda_getDevice"):
    pytest.skip("this torch is built without CUDA", allow_module_level=True)

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


def test_a_function_whose_module_holds_a_view_can_be_compiled():
    names = {"torch": view(torch, cuda=view(torch.cuda))}
    exec("def function(x): return torch.sin(x) + torch.ones(3)", names)
    x = torch.arange(3.0)
    compiled = torch.compile(names["function"], backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x.sin() + 1)


def test_a_view_can_be_patched(monkeypatch):
    module = ModuleType("some")
    module.other = 2
    seen = view(module, other=20)
    monkeypatch.setattr(seen, "other", 30)
    assert (seen.other, module.other) == (30, 2)


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


@pytest.mark.parametrize("name", ["current_stream", "get_device_capability"])
def test_who_answers_in_torchs_place_is_asked_and_not_remembered(gpus, monkeypatch, name):
    cuda = torch_view(intercept.answering).cuda
    real = getattr(cuda, name)()
    with inside(ON_GPU):
        assert getattr(cuda, name)() == real
        with monkeypatch.context() as patched:
            patched.setattr(torch.cuda, name, lambda device=None: "another")
            gpus.current, gpus.raw[1] = 1, 5
            assert getattr(cuda, name)() == "another"
        assert getattr(cuda, name)() in ("1:5", (9, 1))


@pytest.fixture
def modules(monkeypatch):
    """Modules that ask for the capability, by name."""
    found = {}
    names = (
        "tilegym.ops.cutile.like",
        "tilegym.suites.liger.cutile.like",
        "tilegym.ops.cutile_rs.like",
        "tilegym.ops.triton_like",
        "somebody.cutile.like",
    )
    for name in names:
        found[name] = ModuleType(name)
        exec("import torch\ndef ask(): return torch.cuda.get_device_capability()", found[name].__dict__)
        monkeypatch.setitem(sys.modules, name, found[name])
    intercept.install()
    return found


def test_modules_of_cutile_ops_hold_the_view(modules):
    assert [module.torch is torch for module in modules.values()] == [False, False, True, True, True]
    assert all(module.torch.Tensor is torch.Tensor for module in modules.values())


def test_a_capture_answers_through_the_view_and_leaves_nothing_in_it(modules, monkeypatch):
    """Also where a redirected op without tensors runs inside it, which is answered for the GPU."""
    from tilegym_rs_backend.port import redirect
    from tilegym_rs_backend.port.capture import capture
    from tilegym_rs_backend.port.redirected import ported

    ask = modules["tilegym.ops.cutile.like"].ask
    monkeypatch.setattr(redirect, "redirect", lambda: ON_GPU)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", (0).__int__)
    op, found = ported(ask), []
    for function in (ask, op):
        capture(lambda function=function: found.append(function()), "sm_120")
    assert found == [(12, 0)] * 2
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    assert op() == (9, 0)
