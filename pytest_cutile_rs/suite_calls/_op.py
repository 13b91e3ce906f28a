# SPDX-License-Identifier: MIT
"""An op of a suite and the rows that call it. Imports no torch until inputs are built."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._tensors import fill
from pytest_cutile_rs.cases._tensors import integers

HALF = ("f16", "bf16")
FLOATS = ("f16", "bf16", "f32")


@dataclass(frozen=True)
class Make:
    """Makes the tensors of one call.

    Attributes:
        device: ``"cpu"``, ``"meta"`` or ``"cuda"``.
        dtype: of tensors that name none, a key of ``TORCH_DTYPES``.
        empty: leave floating-point tensors uninitialised.
        seed: of the data; every tensor of a call gets the next one.
    """

    device: str
    dtype: str
    empty: bool
    seed: int
    _made: list[int] = field(default_factory=list)

    def __call__(self, *shape: int, dtype: str = "", grad: bool = False, data: str = "randn") -> Any:
        """A tensor of this shape; ``grad``: a gradient is wanted, so the op's backward runs too."""
        import torch

        made = torch.empty(shape, dtype=getattr(torch, TORCH_DTYPES[dtype or self.dtype]), device=self.device)
        if not self.empty and self.device != "meta":
            fill(made, data, self._next())
        return made.requires_grad_(grad)

    def below(self, limit: int, *shape: int, dtype: str = "i64") -> Any:
        """Integers of [0, limit)."""
        return integers(shape, dtype, self.device, self._next(), 0, limit)

    def of(self, values: Sequence[Any], dtype: str = "i32") -> Any:
        """A tensor of these values."""
        import torch

        return torch.tensor(values, dtype=getattr(torch, TORCH_DTYPES[dtype]), device=self.device)

    def _next(self) -> int:
        self._made.append(1)
        return self.seed + len(self._made)


@dataclass(frozen=True)
class Row:
    """One call of one op.

    Attributes:
        op: the dispatcher's name.
        tag: what makes this row another than the op's other rows; part of the case's id.
        build: the arguments.
        dtypes: it is made for each.
    """

    op: str
    tag: str
    build: Callable[[Make], Call]
    dtypes: tuple[str, ...] = FLOATS


def call(*args: Any, **kwargs: Any) -> Call:
    """Spell a call like the call it stands for."""
    return Call(args, kwargs)


class SuiteOp:
    """What porting needs to know of an op: an `OpSuite` without a reference.

    Attributes:
        name: the dispatcher's name, ``"flashinfer.gemm.masked_bmm"``.
        cases: one per row and dtype, the first dtype of every row first.
    """

    tolerance: Mapping[str, Tolerance] = {}

    def __init__(self, name: str, rows: tuple[Row, ...]) -> None:
        self.name = name
        self._rows = {row.tag: row for row in rows}
        assert len(self._rows) == len(rows), f"{name}: two rows of one tag"
        self.cases = tuple(
            Case(name, f"{dtype}-{row.tag}", dtype, (1,), params=(("row", row.tag),))
            for place in range(max(len(row.dtypes) for row in rows))
            for row in rows
            for dtype in row.dtypes[place : place + 1]
        )

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """See `OpSuite.inputs`."""
        row = self._rows[str(case.kwargs["row"])]
        return row.build(Make(device, case.dtype, case.data == "empty", seed))

    def call(self, call: Call, backend: str | None = None) -> Any:
        """Run the op through TileGym's public function, and its backward where a gradient is wanted."""
        suite, _, op = self.name.partition(".")
        importlib.import_module(f"tilegym.suites.{suite}")
        function = getattr(importlib.import_module(f"tilegym.suites.{suite}.ops"), op.rpartition(".")[2])
        result = function(*call.args, **call.kwargs, **({"backend": backend} if backend else {}))
        outputs = [each for each in _tensors(result) if each.requires_grad]
        if outputs:
            import torch

            torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
        return result

    def arch_for(self, arch: str) -> str:
        """See `OpSuite.arch_for`: every architecture has these ops."""
        return arch

    def bytes_moved(self, case: Case) -> int:
        """Bytes of the inputs."""
        made = self.inputs(case, "meta", 0)
        return sum(each.numel() * each.element_size() for each in _tensors([*made.args, *made.kwargs.values()]))

    def flops(self, case: Case) -> int:
        """Not known of these ops; the rows are small enough for a CPU."""
        return 0


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "data_ptr"):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
