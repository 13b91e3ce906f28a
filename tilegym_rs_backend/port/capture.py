# SPDX-License-Identifier: MIT
"""Run a host program that launches cuTile Python kernels, up to its launches, on any machine; nothing is launched.

``capture(fn)`` answers every launch, tuner and device question of ``fn`` on the calling thread and records the
launches: kernel, grid, hints, arguments. Tensors may live on the CPU or on ``meta``; a GPU is neither needed nor
touched. Results that ``fn`` returns hold uninitialised memory.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from types import SimpleNamespace
from typing import Any

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.port.installed import check_cuda_tile
from tilegym_rs_backend.port.installed import import_tilegym
from tilegym_rs_backend.port.machine import Machine
from tilegym_rs_backend.port.machine import Patches
from tilegym_rs_backend.port.machine import machine
from tilegym_rs_backend.port.machine import machine_answers
from tilegym_rs_backend.port.machine import machine_targets
from tilegym_rs_backend.port.signature import bytecode
from tilegym_rs_backend.port.signature import constant_parameters
from tilegym_rs_backend.port.signature import resolve_hints
from tilegym_rs_backend.port.tuning_caches import tuning_caches_aside

__all__ = ["CapturedLaunch", "bytecode", "capture", "check_cuda_tile", "import_tilegym"]

Tuning = int | str | Callable[[Sequence[Any]], int]


def _targets() -> Iterator[tuple[Any, str, str]]:
    """Everything to replace: the torch.cuda questions, and each module's own name for launch, tuner and timeout."""
    import cuda.tile as ct
    import cuda.tile.tune

    yield from machine_targets()
    wanted = {
        "launch": {id(ct.launch), id(sys.modules["cuda.tile._cext"].launch)},
        "exhaustive_search": {id(cuda.tile.tune.exhaustive_search)},
        "compiler_timeout": {id(ct.compiler_timeout)},
    }
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for name, ids in wanted.items():
            if id(names.get(name)) in ids:
                yield module, name, name


patches = Patches(_targets)


@dataclass(frozen=True, eq=False)
class CapturedLaunch:
    """One launch of a cuTile Python kernel as its host program asked for it.

    Attributes:
        kernel: the ``cuda.tile.kernel`` object, compiler hints replaced as the host program (or its tuner) chose.
        name: the Python function's name; ``module`` is where it was defined.
        grid: blocks in x, y, z.
        hints: compiler hints in force for ``arch`` (occupancy, num_ctas, num_worker_warps; opt_level unless 3).
        args: the arguments, tensors included, in parameter order; ``parameters`` are their names.
        constants: parameter name -> value of the compile-time constants.
        arch: the GPU asked for, ``"sm_90"``.
        candidate: True for a configuration that a tuner would have tried, False for a launch that would have run.
        config: the tuner's configuration, None where no tuner was asked.
    """

    kernel: Any
    name: str
    module: str
    grid: tuple[int, int, int]
    hints: Mapping[str, int]
    args: tuple[Any, ...]
    parameters: tuple[str, ...]
    constants: Mapping[str, Any]
    arch: str
    candidate: bool = False
    config: Any = None


@dataclass
class _Recorder:
    gpu: Machine
    tuning: Tuning
    carry_out: Callable[[CapturedLaunch], None] | None = None
    launches: list[CapturedLaunch] = field(default_factory=list)
    chosen: dict[int, Any] = field(default_factory=dict)

    def launch(self, stream: Any, grid: Sequence[int], kernel: Any, args: tuple[Any, ...], **_: Any) -> None:
        launch = described(kernel, grid, tuple(args), self.gpu.arch)
        self.launches.append(launch)
        if self.carry_out is not None:
            self.carry_out(launch)

    def search(
        self,
        search_space: Sequence[Any],
        stream: Any,
        grid_fn: Callable[[Any], Sequence[int]],
        kernel: Any,
        args_fn: Callable[[Any], tuple[Any, ...]],
        hints_fn: Callable[[Any], dict[str, Any]] | None = None,
        **_: Any,
    ) -> Any:
        configs = list(search_space)
        if not configs:
            raise TilegymRsError("A tuner was asked to choose from an empty list of configurations.")
        failures: list[tuple[Any, type[BaseException], str]] = []
        if self.tuning == "all":
            for config in configs:
                try:
                    chosen = kernel if hasattr(kernel, "replace_hints") else kernel(config)
                    hinted = chosen.replace_hints(**hints_fn(config)) if hints_fn else chosen
                    args = tuple(args_fn(config))
                    self.launches.append(
                        described(hinted, grid_fn(config), args, self.gpu.arch, candidate=True, config=config)
                    )
                except Exception as error:  # the tuner itself goes on after a configuration that cannot be launched
                    failures.append((config, type(error), str(error)))
        best = SimpleNamespace(config=configs[self._index(configs)], mean_us=1.0, num_samples=0, error_margin_us=0.0)
        return SimpleNamespace(
            best=best, successes=[best], failures=failures, summary=lambda **_: "captured, not timed"
        )

    def _index(self, configs: Sequence[Any]) -> int:
        index = self.tuning(configs) if callable(self.tuning) else (0 if self.tuning == "all" else int(self.tuning))
        return min(index, len(configs) - 1)


