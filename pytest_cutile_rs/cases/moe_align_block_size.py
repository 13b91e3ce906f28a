# SPDX-License-Identifier: MIT
"""Parity of `moe_align_block_size`: tokens sorted by expert, each expert's padded to whole blocks.

The shape is (tokens, experts per token, experts, block size); the dtype is that of the expert ids. Judged: the sorted
token ids, each block's expert as far as there are blocks, their tokens, the experts' offsets, the largest count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import integers

_OP = "moe_align_block_size"
_DTYPES = ("i32", "i64")


def _listed() -> list[Case]:
    """The first three and the timed ones are those of TileGym's tests of fused_moe."""
    shapes = [(16, 2, 8, 128), (32, 4, 16, 128), (64, 8, 20, 128)]
    found = [case(_OP, dtype, shape, quick=shape[0] == 16) for shape in shapes for dtype in _DTYPES]
    timed = [(64, 2, 8, 128), (128, 4, 16, 128), (256, 6, 32, 128), (512, 6, 64, 128), (16384, 8, 128, 64)]
    found += cases(_OP, ("i32",), timed, tag="timed", perf=True)
    odd = [
        (1, 1, 1, 1),
        (1, 1, 8, 16),
        (5, 1, 3, 4),
        (300, 2, 7, 16),
        (1000, 3, 64, 32),
        (129, 2, 200, 8),
        (40, 2, 5, 7),
    ]
    found += [case(_OP, dtype, shape, quick=(dtype, shape[0]) == ("i64", 5)) for shape in odd for dtype in _DTYPES]
    return found + [
        case(_OP, dtype, (70, 2, 8, 16), data=data, structural=False)
        for data in ("one-expert", "last-expert", "ascending", "strided")
        for dtype in _DTYPES
    ]


class MoeAlignBlockSize(FormulaSuite):
    """See the module."""

    name = _OP
    module = "tilegym.ops.moe_interface"
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {dtype: Tolerance(0.0, 0.0, "integers") for dtype in _DTYPES}
    nan_policy = "none: integers"
    rounding_policy = "none: integers"
    reference_dtype = "int64"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """The ids of each token's experts, the block size, the number of experts."""
        tokens, each, experts, block = case.shape
        low, high = {"one-expert": (3, 4), "last-expert": (experts - 1, experts)}.get(case.data, (0, experts))
        ids = integers((tokens, 2 * each if case.data == "strided" else each), case.dtype, device, seed, low, high)
        if case.data == "strided":
            ids = ids[:, ::2]
        if case.data == "ascending" and device != "meta":
            ids = ids.view(-1).sort().values.view(tokens, each)
        return Call((ids, block, experts))

    def formula(self, case: Case, call: Call) -> Any:
        """Counts, their padded sums, and the tokens in order of expert and then of index."""
        import torch

        ids, block, experts = call.args
        flat = ids.reshape(-1).to(torch.int64)
        counts = torch.bincount(flat, minlength=experts)
        blocks = (counts + block - 1) // block
        ends = blocks.cumsum(0) * block
        offsets = torch.cat((ends.new_zeros(1), ends))
        order = torch.argsort(flat, stable=True)
        rank = torch.arange(flat.numel(), device=flat.device) - (counts.cumsum(0) - counts)[flat[order]]
        tokens = flat.new_full((flat.numel() + experts * (block - 1),), flat.numel())
        tokens[offsets[flat[order]] + rank] = order
        owners = torch.repeat_interleave(torch.arange(experts, device=flat.device), blocks)
        return tokens, owners, offsets[-1:], offsets, counts.max().view(1)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The experts of blocks beyond the last used one are not defined."""
        tokens, owners, total, offsets, largest = result
        return tokens, owners[: int(total) // case.shape[3]], total, offsets, largest

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """int32 whatever the ids."""
        return "i32"

    def bytes_moved(self, case: Case) -> int:
        """The ids read twice, the sorted tokens written."""
        tokens, each, experts, block = case.shape
        return tokens * each * 2 * ITEMSIZE[case.dtype] + (tokens * each + experts * block) * 4

    def flops(self, case: Case) -> int:
        """None; TileGym compares each id with each expert."""
        tokens, each, experts, _ = case.shape
        return tokens * each * experts


SUITE = MoeAlignBlockSize()
