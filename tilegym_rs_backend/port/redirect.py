# SPDX-License-Identifier: MIT
"""TileGym's own cuTile wrappers, with their launches answered by the translated Rust kernels.

That gives every op of TileGym, of its suites, and a user's own cuTile Python program a Rust backend: the wrapper's
checks, outputs, grids and autograd are the original's, the kernels are Rust.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from .. import artifacts
from ..errors import LaunchError
from ..launch import refuse_under_capture
from ..target import Target
from ..target import arch_of
from ..target import target_of_device
from ..tile_ir.cubin import read_cubin
from .capture import CapturedLaunch
from .capture import capture
from .capture import described
from .capture import patches
from .intercept import answered
from .intercept import launcher
from .passing import words_passed
from .passing import words_taken
from .planned import Planned
from .planned import first_tensor
from .ported import PortedKernels
from .ported import carry_out
from .signature import signature
from .twin import Code
from .twin import Unseen
from .twin import offered
from .twin import twin_of
from .twin import without_twin


class Redirect:
    """Answers launches and the tuner on the GPU (`Answers` of intercept.py).

    A launch goes to cuTile Python's own launcher, with the kernel's twin in the kernel's place; `intercept` takes that
    way itself for a kernel that has one.
    """

    def __init__(self, kernels: PortedKernels) -> None:
        self.kernels = kernels
        self.direct = launcher()
        self._planned = Planned(kernels)

    def launch(self, stream: Any, grid: Any, kernel: Any, args: Any, **options: Any) -> None:
        """Launch the translation of ``kernel`` as ``cuda.tile.launch`` launches the original; no blocks, no launch.

        Raises:
            Refused: the kernel has a construct without a Rust form; the message names its Python line.
            CompileError, BuildError: a compiler refused the translation, or it cannot be built.
            CaptureError: its code is not loaded, and the current stream captures a CUDA graph.
            Exception: what the launcher raises for arguments, grids and options that it does not take.
        """
        try:
            twin = kernel._tilegym_rs_twin
        except AttributeError:
            twin = twin_of(kernel)
            if twin is None:
                self._planned.launch(grid, kernel, args)
                return
        try:
            self.direct(stream, grid, twin, args, **options)
            return
        except Unseen as error:
            unseen = error
        except RuntimeError:
            if 0 not in grid:
                raise
            return
        code = self._code(unseen, described(kernel, grid, args, arch_of(unseen.capability, "the GPU")))
        if code is None:
            without_twin(kernel)
            self._planned.launch(grid, kernel, args)
            return
        with offered(twin, unseen.signature, code):
            self.launch(stream, grid, kernel, args, **options)

    def _code(self, unseen: Unseen, launch: CapturedLaunch) -> Code | None:
        """Return the machine code that the launcher asks for, None where it would pass it other words than it takes."""
        if signature(launch).parameters != unseen.signature.parameters:
            return None
        entry = self.kernels.entry(launch)
        recorded = self.kernels.recorded(launch, entry)
        passed = words_passed(unseen.signature.parameters)
        if passed != words_taken(entry, recorded.library.kernel(entry.name)["params"]):
            return None
        refuse_under_capture(recorded.spec_text)
        cubin = artifacts.cubin(recorded.library, recorded.token, launch.arch)
        kernel = read_cubin(cubin).only()
        return Code(cubin, kernel.symbol) if kernel.parameters == tuple(word.size for word in passed) else None

    def exhaustive_search(
        self,
        search_space: Sequence[Any],
        stream: Any,
        grid_fn: Callable[[Any], Any],
        kernel: Any,
        args_fn: Callable[[Any], tuple[Any, ...]],
        hints_fn: Callable[[Any], dict[str, Any]] | None = None,
        **options: Any,
    ) -> Any:
        """Measure every configuration with the translated kernel, as the original does with its own."""
        from ..compat import autotune_launch

        configs = list(search_space)
        calls = [_Candidate(config, grid_fn, kernel, args_fn, hints_fn) for config in configs]
        device = first_tensor(calls[0].args).get_device()
        arch = target_of_device(device).arch
        self.kernels.prepare([described(call.kernel, call.grid, call.args, arch) for call in calls])
        tuned = autotune_launch(
            lambda call: call.launch(self),
            calls,
            key=object(),  # TileGym remembers the choice itself, by a key of its own
            kernel_name=kernel._annotated_function.pyfunc.__name__ if hasattr(kernel, "_annotated_function") else "",
        )
        measured = [(call.config, time) for call, time in tuned.tuning_record]
        times = {id(config): time for config, time in measured if isinstance(time, float)}
        chosen = tuned.best_config.config
        best = SimpleNamespace(
            config=chosen, mean_us=1e3 * times.get(id(chosen), 0.0), num_samples=1, error_margin_us=0.0
        )
        failures = [(config, RuntimeError, str(time)) for config, time in measured if not isinstance(time, float)]
        return SimpleNamespace(
            best=best, successes=[best], failures=failures, summary=lambda **_: "measured with the Rust kernels"
        )

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` with its launches answered."""
        return answered(self, function, args, kwargs)


class Elsewhere:
    """The same for tensors that are not on a GPU: launches are executed from their bytecode, or recorded."""

    direct = None

    def __init__(self, kernels: PortedKernels, target: Target, device: str) -> None:
        self._kernels = kernels
        self._target = target
        self._device = device

    def launch(self, stream: Any, grid: Any, kernel: Any, args: Any, **options: Any) -> None:
        """Carry a launch out."""
        self._carry_out(described(kernel, grid, tuple(args), self._target.arch))

    def exhaustive_search(self, search_space: Sequence[Any], stream: Any, *args: Any, **options: Any) -> Any:
        """Answer with the first configuration: nothing is timed here."""
        best = SimpleNamespace(config=next(iter(search_space)), mean_us=0.0, num_samples=0, error_margin_us=0.0)
        return SimpleNamespace(best=best, successes=[best], failures=[], summary=lambda **_: "not timed")

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` on a machine that pretends to have the target's GPU."""
        if patches.answers is not None:
            return function(*args, **kwargs)  # an op inside an op: the outer one carries its launches out
        results: list[Any] = []
        capture(
            lambda: results.append(answered(self, function, args, kwargs)),
            self._target.arch,
            sm_count=self._target.sm_count,
            device=self._device,
            carry_out=self._carry_out,
        )
        return results[0]

    def _carry_out(self, launch: CapturedLaunch) -> None:
        carry_out(self._kernels, launch, self._target)


class _Candidate:
    """One configuration of a tuner: its kernel with hints, grid and arguments."""

    def __init__(self, config: Any, grid_fn: Any, kernel: Any, args_fn: Any, hints_fn: Any) -> None:
        self.config = config
        chosen = kernel if hasattr(kernel, "replace_hints") else kernel(config)
        self.kernel = chosen.replace_hints(**hints_fn(config)) if hints_fn else chosen
        self.grid = grid_fn(config)
        self.args = tuple(args_fn(config))

    def launch(self, redirect: Redirect) -> None:
        """Launch on the stream that is current where it is measured; LaunchError if the launcher does not take it."""
        import torch

        try:
            redirect.launch(torch.cuda.current_stream(), self.grid, self.kernel, self.args)
        except (TypeError, ValueError, OverflowError) as error:
            raise LaunchError(f"configuration {self.config}: {error}", rc=-6) from error


@functools.lru_cache(maxsize=1)
def redirect() -> Redirect:
    """Return the process's redirect."""
    return Redirect(PortedKernels())
