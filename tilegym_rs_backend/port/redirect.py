# SPDX-License-Identifier: MIT
"""TileGym's own cuTile wrappers, with their launches answered by the translated Rust kernels.

That gives every op of TileGym, of its suites, and a user's own cuTile Python program a Rust backend: the wrapper's
checks, outputs, grids and autograd are the original's, the kernels are Rust.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ..launch import PLANS
from ..target import Target
from ..target import target_of
from ..target import target_of_device
from .arguments import table_of
from .capture import CapturedLaunch
from .capture import capture
from .capture import described
from .capture import patches
from .intercept import answered
from .intercept import install
from .ported import PortedKernels
from .ported import carry_out

Plan = tuple[Callable[..., None], tuple[int, ...]]
_KEY = "_tilegym_rs_key"
_kernel_keys: dict[Any, object] = {}


class Redirect:
    """Answers launches and the tuner on the GPU (`Answers` of intercept.py)."""

    def __init__(self, kernels: PortedKernels) -> None:
        from torch import Tensor

        self.kernels = kernels
        self._tensor = Tensor
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def launch(self, stream: Any, grid: Any, kernel: Any, args: Any, **options: Any) -> None:
        """Launch the translation of ``kernel`` on the tensors' device and torch's current stream there.

        The way of a known launch is straight code: what decides the plan is read off the arguments in one pass.
        """
        try:
            key = [getattr(kernel, _KEY), *grid]
        except AttributeError:
            key = [_remembered(kernel), *grid]
        addresses = []
        tables: Any = None
        for arg in args:
            if isinstance(arg, self._tensor):
                address = arg.data_ptr()
                key += (arg.shape, arg.stride(), arg.dtype, arg.get_device(), address & 15 == 0)
            elif isinstance(arg, list):
                table = table_of(arg)
                tables = (tables, table)  # they live until the launch is made
                address = table.data_ptr()
                key.append(_key(arg))
            else:
                address = 0
                key.append(_key(arg) if isinstance(arg, tuple) else (type(arg), arg))
            addresses.append(address)
        known = tuple(key)
        plan = self._plans.get(known)
        if plan is None:
            plan = self._planned(known, kernel, grid, tuple(args))
        run, positions = plan
        run(*[addresses[index] for index in positions])

    def _planned(self, key: Any, kernel: Any, grid: Any, args: tuple[Any, ...]) -> Plan:
        device = _first_tensor(args).get_device()
        target = target_of_device(device)
        plan = self.kernels.bound(described(kernel, grid, args, target.arch), target)
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > PLANS:
                self._plans.popitem(last=False)
        return plan

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
        device = _first_tensor(calls[0].args).get_device()
        arch = target_of_device(device).arch
        self.kernels.prepare([described(call.kernel, call.grid, call.args, arch) for call in calls])
        tuned = autotune_launch(
            lambda call: self.launch(stream, call.grid, call.kernel, call.args),
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


def _remembered(kernel: Any) -> Any:
    """The part of a plan's key that the kernel decides, kept on it.

    One object stands for a function with its options: it is hashed by identity, and wrappers that make a kernel per
    call still find the plan.
    """
    key = _kernel_keys.setdefault((kernel._annotated_function.pyfunc, _options_key(kernel)), object())
    setattr(kernel, _KEY, key)
    return key


def _options_key(kernel: Any) -> Any:
    """The kernel's compiler options; those that differ by target cannot be hashed, but say all they are."""
    options = kernel._compiler_options
    try:
        hash(options)
    except TypeError:
        return repr(options)
    return options


def _key(value: Any) -> Any:
    """What of an argument decides a plan; numbers by type too, since 1 and 1.0 and True are equal."""
    if hasattr(value, "data_ptr"):
        return (value.shape, value.stride(), value.dtype, value.data_ptr() % 16 == 0, value.get_device())
    return (type(value), tuple(map(_key, value)) if isinstance(value, (list, tuple)) else value)


@functools.lru_cache(maxsize=1)
def redirect() -> Redirect:
    """Return the process's redirect."""
    return Redirect(PortedKernels())


def ported(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with its cuTile Python launches answered by Rust.

    On CUDA tensors they run there; on CPU tensors they are executed from their bytecode; under ``record`` they are
    noted. What ``function`` returns is wrapped too when it can itself be called (TileGym's ``get_swiglu()``).
    """

    from torch import Tensor

    gpu = redirect()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tensor = args[0] if args and isinstance(args[0], Tensor) else _first_tensor([*args, *kwargs.values()])
        if tensor is None or tensor.is_cuda:
            result = answered(gpu, function, args, kwargs)
        else:
            target = target_of(tensor, function.__name__, "an argument")
            elsewhere = Elsewhere(gpu.kernels, target, "meta" if tensor.is_meta else "cpu")
            result = elsewhere.run(function, *args, **kwargs)
        return result if isinstance(result, (Tensor, tuple)) else _wrapped(result)

    install()
    return call


def _first_tensor(values: Sequence[Any]) -> Any:
    for value in values:
        if hasattr(value, "data_ptr"):
            return value
        if isinstance(value, (list, tuple)):
            found = _first_tensor(value)
            if found is not None:
                return found
    return None


def _wrapped(result: Any) -> Any:
    """Wrap a result that will launch later: a function, or a module class or object."""
    import torch

    if isinstance(result, type) and issubclass(result, torch.nn.Module):
        return type(result.__name__, (result,), {"forward": ported(result.forward)})
    if isinstance(result, torch.nn.Module) or not callable(result) or isinstance(result, torch.Tensor):
        return result
    return ported(result)


def implementation(op: str) -> Callable[..., Any]:
    """Return TileGym's own cuTile implementation of an op, redirected.

    Raises:
        NotImplementedError: TileGym has no cuTile implementation of it.
        ToolchainError: cuda-tile is missing or of another version than the one that was tested.
    """
    import sys

    from .installed import check_cuda_tile
    from .installed import import_tilegym

    check_cuda_tile()
    import_tilegym()
    dispatcher = sys.modules["tilegym.backend.dispatcher"]
    found = dispatcher._REGISTRY.get(op, {}).get("cutile")
    if found is None:
        raise NotImplementedError(f"{op} has no cuTile Python implementation in this TileGym, so none can be ported")
    return ported(found)
