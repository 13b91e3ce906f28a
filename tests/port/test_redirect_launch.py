# SPDX-License-Identifier: MIT
"""A redirected launch: which plan it finds, what it is given, and how little Python lies in between."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

from tilegym_rs_backend.port import intercept  # noqa: E402
from tilegym_rs_backend.port import redirect as module  # noqa: E402

MOST_CALLS = 4
"""Python functions per known launch: the one in ct.launch's place, Redirect.launch, the plan's, and one to spare."""


@ct.kernel(occupancy=2)
def kernel(out, x, n: int, eps: float, BLOCK: ct.Constant[int]):
    pass


class Kernels:
    """Plans that note what they are called with."""

    def __init__(self) -> None:
        self.planned: list[object] = []
        self.launched: list[tuple[object, tuple[int, ...]]] = []

    def bound(self, launch, target):
        self.planned.append(launch)
        return (lambda *pointers: self.launched.append((launch, pointers))), (1, 0)


@pytest.fixture
def kernels(monkeypatch):
    monkeypatch.setattr(module, "target_of_device", lambda index: SimpleNamespace(arch="sm_90"))
    return Kernels()


def launch(redirect, *, grid=(4, 1, 1), which=kernel, n=3, eps=0.5, rows=4, offset=0, dtype=torch.float32):
    x = torch.zeros(rows * 8 + offset, dtype=dtype)[offset:].view(rows, 8)
    out = torch.empty_like(x)
    redirect.launch(None, grid, which, (out, x, n, eps, 64))
    return x.data_ptr(), out.data_ptr()


def test_a_known_launch_is_given_its_own_addresses(kernels):
    redirect = module.Redirect(kernels)
    addresses = [launch(redirect) for _ in range(3)]
    assert len(kernels.planned) == 1
    assert [pointers for _, pointers in kernels.launched] == addresses


@pytest.mark.parametrize(
    "other",
    [
        {"grid": (5, 1, 1)},
        {"grid": (4,)},
        {"n": 4},
        {"n": 3.0},
        {"n": True},
        {"eps": 0.25},
        {"rows": 5},
        {"offset": 1},
        {"dtype": torch.float16},
        {"which": kernel.replace_hints(occupancy=4)},
    ],
    ids=lambda other: next(iter(other)) + ("" if "which" in other else f"={next(iter(other.values()))}"),
)
def test_what_decides_a_plan_is_in_its_key(kernels, other):
    redirect = module.Redirect(kernels)
    launch(redirect, n=1 if other.get("n") is True else 3)
    launch(redirect, **other)
    assert len(kernels.planned) == 2


def test_a_kernel_that_is_made_for_each_call_finds_its_plan(kernels):
    redirect = module.Redirect(kernels)
    for _ in range(3):
        launch(redirect, which=kernel.replace_hints(occupancy=4))
    assert len(kernels.planned) == 1


def test_lists_go_as_tables_that_live_until_the_launch(kernels):
    @ct.kernel
    def adds(xs, out, n: int, eps: float, BLOCK: ct.Constant[int]):
        pass

    redirect = module.Redirect(kernels)
    seen = []
    kernels.bound = lambda *_: ((lambda out, table: seen.append(read_words(table, 10))), (1, 0))
    tensors, out = [torch.zeros(2, 8), torch.zeros(3, 8)], torch.zeros(8)
    redirect.launch(None, (1,), adds, (tensors, out, 3, 0.5, 64))
    assert seen == [[word for t in tensors for word in (t.data_ptr(), *t.shape, *t.stride())]]


def read_words(address, count):
    import ctypes

    return list((ctypes.c_int64 * count).from_address(address))


def test_little_python_lies_between_an_op_and_its_plan(kernels):
    redirect = module.Redirect(kernels)
    intercept.install()
    x, out = torch.zeros(4, 8), torch.zeros(4, 8)
    entered = []

    def op():
        ct.launch(None, (4, 1, 1), kernel, (out, x, 3, 0.5, 64))
        sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
        try:
            ct.launch(None, (4, 1, 1), kernel, (out, x, 3, 0.5, 64))
        finally:
            sys.setprofile(None)

    intercept.answered(redirect, op, (), {})
    assert len(kernels.launched) == 2
    assert len(entered) <= MOST_CALLS, entered
