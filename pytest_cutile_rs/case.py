# SPDX-License-Identifier: MIT
"""What a parity case is: data about one call of one op, without importing torch."""

from __future__ import annotations

import importlib
import zlib
from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import ClassVar

CHECKS = ("numerics", "ir", "sass", "perf")
DTYPES = ("f32", "f16", "bf16")
"""What most ops take."""
TORCH_DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
}
"""Every dtype a case may have, by its short name."""
ITEMSIZE = {"f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i32": 4, "i64": 8, "u8": 1}


@dataclass(frozen=True)
class Case:
    """One call of one op.

    Attributes:
        op: TileGym's name of the op.
        id: unique within the op and the same on every machine.
        dtype: of the inputs that the op is about, a key of ``TORCH_DTYPES``.
        shape: in the op's own notion (matmul: M, N, K).
        params: keyword arguments of the op, as pairs.
        layout: how the inputs lie in memory; the op's case file interprets it.
        perf: whether a perf item exists for it.
        quick: whether it belongs to ``--cutile-rs-quick``.
        data: what the inputs hold (``"randn"``, ``"nan"``, ``"overflow"`` ...).
        raises: a regular expression; the op must refuse the call with a text that matches.
        structural: whether Tile IR and machine code are compared too. A case that differs from another in its data
            alone is not: it would compile the same kernel again.
        no_information_ok: an all-NaN reference is what this case is about.
    """

    op: str
    id: str
    dtype: str
    shape: tuple[int, ...]
    params: tuple[tuple[str, object], ...] = ()
    layout: str = "contiguous"
    perf: bool = False
    quick: bool = False
    data: str = "randn"
    raises: str = ""
    structural: bool = True
    no_information_ok: bool = False

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks this case takes part in, in their fixed order."""
        wanted = {"numerics": True, "ir": self.structural, "sass": self.structural, "perf": self.perf}
        return tuple(check for check in CHECKS if wanted[check] and not (self.raises and check != "numerics"))

    @property
    def kwargs(self) -> dict[str, object]:
        """The op's keyword arguments."""
        return dict(self.params)

    def seed(self, run_seed: int) -> int:
        """A seed of this case's own, so that its inputs do not depend on which other cases ran."""
        return (run_seed * 1_000_003 + zlib.crc32(f"{self.op}[{self.id}]".encode())) & 0x7FFF_FFFF


@dataclass(frozen=True)
class Call:
    """Arguments of one call; tensors lie on the device they were asked for."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tolerance:
    """``|got - want| <= atol + rtol * |want|``, and why these two numbers."""

    rtol: float
    atol: float
    why: str


class OpSuite(ABC):
    """All that is known of one op's parity: its cases, inputs, reference and tolerances.

    A file ``cases/<op>.py`` holds one instance under the name ``SUITE``; it must import without torch.

    Attributes:
        name: TileGym's name of the op.
        cases: what is compared.
        tolerance: by dtype.
        nan_policy, rounding_policy: in words, for a failure's report.
        reference_dtype: what the reference is computed in.
        in_place: positions and names of arguments that the op writes to; every other tensor must come out as it was.
        module: where TileGym keeps the public function.
        min_arch: the first architecture that has the op, empty when all have it.
        bit_equal: both sides are one kernel in two languages: results have to be equal bit for bit.
        recorded_on: where the arguments of a call lie whose launches are only noted: ``"meta"`` for an op that computes
            with torch besides, which would take minutes on a CPU; addresses do not count there.
        native: ``call`` with backend ``"cutile_rs"`` launches Rust kernels of its own, such as those of a user's crate
            (docs/own_crate.md); otherwise the registration says what kind of kernels the op has.
    """

    name: str
    cases: tuple[Case, ...]
    tolerance: ClassVar[Mapping[str, Tolerance]]
    nan_policy: str
    rounding_policy: str
    reference_dtype: str = "float64"
    in_place: ClassVar[tuple[int | str, ...]] = ()
    module: ClassVar[str] = "tilegym.ops"
    min_arch: ClassVar[str] = ""
    bit_equal: ClassVar[bool] = False
    recorded_on: ClassVar[str] = "cpu"
    native: ClassVar[bool] = False

    @abstractmethod
    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """Arguments of the case on ``device`` (``"cuda"``, ``"cpu"``, ``"meta"``), the same for the same seed."""

    @abstractmethod
    def reference(self, case: Case, call: Call) -> Any:
        """The right answer in ``reference_dtype``, on the device of the inputs: one tensor, or one per output."""

    @abstractmethod
    def torch(self, case: Case, call: Call) -> Any:
        """What a user of plain PyTorch would run instead, in the case's dtype; timed beside both sides."""

    @abstractmethod
    def bytes_moved(self, case: Case) -> int:
        """Bytes that have to cross device memory at least once."""

    @abstractmethod
    def flops(self, case: Case) -> int:
        """Floating-point operations of the call."""

    def calls_torch(self, case: Case) -> bool:
        """Whether torch does a part of the op on one side at least: a product, a sum, a concatenation.

        Its kernels and copies are then measured with the op's own, on either side.
        """
        return False

    def arch_for(self, arch: str) -> str:
        """The architecture to compile for when ``arch`` is asked for: that, or ``min_arch`` where it is later."""
        return max(arch, self.min_arch, key=lambda name: int(name.removeprefix("sm_") or 0))

    def call(self, call: Call, backend: str | None = None) -> Any:
        """Runs the op through TileGym's public function; ``backend`` overrides the one that is set."""
        op = getattr(importlib.import_module(self.module), self.name, None)
        if op is None:
            raise AttributeError(f"{self.module} has no {self.name}; the suite's `module` says where TileGym has it")
        if backend is None:
            return op(*call.args, **call.kwargs)
        return op(*call.args, backend=backend, **call.kwargs)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The tensors to judge, in ``reference``'s order; the result's first unless an op knows better.

        An op that works in place or returns extras says here what counts.
        """
        return (result[0] if isinstance(result, (tuple, list)) else result,)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The dtype an output must have, a key of ``TORCH_DTYPES``."""
        return case.dtype

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The tolerance of one output of a case; by dtype unless an op knows better."""
        return self.tolerance[case.dtype]
