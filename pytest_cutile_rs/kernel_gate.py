# SPDX-License-Identifier: MIT
"""The fixture ``cutile_rs_kernel``: one launch of a user's cuTile Python kernel, gated against its Rust translation."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import pytest

from pytest_cutile_rs.backend import DEFAULT_ARCH
from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.checks.perf import PEER
from pytest_cutile_rs.checks.perf import SUBJECT

_BIT_EQUAL = "PASS BIT-EQUAL"


@dataclass(frozen=True)
class GatedKernel:
    """What was found for one launch.

    Attributes:
        kernel: the Python function's name.
        verdicts: check -> ``"PASS ..."``, ``"FAIL ..."`` or ``"NOT-RUN ..."``; ``ir`` says how the Tile IR compares
            and never fails, since different Tile IR may be equal machine code.
        source: the Rust text of the translation.
        baked: constants whose values are in that text.
        ratio: t_cutile_python / t_cutile_rs, None where nothing was timed.
        difference: both sides' Tile IR side by side, where the machine code differs.
    """

    kernel: str
    verdicts: Mapping[str, str]
    source: str = field(default="", repr=False)
    baked: tuple[str, ...] = ()
    ratio: float | None = None
    difference: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not any(verdict.startswith("FAIL") for verdict in self.verdicts.values())

    def __str__(self) -> str:
        lines = [f"VERDICT: {verdict} {self.kernel} ({check})" for check, verdict in self.verdicts.items()]
        return "\n".join([*lines, *([self.difference] if self.difference else [])])


class KernelGate:
    """Calls gate a launch; one object serves a session.

    Args:
        arch: to compile for where the tensors are on no GPU.
        threshold: lowest accepted t_cutile_python / t_cutile_rs.
        budget_s: seconds a measurement may take.
        make_timer: returns a device timer that is not open.
    """

    def __init__(
        self,
        arch: str = DEFAULT_ARCH,
        threshold: float = 0.95,
        budget_s: float = 20.0,
        make_timer: Callable[[], Any] | None = None,
    ) -> None:
        self._arch = arch
        self._threshold = threshold
        self._budget_s = budget_s
        self._make_timer = make_timer
        self._timer: Any = None

    def __call__(
        self,
        kernel: Any,
        grid: Sequence[int],
        args: Sequence[Any],
        *,
        checks: Sequence[str] = CHECKS,
        rtol: float = 0.0,
        atol: float = 0.0,
    ) -> GatedKernel:
        """Compare one launch with its translation, and fail the test where a check fails.

        Args:
            kernel: a ``cuda.tile.kernel``.
            grid: tile blocks per axis.
            args: as ``cuda.tile.launch`` takes them; tensors on the CPU (both sides are executed there) or on a GPU.
                Both sides are launched on them; afterwards they hold our results.
            checks: ``numerics``, ``ir``, ``sass``, ``perf``; perf is NOT-RUN without a GPU.
            rtol, atol: of the numbers; 0 and 0 ask for equal bits. On a GPU a kernel with floating-point atomics
                needs a tolerance, because their order is not fixed.

        Raises:
            ValueError: a check of another name.
        """
        unknown = sorted(set(checks) - set(CHECKS))
        if unknown:
            raise ValueError(f"no check {', '.join(unknown)}; known are {', '.join(CHECKS)}")
        found = self.judge(kernel, grid, tuple(args), checks, Tolerance(rtol, atol, "of the test"))
        if not found.ok:
            pytest.fail(str(found), pytrace=False)
        return found

    def judge(
        self, kernel: Any, grid: Sequence[int], args: tuple[Any, ...], checks: Sequence[str], tolerance: Tolerance
    ) -> GatedKernel:
        """What a call judges by."""
        from tilegym_rs_backend.errors import TilegymRsError
        from tilegym_rs_backend.port.capture import described
        from tilegym_rs_backend.port.comparison import compare_launch
        from tilegym_rs_backend.port.comparison import kernel_in
        from tilegym_rs_backend.port.redirect import redirect
        from tilegym_rs_backend.port.translate import Refused
        from tilegym_rs_backend.tile_ir.side_by_side import side_by_side

        kernels = redirect().kernels
        launch = described(kernel, grid, args, self._arch_of(args))
        try:
            entry = kernels.entry(launch)
        except Refused as error:
            return GatedKernel(launch.name, dict.fromkeys(checks, f"FAIL REFUSED {error}:"))
        except TilegymRsError as error:
            return GatedKernel(launch.name, dict.fromkeys(checks, f"FAIL NOT-BUILT {error}:"))
        verdicts: dict[str, str] = {}
        difference, ratio = "", None
        if "numerics" in checks:
            verdicts["numerics"] = self._numerics(launch, kernel, tolerance)
        if {"ir", "sass"} & set(checks):
            compared = compare_launch(kernels, launch)
            same = compared.verdict == "SASS-IDENTICAL"
            if compared.verdict == "SASS-DIFFERENT":
                ours, theirs = (kernel_in(compared.bytecodes[side]) for side in ("ours", "theirs"))
                difference = side_by_side(ours, theirs, only_differences=True)
            both = {"ir": f"PASS {compared.ir}", "sass": f"{'PASS' if same else 'FAIL'} {compared.verdict}"}
            both["sass"] += f" ({compared.detail})"
            verdicts |= {check: both[check] for check in ("ir", "sass") if check in checks}
        if "perf" in checks:
            verdicts["perf"], ratio = self._perf(launch.name, kernel, grid, args)
        return GatedKernel(
            launch.name, verdicts, kernels.crate.source(entry.name), entry.baked, ratio, difference=difference
        )

    def close(self) -> None:
        """End the timer's session."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    def _arch_of(self, args: tuple[Any, ...]) -> str:
        from tilegym_rs_backend.target import target_of_device

        on_gpu = _on_gpu(args)
        return self._arch if on_gpu is None else target_of_device(on_gpu).arch

    def _numerics(self, launch: Any, kernel: Any, tolerance: Tolerance) -> str:
        from tilegym_rs_backend.port import bits
        from tilegym_rs_backend.port.redirect import redirect

        if any(getattr(arg, "is_meta", False) for arg in launch.args):
            return "NOT-RUN the arguments are on meta and hold no numbers:"
        exact = tolerance.rtol == tolerance.atol == 0
        differing = None if exact else _beyond(tolerance)
        try:
            if _on_gpu(launch.args) is None:
                found = bits.execute_launch_twice(redirect().kernels, launch, launch.arch, differing)
            else:
                sides = _sides(kernel, launch.grid, launch.args)
                found = bits.over_equal_memory(launch.args, _waited(sides[PEER]), _waited(sides[SUBJECT]), differing)
        except Exception as error:
            return f"FAIL {type(error).__name__}: {error}:"
        return f"FAIL {'; '.join(found)}:" if found else (_BIT_EQUAL if exact else f"PASS within {tolerance.atol:g}")

    def _perf(self, name: str, kernel: Any, grid: Sequence[int], args: tuple[Any, ...]) -> tuple[str, float | None]:
        if _on_gpu(args) is None:
            return "NOT-RUN device time needs tensors on a GPU:", None
        return self.timed(name, _sides(kernel, grid, args))

    def timed(self, name: str, sides: Mapping[str, Callable[[], object]]) -> tuple[str, float | None]:
        """Measure two sides and judge them; returns the verdict and the ratio."""
        from pytest_cutile_rs import gate
        from pytest_cutile_rs.timing import Plan
        from pytest_cutile_rs.timing import TimingUnavailable
        from pytest_cutile_rs.timing import make_timer

        try:
            if self._timer is None:
                timer = self._make_timer() if self._make_timer else make_timer()
                timer.open()
                self._timer = timer
        except TimingUnavailable as error:
            return f"FAIL NO-DATA {error}:", None
        until = gate.decided(self._threshold, subject=SUBJECT, peer=PEER)
        record = self._timer.pair(name, sides, Plan(budget_s=self._budget_s), until=until)
        verdict = gate.judge(record, threshold=self._threshold, subject=SUBJECT, peer=PEER)
        status = "FAIL" if verdict.verdict in gate.FAILING else "PASS"
        what = verdict.text if verdict.ratio != verdict.ratio else f"t_py/t_rs {verdict.ratio:.3f}"
        return f"{status} {verdict.verdict} {what}", verdict.ratio