def described(
    kernel: Any, grid: Sequence[int], args: tuple[Any, ...], arch: str, candidate: bool = False, config: Any = None
) -> CapturedLaunch:
    """Describe a launch as its host program asks for it.

    Raises:
        TilegymRsError: a grid or arguments that no launch could have.
    """
    dims = tuple(int(extent) for extent in grid)
    if not 1 <= len(dims) <= 3:
        raise TilegymRsError(f"A grid has one to three axes, this launch gave {len(dims)}: {dims}.")
    function = kernel._annotated_function
    names = tuple(function.pysig.parameters)
    if len(names) != len(args):
        raise TilegymRsError(
            f"Kernel {function.pyfunc.__name__} takes {len(names)} arguments ({', '.join(names)}), "
            f"the launch gave {len(args)}."
        )
    x, y, z = (*dims, 1, 1)[:3]
    flags = constant_parameters(kernel)
    return CapturedLaunch(
        kernel=kernel,
        name=function.pyfunc.__name__,
        module=function.pyfunc.__module__,
        grid=(x, y, z),
        hints=resolve_hints(kernel, arch),
        args=args,
        parameters=names,
        constants={n: a for n, a, constant in zip(names, args, flags, strict=True) if constant},
        arch=arch,
        candidate=candidate,
        config=config,
    )


def capture(
    fn: Callable[[], Any],
    arch: str = "sm_90",
    *,
    sm_count: int | None = None,
    tuning: Tuning = 0,
    device: str = "meta",
    carry_out: Callable[[CapturedLaunch], None] | None = None,
) -> list[CapturedLaunch]:
    """Call ``fn`` and return the launches it asked for, in order; none is carried out unless ``carry_out`` does.

    Args:
        fn: the host program, such as ``lambda: tilegym.ops.softmax(x, backend="cutile")``.
        arch: the GPU that ``fn`` shall believe in; ``sm_count`` replaces the number of its SMs.
        tuning: which configuration a tuner answers with: an index (clipped to the last one), a function of the list of
            configurations, or ``"all"``: record each as a candidate and go on with the first.
        device: where tensors go that ``fn`` creates with ``device="cuda"``: ``"meta"`` or ``"cpu"``.
        carry_out: called with each launch when it is asked for, such as ``port.execute.execute`` on CPU tensors.

    Raises:
        ToolchainError: cuda-tile is missing or of a version whose internals were not tested.
        TilegymRsError: unknown arch, nested capture, or a launch that no kernel fits.
        Exception: whatever ``fn`` itself raises.
    """
    check_cuda_tile()
    recorder = _Recorder(machine(arch, sm_count), tuning, carry_out)
    answers = machine_answers(recorder.gpu)
    answers["launch"] = recorder.launch
    answers["exhaustive_search"] = recorder.search
    answers["compiler_timeout"] = lambda *_, **__: contextlib.nullcontext()
    with patches.active(answers), tuning_caches_aside(launches=False), _cuda_redirected(device):
        fn()
    return recorder.launches


@contextlib.contextmanager
def _cuda_redirected(device: str) -> Iterator[None]:
    """Create tensors asked for on ``cuda`` on ``device`` instead (torch function modes are per thread)."""
    import torch
    from torch.overrides import TorchFunctionMode

    def elsewhere(value: Any) -> Any:
        if isinstance(value, str) and value.split(":")[0] == "cuda":
            return device
        return torch.device(device) if isinstance(value, torch.device) and value.type == "cuda" else value

    class Redirect(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if "device" in kwargs:
                kwargs["device"] = elsewhere(kwargs["device"])
            if func is torch.Tensor.to:
                args = (args[0], *(elsewhere(value) for value in args[1:]))
            return func(*args, **kwargs)

    with Redirect():
        yield
