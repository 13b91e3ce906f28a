# SPDX-License-Identifier: MIT
"""Functions put around an op: which GPU is current, how little Python they add, and what becomes of what it returns."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import weakref
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile")
if not hasattr(torch._C, "_cuda_getDevice"):
    pytest.skip("this torch is built without CUDA", allow_module_level=True)

from tilegym_rs_backend.port import intercept  # noqa: E402
from tilegym_rs_backend.port import redirect  # noqa: E402
from tilegym_rs_backend.port import redirected  # noqa: E402


@pytest.fixture
def gpu(monkeypatch):
    """What answers launches on a GPU."""
    found = SimpleNamespace(kernels=None, direct="".format)
    monkeypatch.setattr(redirect, "redirect", lambda: found)
    return found


class OnSecondGpu(torch.Tensor):
    is_cuda = True

    def get_device(self):
        return 1


class OnFirstGpu(torch.Tensor):
    is_cuda = True

    def get_device(self):
        return 0


def test_an_op_runs_while_its_tensors_gpu_is_the_current_one(gpu, monkeypatch):
    current, seen = [0], []

    @contextlib.contextmanager
    def device(index):
        before, current[0] = current[0], index
        yield
        current[0] = before

    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    x = torch.zeros(3).as_subclass(OnSecondGpu)
    op = redirected.ported(lambda *args: seen.append(current[0]) or x)
    assert op(x) is x
    assert op([x]) is x
    op()
    assert seen == [1, 1, 0]
    assert current == [0]


@pytest.mark.parametrize("arguments", [lambda x: ((x, 2), {}), lambda x: (([x, x],), {}), lambda x: ((), {"x": x})])
@pytest.mark.parametrize("gpus", [1, 2])
def test_an_op_on_the_current_gpu_is_one_python_call_away(gpu, monkeypatch, gpus, arguments):
    """The first call finds out how many GPUs there are; a tensor on a CPU is still seen afterwards."""
    zero = (0).__int__  # in C, as torch's is
    monkeypatch.setattr(torch._C, "_cuda_getDevice", zero)
    counted = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: counted.append(gpus) or gpus)
    x = torch.zeros(3).as_subclass(OnFirstGpu)
    seen, entered = [], []

    def function(*args, **kwargs):
        seen.append(intercept.answering.get())
        return [x]

    op = redirected.ported(function)
    args, kwargs = arguments(x)
    assert op(*args, **kwargs) == [x]
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        op(*args, **kwargs)
    finally:
        sys.setprofile(None)
    assert [name for name in entered if name != "get_device"] == ["call", "function"]
    assert counted == [gpus]
    assert seen == [gpu, gpu]
    assert intercept.answering.get() is None
    monkeypatch.setattr(redirected, "target_of", lambda *_: "cpu")
    monkeypatch.setattr(redirect.Elsewhere, "run", lambda self, *_: "on the CPU")
    assert op(torch.zeros(3)) == "on the CPU"


@pytest.fixture
def walks(monkeypatch):
    """Notes each look through all modules."""
    found = []
    monkeypatch.setattr(intercept, "install", lambda: found.append(len(sys.modules)))
    monkeypatch.setattr(intercept, "_walked", len(sys.modules))
    return found


def returning(result):
    return redirected._redirected(lambda: result)


class Layer(torch.nn.Module):
    def forward(self):
        return intercept.answering.get()


class Wide(Layer):
    def forward(self):
        return "wide", super().forward()


def answers():
    return intercept.answering.get()


@functools.wraps(answers)
def twice():
    return answers(), answers()


@pytest.mark.parametrize("returned", [Layer, answers, len])
def test_what_an_op_returns_to_be_called_is_wrapped_once(gpu, walks, returned):
    """A class stays one class, and a factory that is asked at every step costs no walk over all modules."""
    factory = returning(returned)
    first, second = factory(), factory()
    assert first is second is not returned
    assert returning(first)() is first
    assert walks == []


@pytest.mark.parametrize("returned", [Layer, answers])
def test_what_a_module_holds_is_kept_wrapped_though_nobody_else_keeps_it(gpu, walks, returned):
    factory = returning(returned)
    wrapped = weakref.ref(factory())
    gc.collect()
    assert wrapped() is factory()


def test_what_is_wrapped_is_answered_and_nothing_else(gpu, walks):
    function, decorated = returning(answers)(), returning(twice)()
    assert (function(), decorated()) == (gpu, (gpu, gpu))  # a decorated function has the attributes of what it wraps
    layer, wide = returning(Layer)(), returning(Wide)()
    assert (layer()(), wide()()) == (gpu, ("wide", gpu))
    assert issubclass(layer, Layer)
    assert issubclass(wide, Layer)
    assert (layer.__name__, layer.__module__) == ("Layer", Layer.__module__)
    assert (answers(), Layer()()) == (None, None)
    module, tensor = Layer(), torch.zeros(1)
    assert [returning(plain)() is plain for plain in (module, tensor, 3)] == [True] * 3


def test_bound_methods_keep_their_objects(gpu, walks):
    class Op:
        def __init__(self, name):
            self.name = name

        def call(self):
            return self.name

    assert returning(Op.call)()(Op("a")) == "a"
    assert [returning(Op(name).call)()() for name in "bc"] == ["b", "c"]


def test_a_wrapped_closure_goes_without_a_collection(gpu, walks):
    """It may hold tensors."""

    class Held:
        pass

    gc.collect()
    gc.disable()
    try:
        held = Held()
        seen = weakref.ref(held)
        wrapped = returning(lambda held=held: held)()
        assert wrapped() is held
        del held, wrapped
        assert seen() is None
    finally:
        gc.enable()


def test_modules_that_came_with_a_result_are_looked_through(gpu, walks, monkeypatch):
    monkeypatch.setitem(sys.modules, "came_with_a_factory", type(sys)("came_with_a_factory"))
    returning(lambda: None)()
    assert len(walks) == 1
