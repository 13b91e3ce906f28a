# SPDX-License-Identifier: MIT
"""`autotune_launch`, one of the names of TileGym's Rust bridge: the fastest of a list of configurations of a closure.

The closure holds the caller's tensors, so it is measured in this process, by the rules of `measure.py`. Choices last as
long as the process: neither closure nor key says which kernels they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

from ..errors import CaptureError
from ..errors import TilegymRsError
from .flight import thread_flight
from .measure import Failed
from .measure import Terms
from .measure import halve
from .stopwatch import Stopwatch

if TYPE_CHECKING:
    import torch


@dataclass
class TunedResult:
    """What `autotune_launch` found: the winner, its output, and ``(config, milliseconds or reason)`` of each."""

    best_config: Any
    output: Any
    tuning_record: list[tuple[Any, float | str]] = field(default_factory=list)
    cache_hit: bool = False


_tuned: dict[Hashable, TunedResult] = {}


def autotune_launch(
    kernel_fn: Callable[[Any], Any],
    configs: Sequence[Any],
    key: Hashable,
    kernel_name: str = "unknown",
    warmup: int = 2,
    rep: int = 10,
    kernel_filter: str | None = None,
    timer: Callable[[Callable[[], Any], int, int], float] | None = None,
    in_place: Sequence[torch.Tensor] = (),
) -> TunedResult:
    """Run `kernel_fn` with the fastest of `configs`, measured once per (kernel_name, device, key) and process.

    Args:
        kernel_fn: launches with a configuration and returns its output.
        configs: the first is taken unless another is faster; one alone is not measured.
        key: of the problem.
        kernel_name: for messages, and part of the key.
        warmup, rep: runs that do not count, and samples of the fastest.
        kernel_filter: accepted and without effect: CUDA events measure, with the L2 flushed, never a profiler.
        timer: replaces the measurement: (call, warmup, rep) -> milliseconds.
        in_place: tensors that `kernel_fn` both reads and writes; they are put back before each run.

    Raises:
        CaptureError: several configs and nothing known while a CUDA graph is captured.
        TilegymRsError: every config failed; the message has each reason.
    """
    import torch

    if not configs:
        raise TilegymRsError(f"{kernel_name}: no configuration to choose from")
    on_gpu = torch.cuda.is_available()
    device = torch.cuda.current_device() if on_gpu else -1
    cache_key = (kernel_name, device, key)
    if len(configs) == 1:
        return TunedResult(configs[0], kernel_fn(configs[0]))
    if cache_key not in _tuned and on_gpu and torch.cuda.is_current_stream_capturing():
        raise CaptureError(f"{kernel_name}: tuning is not possible under graph capture; call it once before", rc=1)
    with thread_flight(f"{kernel_name} {device} {key!r}"):
        known = _tuned.get(cache_key)
        if known is None:
            runner = _Closures(kernel_fn, configs, device, warmup, rep, timer, in_place)
            result = halve(len(configs), runner, _terms(rep, timer is not None))
            record = [(config, result.failed.get(i) or result.us[i] / 1e3) for i, config in enumerate(configs)]
            if result.best < 0:
                reasons = "; ".join(f"{config}: {reason}" for config, reason in record)
                raise TilegymRsError(f"{kernel_name}: every configuration failed: {reasons}")
            known = _tuned[cache_key] = TunedResult(configs[result.best], None, record)
            runner.restore()
            return TunedResult(known.best_config, kernel_fn(known.best_config), record)
    return TunedResult(known.best_config, kernel_fn(known.best_config), known.tuning_record, cache_hit=True)


def _terms(rep: int, one_sample: bool) -> Terms:
    """Return rounds that give the fastest `rep` samples; one, where the caller's timer repeats by itself."""
    rounds = (1,) if one_sample else (max(rep // 3, 1), max(rep - rep // 3, 1))
    return Terms(rounds=rounds, warm_s=0.0)


class _Closures:
    """A `measure.Runner` over a closure in this process."""

    def __init__(
        self,
        kernel_fn: Callable[[Any], Any],
        configs: Sequence[Any],
        device: int,
        warmup: int,
        rep: int,
        timer: Callable[[Callable[[], Any], int, int], float] | None,
        in_place: Sequence[torch.Tensor],
    ) -> None:
        self._kernel_fn, self._configs, self._warmup, self._rep, self._timer = kernel_fn, configs, warmup, rep, timer
        self._stopwatch = None if timer is not None else Stopwatch(max(device, 0))
        self._kept = [(tensor, tensor.clone()) for tensor in in_place]

    def prepare(self, index: int) -> None:
        """See `measure.Runner`."""
        if self._timer is None:
            for _ in range(max(self._warmup, 1)):
                self._guarded(lambda: self._run(index))

    def sample(self, index: int) -> float:
        """See `measure.Runner`."""
        stopwatch, timer = self._stopwatch, self._timer
        if timer is not None:
            return 1e3 * float(self._guarded(lambda: timer(lambda: self._run(index), self._warmup, self._rep)))
        assert stopwatch is not None
        call = lambda: self._kernel_fn(self._configs[index])  # noqa: E731
        return float(self._guarded(lambda: stopwatch.sample(call, self.restore)))

    def _run(self, index: int) -> Any:
        self.restore()
        return self._kernel_fn(self._configs[index])

    def restore(self) -> None:
        """Put back what the closure overwrites."""
        for tensor, value in self._kept:
            tensor.copy_(value)

    @staticmethod
    def _guarded(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (TilegymRsError, RuntimeError, NotImplementedError) as error:
            raise Failed(str(error) or type(error).__name__) from error
