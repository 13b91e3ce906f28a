# SPDX-License-Identifier: MIT
"""Parity of `mamba2_chunk_forward`; the shape is (batch, tokens, heads, groups, P, N). See `_ssd`.

Outputs are the result and the last state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._ssd import SsdSuite
from pytest_cutile_rs.cases._ssd import ssd_case

_OP = "mamba2_chunk_forward"


def _case(dtype: str, *shape: int, chunk: int = 64, **more: Any) -> Case:
    return ssd_case(_OP, dtype, shape, chunk, **more)


def _all() -> list[Case]:
    """TileGym has no test of it: these are ours."""
    return [
        _case("bf16", 1, 64, 4, 1, 64, 64, quick=True),
        _case("bf16", 1, 128, 4, 2, 64, 128),
        _case("f16", 2, 192, 4, 1, 64, 64),
        _case("f16", 1, 128, 4, 4, 128, 64, chunk=128),
        _case("bf16", 1, 96, 8, 2, 32, 32, chunk=32, quick=True),
        _case("bf16", 1, 64, 4, 1, 64, 128, chunk=16, structural=False),
        _case("f16", 1, 256, 8, 1, 64, 128, structural=False),
    ] + [
        _case(dtype, batch, tokens, 64, 8, 64, 128, perf=True, structural=False)
        for dtype in ("bf16", "f16")
        for batch, tokens in ((1, 2048), (8, 2048), (1, 8192))
    ]


class Mamba2ChunkForward(SsdSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(2e-3, 4e-3, "operands of products and states between chunks rounded to 11 bits"),
        "bf16": Tolerance(1e-2, 3e-2, "operands of products and states between chunks rounded to 8 bits"),
    }

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, a, b, c, d, dt, first state."""
        return Call(self.operands(case, device, seed), case.kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        import torch

        return self.exact(case)(*(operand.to(torch.float64) for operand in call.args))

    def torch(self, case: Case, call: Call) -> Any:
        """Products over chunks in fp32."""
        found, state = self.chunked(case, *call.args)
        return found.to(call.args[0].dtype), state

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The result and the last state."""
        return tuple(result)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The state is f32."""
        return "f32" if output else case.dtype


SUITE = Mamba2ChunkForward()
