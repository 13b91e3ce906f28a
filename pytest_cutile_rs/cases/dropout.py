# SPDX-License-Identifier: MIT
"""Parity of `dropout`, forward only; any shape and strides (TileGym asserts a contiguous tensor).

The mask is part of the contract: a hash of each element's index and the seed, so that both sides drop the same
elements. Every case judges the input afterwards too: written when in place, untouched otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._elementwise import bytes_per_element
from pytest_cutile_rs.cases._elementwise import data_cases
from pytest_cutile_rs.cases._elementwise import dtype_case
from pytest_cutile_rs.cases._elementwise import layout_cases
from pytest_cutile_rs.cases._elementwise import of_its_kind
from pytest_cutile_rs.cases._elementwise import offset_cases
from pytest_cutile_rs.cases._elementwise import size_cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import tensor

if TYPE_CHECKING:
    import torch

_OP = "dropout"
_SEED = "seed"


def _params(p: float, seed: int = 11, **more: object) -> dict[str, object]:
    return {_SEED: seed, "p": p, **more}


def _tilegym() -> list[Case]:
    found = [
        case(_OP, dtype, (n,), tag=f"p{p}", params=_params(p), quick=(dtype, n) == ("f16", 4096))
        for n, p in ((1024, 0.2), (4096, 0.4), (65536, 0.8))
        for dtype in ("f32", "f16")
    ]
    found += [case(_OP, dtype, (4096,), tag="inplace", params=_params(0.4, inplace=True)) for dtype in ("f32", "f16")]
    found += [
        case(_OP, dtype, (4096,), tag="eval", params=_params(0.4, training=False), structural=False)
        for dtype in ("f32", "f16")
    ]
    return found


def _timed() -> list[Case]:
    return [
        case(_OP, dtype, (n,), tag="inplace" if inplace else "", params=_params(0.5, inplace=inplace), perf=True)
        for n in (1 << 20, 1 << 22, 1 << 24, 1 << 26)
        for inplace in (False, True)
        for dtype in ("f32", "f16")
    ]


def _more() -> list[Case]:
    half = _params(0.5)
    found = size_cases(_OP, params=half) + offset_cases(_OP, params=half)
    found += [
        case(_OP, dtype, (7, 333), tag=f"seed{seed}", params=_params(0.3, seed), structural=False)
        for seed in (0, -5, 2**31 - 1, 2**40 + 1)
        for dtype in ("f32", "f16")
    ]
    found += [
        case(_OP, dtype, (7, 333), tag=f"p{p}", params=_params(p), structural=False, quick=(dtype, p) == ("bf16", 1.0))
        for p in (0.0, 1.0)
        for dtype in DTYPES
    ]
    found += cases(_OP, DTYPES, [(7, 333)], tag="inplace", params=_params(0.3, inplace=True), structural=False)
    found += layout_cases(_OP, params=half)
    found += [
        case(_OP, "f16", (64, 500), tag="inplace", layout=layout, params=_params(0.3, inplace=True), structural=False)
        for layout in ("transposed", "strided", "offset")
    ]
    found.append(dtype_case(_OP, params=half))
    return found + data_cases(_OP, ("nan", "inf", "overflow", "tiny"), params=half)


class Dropout(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_more()])
    in_place = (0,)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(
            2e-7, 1e-37, "1 / (1 - p) and the product are rounded to 24 bits; atol for results below normal"
        ),
        "f16": Tolerance(
            1e-3, 1e-7, "1 / (1 - p) and the product are rounded to 11 bits; atol for results below normal"
        ),
        "bf16": Tolerance(
            8e-3, 1e-37, "1 / (1 - p) and the product are rounded to 8 bits; atol for results below normal"
        ),
    }
    nan_policy = "NaN and inf are kept or dropped like any other value"
    rounding_policy = "the scale is rounded to the storage dtype, and so is its product with x"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, the seed and the other arguments."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        kwargs: dict[str, Any] = case.kwargs
        return Call((of_its_kind(case, x), kwargs.pop(_SEED)), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """Kept elements times 1 / (1 - p), zero elsewhere; and x as it is afterwards."""
        import torch

        x, seed = call.args
        kwargs = call.kwargs
        if not kwargs.get("training", True):
            return x.clone(), x.clone()
        p = float(kwargs["p"])
        scaled = x * (1.0 / (1.0 - p)) if p < 1.0 else torch.zeros_like(x)
        result = torch.where(kept(x.numel(), seed, p, x.device).view(x.shape), scaled, torch.zeros_like(x))
        return result, (result if kwargs.get("inplace") else x.clone())

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The result, and x as it is afterwards."""
        return (result, call.args[0])

    def torch(self, case: Case, call: Call) -> Any:
        """`torch.nn.functional.dropout`, whose mask is another."""
        import torch

        kwargs = call.kwargs
        return torch.nn.functional.dropout(
            call.args[0], kwargs["p"], kwargs.get("training", True), kwargs.get("inplace", False)
        )

    def bytes_moved(self, case: Case) -> int:
        """One read and one write."""
        return bytes_per_element(case, 1, 1)

    def flops(self, case: Case) -> int:
        """A dozen integer and floating-point operations per element."""
        return 12 * math.prod(case.shape)


def kept(n: int, seed: int, p: float, device: torch.device) -> torch.Tensor:
    """Which of ``n`` elements survive: the op's hash, in 32-bit two's complement, as a fraction above p."""
    import torch

    def wrapped(value: torch.Tensor) -> torch.Tensor:
        return (value + 2**31) % 2**32 - 2**31

    # The seed is spread by the golden ratio first; then a multiplicative hash of the index and three xor-shifts.
    start = (seed * 0x9E3779B1) % 2**32
    mixed = wrapped(torch.arange(n, dtype=torch.int64, device=device) * 1103515245 + start)
    mixed = mixed ^ (mixed >> 16)
    mixed = mixed ^ wrapped(mixed << 8)
    mixed = mixed ^ (mixed >> 4)
    fraction = (mixed & 0x7FFFFFFF).to(torch.float32) / 2.0**31
    return fraction > torch.tensor(p, dtype=torch.float32, device=device)


SUITE = Dropout()