def gate_of(config: pytest.Config) -> KernelGate:
    """The gate of a pytest session, with the plugin's options and hooks in force."""
    from pytest_cutile_rs.options import read_options
    from pytest_cutile_rs.timing import make_timer

    options = read_options(config)

    def timer() -> Any:
        found = config.hook.pytest_cutile_rs_timer(config=config)
        return found if found is not None else make_timer(options.timer, event_gates=True)

    return KernelGate(options.arch or DEFAULT_ARCH, options.threshold, options.perf_budget, timer)


def _on_gpu(args: Sequence[Any]) -> int | None:
    """The CUDA device of the first tensor that lies on one."""
    return next((arg.get_device() for arg in args if getattr(arg, "is_cuda", False)), None)


def _sides(kernel: Any, grid: Sequence[int], args: tuple[Any, ...]) -> dict[str, Callable[[], object]]:
    import cuda.tile as ct
    import torch

    from tilegym_rs_backend.port import kernel as ported

    rust = ported(kernel)
    return {
        PEER: lambda: ct.launch(torch.cuda.current_stream(), tuple(grid), kernel, args),
        SUBJECT: lambda: rust.launch(torch.cuda.current_stream(), tuple(grid), args),
    }


def _waited(side: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        import torch

        side()
        torch.cuda.synchronize()

    return call


def _beyond(tolerance: Tolerance) -> Callable[[Any, Any], str]:
    def differing(ours: Any, theirs: Any) -> str:
        import torch

        from pytest_cutile_rs.checks.comparator import compare

        want = theirs.to(torch.float64) if theirs.is_floating_point() else theirs
        found = compare(ours, want, tolerance, empty_ok=True, no_information_ok=True)
        return "; ".join(found.problems)

    return differing
