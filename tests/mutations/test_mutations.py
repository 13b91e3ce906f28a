# SPDX-License-Identifier: MIT
"""Thirteen wrong kernels, each caught on the CPU by the check that should, and the right form of each passed by all.

A wrong kernel counts as caught when its run stops with the named kind of fault, or when the comparison with the fp64
reference names the problem: the two halves of a numerics check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")
sys.path.insert(0, str(Path(__file__).parent))

import wrong_kernels as kernels  # noqa: E402

from pytest_cutile_rs.case import Tolerance  # noqa: E402
from pytest_cutile_rs.checks.comparator import compare  # noqa: E402
from pytest_cutile_rs.checks.guard import guarded  # noqa: E402
from tilegym_rs_backend.errors import ToolchainError  # noqa: E402
from tilegym_rs_backend.fresh import uninitialized_memory  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.capture import check_cuda_tile  # noqa: E402
from tilegym_rs_backend.port.execute import execute  # noqa: E402
from tilegym_rs_backend.tile_ir.execute import ExecutionError  # noqa: E402

try:
    check_cuda_tile()
except ToolchainError as error:
    pytest.skip(str(error), allow_module_level=True)

EXACT = Tolerance(0.0, 0.0, "a copy")
F32 = Tolerance(1e-5, 1e-5, "fp32 sums of a few hundred terms")
HALF_ULP = Tolerance(2**-8, 0.0, "one rounding to 8 bits")


@dataclass(frozen=True)
class Mutation:
    """`host(wrong)` launches a kernel and returns output and fp64 reference; `caught_by` is what must say no."""

    name: str
    caught_by: str
    host: Callable[[bool], tuple[Any, Any]]
    tolerance: Tolerance = EXACT


def launch(grid: tuple[int, ...], kernel: Any, *arguments: Any) -> None:
    ct.launch(torch.cuda.current_stream(), grid, kernel, arguments)


def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7)).to(dtype)


def masked(wrong: bool) -> tuple[Any, Any]:
    x = numbers(100)
    out = torch.empty_like(x)
    launch((2,), kernels.masked_copy, out, x, 100, 64, wrong)
    return out, x.double()


def padded(wrong: bool) -> tuple[Any, Any]:
    x = -1 - numbers(4, 50).abs()
    out = torch.empty(4, 1)
    launch((4,), kernels.row_maximum, out, x, 64, wrong)
    return out, x.double().amax(1, keepdim=True)


def bounded(wrong: bool) -> tuple[Any, Any]:
    x = numbers(100)
    out = torch.empty_like(x)
    launch((2,), kernels.shifted_copy, out, x, 100, 64, wrong)
    return out, x.double()


def strided(wrong: bool) -> tuple[Any, Any]:
    x = numbers(16, 16)
    out = torch.empty_like(x)
    launch((1,), kernels.strided_copy, out, x.reshape(-1), 16, 16, 16, wrong)
    return out, x.double()


def accumulated(wrong: bool) -> tuple[Any, Any]:
    a, b = numbers(16, 256, dtype=torch.float16), numbers(256, 16, dtype=torch.float16)
    out = torch.empty(16, 16)
    launch((1,), kernels.product, out, a, b, 16, 16, wrong)
    return out, a.double() @ b.double()


def tailed(wrong: bool) -> tuple[Any, Any]:
    x = numbers(4, 100)
    out = torch.empty(4, 1)
    launch((4,), kernels.row_sum, out, x, 100, 32, wrong)
    return out, x.double().sum(1, keepdim=True)


def scanned(wrong: bool) -> tuple[Any, Any]:
    x = numbers(16, 16)
    out = torch.empty_like(x)
    launch((1,), kernels.running_sum, out, x, 16, wrong)
    return out, x.double().cumsum(1)


def raced(wrong: bool) -> tuple[Any, Any]:
    x = numbers(128)
    out = torch.zeros(1)
    launch((4,), kernels.total, out, x, 32, wrong)
    return out, x.double().sum().reshape(1)


def unsigned(wrong: bool) -> tuple[Any, Any]:
    x = torch.arange(120, 248, dtype=torch.uint8)
    out = torch.empty(128)
    launch((1,), kernels.halved, out, x, 128, wrong)
    return out, x.double() / 2


def aligned(wrong: bool) -> tuple[Any, Any]:
    x = numbers(100)
    out = torch.empty_like(x)
    launch((2,), kernels.aligned_copy, out, x, 100, 64, wrong)
    return out, x.double()


def swallowed(wrong: bool) -> tuple[Any, Any]:
    x = numbers(64)
    x[5] = float("nan")
    out = torch.empty_like(x)
    launch((1,), kernels.clamped, out, x, 64, wrong)
    return out, x.double().relu()


def rounded(wrong: bool) -> tuple[Any, Any]:
    x = numbers(256)
    out = torch.empty(256, dtype=torch.bfloat16)
    launch((1,), kernels.narrowed, out, x, 256, wrong)
    return out, x.double()


def ordered(wrong: bool) -> tuple[Any, Any]:
    x = numbers(64)
    out, scratch = torch.empty_like(x), torch.zeros_like(x)
    again = scratch if wrong else 2 * x
    launch((1,), kernels.through_memory, out, scratch, again, x, 64)
    return out, 2 * x.double()


MUTATIONS = [
    Mutation("dropped mask", "out-of-bounds", masked),
    Mutation("wrong padding", "error above", padded),
    Mutation("off-by-one bound", "out-of-bounds", bounded),
    Mutation("swapped strides", "error above", strided),
    Mutation("bf16 accumulator", "error above", accumulated, F32),
    Mutation("missing tail", "error above", tailed, F32),
    Mutation("scan on the wrong axis", "error above", scanned, F32),
    Mutation("racing stores", "race", raced, F32),
    Mutation("unsigned taken as signed", "error above", unsigned),
    Mutation("false alignment claim", "assume", aligned),
    Mutation("NaN swallowed by max", "NaN", swallowed),
    Mutation("wrong rounding", "error above", rounded, HALF_ULP),
    Mutation("load unordered after its store", "unordered", ordered),
]


def verdict(mutation: Mutation, wrong: bool) -> str:
    """What an executed numerics check says of one form: empty when it passes."""
    results: list[tuple[Any, Any]] = []
    try:
        with guarded() as bands, uninitialized_memory():
            capture(lambda: results.append(mutation.host(wrong)), device="cpu", carry_out=execute)
    except ExecutionError as error:
        return error.kind
    [(got, want)] = results
    return "\n".join([*compare(got, want, mutation.tolerance).problems, *bands.broken()])


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name.replace(" ", "-"))
def test_the_wrong_form_is_caught_and_the_right_one_is_not(mutation: Mutation) -> None:
    assert verdict(mutation, wrong=False) == ""
    assert mutation.caught_by in verdict(mutation, wrong=True)


def test_there_are_thirteen_and_each_is_wrong_in_its_own_way() -> None:
    assert len({each.name for each in MUTATIONS}) == len({each.host for each in MUTATIONS}) == 13
