# SPDX-License-Identifier: MIT
"""Parity of the functions that `get_apply_rope_func` returns, one per model.

The shape is (batch, query heads, key heads, length, head dimension). llama, qwen2, gemma3 and gpt-oss share
`apply_rope_base`, which works in place; qwen3_5 rotates a quarter of the head; deepseek takes one complex table and
pairs neighbours instead of halves: its results come out with the even elements first, and its inputs stay.
"""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._rope import TOLERANCES
from pytest_cutile_rs.cases._rope import rotated
from pytest_cutile_rs.cases._rope import tables
from pytest_cutile_rs.cases._tensors import tensor

_OP = "get_apply_rope_func"
_MODELS = ("llama", "qwen2", "gemma3", "gpt-oss", "qwen3_5", "deepseek")
_FACTORS = {"qwen3_5": 0.25}


def _listed() -> list[Case]:
    shapes = [(2, 8, 2, 16, 64), (1, 3, 1, 1, 128), (2, 5, 5, 33, 32), (1, 1, 1, 1, 16)]
    found = [
        case(
            _OP,
            dtype,
            shape,
            tag=model.replace("_", ""),
            params={"model": model},
            quick=(dtype, shape) == ("f16", shapes[0]) and model in ("llama", "qwen3_5", "deepseek"),
            structural=shape == shapes[0],
        )
        for shape in shapes
        for model in _MODELS
        for dtype in DTYPES
    ]
    timed = [
        case(_OP, "f16", (8, 32, 8, 4096, 128), tag=model, params={"model": model}, perf=True) for model in _MODELS[:1]
    ]
    found += [case(_OP, "f32", (0, 8, 2, 16, 64), tag="llama", params={"model": "llama"}, structural=False)]
    nobody = case(
        _OP,
        "f16",
        (1, 1, 1, 1, 16),
        tag="gpt2",
        params={"model": "gpt2"},
        raises="get_apply_rope_func: unsupported model 'gpt2'",
        structural=False,
    )
    return [*found, nobody, *timed]


class GetApplyRopeFunc(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    in_place = (0, 1)
    tolerance = TOLERANCES
    nan_policy = "apply_rope_base's"
    rounding_policy = "apply_rope_base's; deepseek's tables are fp32, so that it computes in fp32"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, cosines and sines, or one complex table; the model goes to the factory."""
        batch, queries, keys, length, width = case.shape
        model = str(case.kwargs["model"])
        q, k = (
            tensor((batch, heads, length, width), case.dtype, device, seed + n, data=case.data)
            for n, heads in enumerate((queries, keys))
        )
        rotary = int(width * _FACTORS.get(model, 1.0))
        empty = case.data == "empty"
        if model != "deepseek":
            return Call((q, k, *tables(1, length, rotary, case.dtype, device, empty=empty)), {"model": model})
        import torch

        cos, sin = tables(1, length, width, "f32", device, empty=empty)
        return Call((q, k, torch.complex(cos[..., : width // 2], sin[..., : width // 2])), {"model": model})

    def formula(self, case: Case, call: Call) -> Any:
        """Both rotated."""
        q, k, *table = call.args
        if case.kwargs["model"] != "deepseek":
            return rotated(q, *table), rotated(k, *table)
        return tuple(_paired(one, table[0]) for one in (q, k))

    def invoke(self, call: Call, backend: str | None) -> Any:
        """Calls the model's function."""
        return super().invoke(Call((), call.kwargs), backend)(*call.args)

    def bytes_moved(self, case: Case) -> int:
        """q and k read and written; deepseek reorders both before."""
        batch, queries, keys, length, width = case.shape
        runs = 4 if case.kwargs["model"] == "deepseek" else 2
        return runs * batch * (queries + keys) * length * width * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Two products and a sum per element."""
        batch, queries, keys, length, width = case.shape
        return 3 * batch * (queries + keys) * length * width


def _paired(x: Any, table: Any) -> Any:
    """Neighbours as complex numbers times the table; real parts first, then imaginary ones."""
    import torch

    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = table.real.unsqueeze(1), table.imag.unsqueeze(1)
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1)


SUITE = GetApplyRopeFunc()
