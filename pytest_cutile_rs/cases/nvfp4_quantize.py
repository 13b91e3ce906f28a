# SPDX-License-Identifier: MIT
"""Parity of `nvfp4_quantize`: blocks of 16 elements as 4-bit floats with an 8-bit scale each.

From sm_100 on: cuTile Python's front end refuses the 4-bit type for sm_90. Judged: the packed values, the first of two
in the low half of a byte, and the scales in the order that tensor cores read them in: tiles of 128 rows and 4
blocks, in which rows r, r + 32, r + 64 and r + 96 follow each other. Both are bytes and have to be equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import tensor

_OP = "nvfp4_quantize"
_BLOCK = 16
_LARGEST = 6.0
_SMALLEST_SCALE = 2.0**-16
_STEPS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _listed() -> list[Case]:
    shapes = [(128, 64), (128, 128), (256, 256), (1, 64), (127, 64), (130, 80), (200, 16), (512, 1024), (33, 48)]
    found = [case(_OP, dtype, shape, quick=shape == (128, 64)) for shape in shapes for dtype in DTYPES]
    found += cases(_OP, ("bf16",), [(2048, 2048), (2048, 8192)], perf=True)
    found += cases(_OP, DTYPES, [(64, 64)], tag="scaled", params={"s_enc": 448.0}, structural=False)
    found += cases(_OP, ("f16",), [(64, 64)], layout="transposed", structural=False)
    # Nothing smaller: the scale of a block below 6 * 2^-10 is rounded to zero, and 0 / 0 has no 4-bit code.
    kinds = ("constant", "positive", "wide")
    return found + [case(_OP, dtype, (64, 64), data=data, structural=False) for data in kinds for dtype in DTYPES]


class Nvfp4Quantize(FormulaSuite):
    """See the module."""

    name = _OP
    min_arch = "sm_100"
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {dtype: Tolerance(0.0, 0.0, "bytes") for dtype in DTYPES}
    nan_policy = "inputs are finite"
    rounding_policy = "scales and quotients in fp32, then rounded to the nearest, ties to even, and saturated"
    reference_dtype = "float32"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, and the factor of all scales when the case has one."""
        return Call((tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data),), case.kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """In fp32 as the op is defined: half-way cases depend on the rounding before them."""
        return self.formula(case, call)

    def formula(self, case: Case, call: Call) -> Any:
        """The packed values and the scales."""
        import torch

        factor = float(call.kwargs.get("s_enc", 1.0))
        x = call.args[0].to(torch.float32)
        rows, columns = x.shape
        blocks = x.reshape(rows, columns // _BLOCK, _BLOCK)
        scale = (blocks.abs().amax(dim=2) / _LARGEST * factor).clamp(min=_SMALLEST_SCALE, max=448.0)
        rounded = scale.to(torch.float8_e4m3fn)
        wanted = blocks * (torch.tensor(factor) / rounded.to(torch.float32)).unsqueeze(2)
        codes = _nearest(wanted).reshape(rows, columns // 2, 2)
        packed = (codes[..., 0] + 16 * codes[..., 1]).to(torch.uint8)
        tall, wide = -(-rows // 128), -(-columns // 64)
        tiles = torch.zeros((tall * 128, wide * 4), dtype=torch.uint8, device=x.device)
        tiles[:rows, : columns // _BLOCK] = rounded.view(torch.uint8)
        # (tile row, quarter, row in it, tile column, block) -> (tile row, tile column, row, quarter, block)
        swizzled = tiles.view(tall, 4, 32, wide, 4).permute(0, 3, 2, 1, 4).reshape(-1)
        return packed, swizzled

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """Bytes."""
        return "u8"

    def bytes_moved(self, case: Case) -> int:
        """x read, half a byte an element and a byte a block written."""
        count = math.prod(case.shape)
        return count * ITEMSIZE[case.dtype] + count // 2 + count // _BLOCK

    def flops(self, case: Case) -> int:
        """A maximum, a quotient, a conversion per element."""
        return 3 * math.prod(case.shape)


def _nearest(values: Any) -> Any:
    """The 4-bit codes of the nearest representable values; half-way cases go to the even code."""
    import torch

    steps = torch.tensor(_STEPS, dtype=values.dtype, device=values.device)
    middles = (steps[1:] + steps[:-1]) / 2
    size = values.abs().contiguous()
    below = torch.bucketize(size, middles, right=False)  # a value at a middle goes down
    above = torch.bucketize(size, middles, right=True)
    code = torch.where(below % 2 == 0, below, above)
    return code + 8 * torch.signbit(values)


SUITE = Nvfp4Quantize()
