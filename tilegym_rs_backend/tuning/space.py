# SPDX-License-Identifier: MIT
"""Search spaces: what can be chosen of a kernel, declared as data beside the op that launches it.

A space names the axes and their values, the rules a candidate must keep, the default of each architecture, the launch
that a configuration means for a problem, and the work that launch does. Nothing here touches a GPU or compiles.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import Generic
from typing import TypeVar

from ..errors import TilegymRsError
from ..launch import HINTS
from .machine import Machine

if TYPE_CHECKING:
    from ..launch import Grid
    from ..library import Library
    from ..target import Target
    from ..tensors import TensorMeta

Value = int | str | bool
P = TypeVar("P")
C = TypeVar("C")
P_contra = TypeVar("P_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)


@dataclass(frozen=True)
class Launch:
    """A launch complete but for its addresses.

    Attributes:
        kernel: the entry's name.
        grid: tile blocks per axis.
        args: the entry's parameters in order, by name; tensors as `TensorMeta`. The first tensor is the result.
        options: constants and hints by name, as `launch.bind` takes them.
    """

    kernel: str
    grid: Grid
    args: Mapping[str, TensorMeta | int | float | bool]
    options: Mapping[str, int]

    def identity(self) -> tuple[Any, ...]:
        """Return what two equal launches have in common, hashable."""
        return self.kernel, self.grid, tuple(self.args.items()), tuple(self.options.items())

    def bind(self, library: Library, target: Target) -> Callable[..., None]:
        """Specialize, load and plan it; see `launch.bind`."""
        from ..launch import bind

        return bind(library, target, self.kernel, self.grid, *self.args.values(), **self.options)


@dataclass(frozen=True)
class Work:
    """What a launch does, counted: the input of the model that ranks (`model.py`).

    Attributes:
        tiles: pieces of the result computed independently of one another.
        steps: passes of the inner loop per tile, the average where they differ.
        mma: (M, N, K) of each product of tiles in one step; empty where there is none.
        mma_type: operand type of the products: ``"tf32"``, ``"f16"`` (bf16 too), ``"f8"``, or ``""``.
        step_bytes: what one step loads; tile_bytes: what a tile loads or stores besides its steps.
        step_ops: f32 operations per step outside of tensor cores; an exponential counts as 8.
        least_bytes: each input read once and each result written once, of the whole launch.
        persistent: blocks walk over several tiles, so that the start of one overlaps the end of another.
        stages: steps whose loads are in flight at a time where the kernel or a latency hint says so, else 0.
    """

    tiles: int
    steps: float
    step_bytes: int
    least_bytes: int
    tile_bytes: int = 0
    mma: tuple[tuple[int, int, int], ...] = ()
    mma_type: str = ""
    step_ops: float = 0.0
    persistent: bool = False
    stages: int = 0


@dataclass(frozen=True)
class Rule(Generic[P_contra, C_contra]):
    """A constraint. `why` is the reason given for a candidate of which `holds` is false."""

    why: str
    holds: Callable[[P_contra, C_contra, Machine], bool]


@dataclass(frozen=True)
class Space(Generic[P, C]):
    """What can be chosen of one kernel, or of several that compute the same.

    Attributes:
        name: the op's name, with a suffix where an op has several spaces (``"silu_and_mul_backward"``).
        config: the frozen dataclass of a configuration; its fields are the axes. The hints are named ``occupancy``,
            ``num_cta_in_cga`` and ``num_worker_warps``, 0 being the compiler's choice.
        axes: values per field; a sequence of such tables is their union. A field left out has its default.
        rules: what a candidate must keep. The hints' own limits (clusters, threads) are checked for every space.
        default: the configuration of a problem on a machine when nothing is or can be measured.
        launch: the launch that a configuration means.
        bucket: what a choice depends on besides the machine, as a flat table; problems of one bucket share a choice.
            It holds ``dtype``. `extent_bucket` rounds extents.
        work: the launch's work; without it candidates keep the order of the axes.
        in_place: names of tensors that the kernel both reads and writes; they are restored before each measurement.
        fine: axes of small effect; candidates that differ in these alone are put behind the best of them.
        on_first_call: measure when an op meets a new bucket; else only when asked (`tilegym-rs tune`).
    """

    name: str
    config: type[C]
    axes: Mapping[str, Sequence[Value]] | Sequence[Mapping[str, Sequence[Value]]]
    default: Callable[[P, Machine], C]
    launch: Callable[[P, C, Machine], Launch]
    bucket: Callable[[P], Mapping[str, Value]]
    rules: Sequence[Rule[P, C]] = ()
    work: Callable[[P, C, Machine], Work] | None = None
    in_place: tuple[str, ...] = ()
    fine: tuple[str, ...] = ()
    on_first_call: bool = True

    def configs(self) -> Iterator[C]:
        """Yield every configuration of the axes, rules aside, each once."""
        tables = [self.axes] if isinstance(self.axes, Mapping) else self.axes
        seen = set()
        for table in tables:
            for values in itertools.product(*table.values()):
                config = self.config(**dict(zip(table, values, strict=True)))
                if config not in seen:
                    seen.add(config)
                    yield config

    def broken(self, problem: P, config: C, machine: Machine) -> str:
        """Return why a configuration is none for this problem and machine, empty when it is one."""
        why = _hints_broken(config, machine)
        return why or next((rule.why for rule in self.rules if not rule.holds(problem, config, machine)), "")

    def candidates(self, problem: P, machine: Machine) -> Candidates[C]:
        """Return the configurations worth compiling: the default in any case, then all that keep the rules.

        Those that mean the same launch count once: tiles cut to the problem's size often do.
        """
        found = Candidates[C]()
        launches = set()
        shipped = self.default(problem, machine)
        for config in (shipped, *self.configs()):
            why = "" if config == shipped else self.broken(problem, config, machine)
            if why:
                found.dropped[why] = found.dropped.get(why, 0) + 1
                continue
            launch = self.launch(problem, config, machine).identity()
            if launch not in launches:
                launches.add(launch)
                found.kept.append(config)
        return found

    def read(self, data: Mapping[str, Any]) -> C | None:
        """Return the configuration that `show` made into a table; None when it has other fields."""
        try:
            return self.config(**data)
        except TypeError:
            return None


@dataclass
class Candidates(Generic[C]):
    """Configurations `kept`, and how many each rule `dropped`."""

    kept: list[C] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)


def show(config: Any) -> dict[str, Value]:
    """Return a configuration as a table of its fields."""
    return dataclasses.asdict(config)


def hints(config: Any) -> dict[str, int]:
    """Return the hints among a configuration's fields, as `launch.bind` takes them."""
    return {name: getattr(config, name) for name in HINTS if hasattr(config, name)}


def text(config: Mapping[str, Any]) -> str:
    """Return a table of `show`, or a bucket, in words; 0 and false, which leave things as they are, are left out."""
    return " ".join(f"{name}={value}" for name, value in config.items() if value) or "nothing set"


def extent_bucket(extent: int) -> int:
    """Return the extent rounded up to two binary digits after the first: 5, 6, 7, 8, 10, 12, 14, 16, 20 ..."""
    step = 1 << max(extent.bit_length() - 3, 0)
    return -(-extent // step) * step


def _hints_broken(config: Any, machine: Machine) -> str:
    if getattr(config, "num_cta_in_cga", 0) > 1 and not machine.clusters:
        return f"num_cta_in_cga: {machine.arch} has no clusters"
    if getattr(config, "num_worker_warps", 0) * max(getattr(config, "occupancy", 0), 1) * 32 > machine.threads:
        return f"num_worker_warps x occupancy: a multiprocessor has {machine.threads} threads"
    return ""


class TuningError(TilegymRsError):
    """A search has no result; the message lists what became of each candidate."""
