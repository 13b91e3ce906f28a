# SPDX-License-Identifier: MIT
"""What the measuring process does on the GPU: the candidates' launches on tensors of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from .machine import machine
from .measure import Failed
from .space import Launch
from .space import Space
from .stopwatch import Stopwatch

if TYPE_CHECKING:
    import torch

    from ..target import Target
    from ..tensors import TensorMeta

TOLERANCE = 0.03
"""How far a candidate's result may be from the default's, as |difference| / |result|: the order of sums may differ, and
fp8 rounds by up to an eighth."""


@dataclass(frozen=True)
class Spec:
    """What to measure: the space by its home, a problem, configurations (the first is the default), a device.

    Attributes:
        module: where the space is declared; name: its name there.
        problem: what is computed.
        configs: fields of each candidate.
        device: CUDA index.
    """

    module: str
    name: str
    problem: Any
    configs: tuple[Mapping[str, Any], ...]
    device: int


class LaunchJob:
    """A `worker.Job`: candidates share input tensors; each writes the result anew, over a pattern that would show.

    Args:
        spec: what to measure.
        failed: numbers of candidates that are known to fail; the first other one is the reference of results.
        target: where to launch instead of on the device; then tensors lie on the CPU.
        stopwatch: what times instead of CUDA events.
    """

    def __init__(
        self, spec: Spec, failed: Sequence[int], *, target: Target | None = None, stopwatch: Stopwatch | None = None
    ) -> None:
        import torch

        from ..library import get_library
        from ..target import target_of_device

        if target is None:
            torch.cuda.set_device(spec.device)
        self._library = get_library()
        self._target = target or target_of_device(spec.device)
        self._stopwatch = stopwatch or Stopwatch(spec.device)
        self._launches = launches_of(spec, self._target.arch, self._target.sm_count)
        self._space = space_named(spec.module, spec.name)
        device = torch.device("cuda", spec.device) if target is None else torch.device("cpu")
        self._tensors = make_tensors(self._launches, self._space.in_place, device)
        self._runs: dict[int, Callable[[], None]] = {}
        self._reference = next(index for index in range(len(self._launches)) if index not in failed)
        self._expected: torch.Tensor | None = None

    def prepare(self, index: int) -> None:
        """See `measure.Runner`."""
        if self._expected is None and index != self._reference:
            self.prepare(self._reference)
        launch = self._launches[index]
        bound = launch.bind(self._library, self._target)
        pointers = [self._tensors.of(name).data_ptr() for name in tensor_names(launch)]
        self._tensors.restore()
        self._tensors.spoil()

        def run() -> None:
            bound(*pointers)

        self._stopwatch.run(run)
        result = self._tensors.result
        if self._expected is None:
            self._expected = result.clone()
        else:
            why = differs(result, self._expected)
            if why:
                raise Failed(why)
        self._runs[index] = run

    def sample(self, index: int) -> float:
        """See `measure.Runner`."""
        if index not in self._runs:  # a new process, after another one has died
            self.prepare(index)
        return self._stopwatch.sample(self._runs[index], self._tensors.restore)

    def time(self, call: Callable[[], Any]) -> float:
        """Return microseconds of another call, by the same clock."""
        return self._stopwatch.sample(call)

    def floor(self) -> float:
        """Return the microseconds that every sample has on top of its kernel's; see `Stopwatch.floor`."""
        return self._stopwatch.floor()

    def sound(self) -> bool:
        """See `worker.Job`."""
        return self._stopwatch.sound()


def space_named(module: str, name: str) -> Space[Any, Any]:
    """Return the space of a module that has this name."""
    for each in vars(importlib.import_module(module)).values():
        if isinstance(each, Space) and each.name == name:
            return each
    raise Failed(f"{module} declares no space {name!r}")


def launches_of(spec: Spec, arch: str, sm_count: int) -> list[Launch]:
    """Return the launch of each configuration."""
    space = space_named(spec.module, spec.name)
    here = machine(arch, sm_count)
    return [space.launch(spec.problem, space.config(**config), here) for config in spec.configs]


def tensor_names(launch: Launch) -> list[str]:
    """Return the names of a launch's tensors in order."""
    return list(_metas(launch))


class Tensors:
    """The tensors of a problem, by parameter name.

    Attributes:
        result: the first one.
    """

    def __init__(self, tensors: dict[str, torch.Tensor], in_place: tuple[str, ...]) -> None:
        self._tensors = tensors
        self._kept = {name: tensors[name].clone() for name in in_place}
        self.result = next(iter(tensors.values()))
        self._spoils = next(iter(tensors)) not in in_place

    def of(self, name: str) -> torch.Tensor:
        """Return a tensor."""
        return self._tensors[name]

    def restore(self) -> None:
        """Put back what the kernel overwrites of its inputs."""
        for name, value in self._kept.items():
            self._tensors[name].copy_(value)

    def spoil(self) -> None:
        """Fill a result that is no input with a pattern that no right result has throughout."""
        if self._spoils:
            self.result.view(_bytes_of(self.result)).fill_(0x5A)


def make_tensors(launches: Sequence[Launch], in_place: tuple[str, ...], device: Any) -> Tensors:
    """Return tensors as the first launch describes them: floats drawn at random with variance 1/4, integers 0.

    There is memory behind each for the launch that reaches furthest: scratch may have a row per block.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(20)
    reach: dict[str, int] = {}
    for launch in launches:
        for name, meta in _metas(launch).items():
            reach[name] = max(reach.get(name, 0), _reach(meta))
    metas = _metas(launches[0])
    return Tensors({name: _tensor(meta, reach[name], generator, device) for name, meta in metas.items()}, in_place)


def _metas(launch: Launch) -> dict[str, TensorMeta]:
    from ..tensors import TensorMeta

    return {name: arg for name, arg in launch.args.items() if isinstance(arg, TensorMeta)}


def _reach(meta: TensorMeta) -> int:
    """Return the elements from a tensor's first to its last, both included."""
    return sum((extent - 1) * stride for extent, stride in zip(meta.shape, meta.strides, strict=True)) + 1


def _tensor(meta: TensorMeta, reach: int, generator: torch.Generator, device: Any) -> torch.Tensor:
    import torch

    offset = 0 if meta.aligned else 1
    if meta.dtype.is_floating_point:
        flat = torch.empty(reach + offset, dtype=torch.float32, device=device)
        flat = flat.normal_(0.0, 0.5, generator=generator).to(meta.dtype)
    else:
        flat = torch.zeros(reach + offset, dtype=meta.dtype, device=device)
    return torch.as_strided(flat, meta.shape, meta.strides, offset)


def _bytes_of(tensor: torch.Tensor) -> Any:
    import torch

    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]


def differs(result: torch.Tensor, expected: torch.Tensor) -> str:
    """Return how a result differs from the default's beyond `TOLERANCE`, empty when it does not."""
    import torch

    got, want = result.float(), expected.float()
    finite = torch.isfinite(want)
    if not torch.equal(torch.isfinite(got), finite):
        return "its result has infinities or NaNs in other places than the default configuration's"
    zero = torch.zeros((), device=want.device)
    got, want = torch.where(finite, got, zero), torch.where(finite, want, zero)
    norm = float(torch.linalg.vector_norm(want))
    error = float(torch.linalg.vector_norm(got - want)) / (norm or 1.0)
    if error <= TOLERANCE:
        return ""
    return f"its result differs from the default configuration's: |difference| / |result| = {error:.3g}"
