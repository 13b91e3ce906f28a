# SPDX-License-Identifier: MIT
"""Both sides of each launch of an op, executed on the CPU over equal memory, and compared bit by bit."""

from __future__ import annotations

from typing import Any

from ..target import executing_target
from .capture import CapturedLaunch
from .capture import capture
from .execute import execute
from .installed import backend_set
from .ported import PortedKernels
from .ported import carry_out


def execute_both(kernels: PortedKernels, suite: Any, case: Any, arch: str, seed: int = 0) -> list[str]:
    """Run one case; each launch is executed by the original and, on what was there before it, by the translation.

    Returns a line per launch: ``PASS BIT-EQUAL kernel`` or ``FAIL ...`` with the first argument that differs.

    Raises:
        Exception: what the op, a compiler or the executor raises.
    """
    lines: list[str] = []
    target = executing_target(arch)

    def both(launch: CapturedLaunch) -> None:
        listed = [tensor for value in launch.args if isinstance(value, list) for tensor in value]
        tensors = [*(value for value in launch.args if hasattr(value, "data_ptr")), *listed]
        before = [_storage(tensor).clone() for tensor in tensors]
        execute(launch)
        theirs = [_storage(tensor).clone() for tensor in tensors]
        for tensor, old in zip(tensors, before, strict=True):
            _storage(tensor).copy_(old)
        carry_out(kernels, launch, target)
        lines.append(_verdict(launch, tensors, theirs))

    with backend_set("cutile"):
        call = suite.inputs(case, "cpu", case.seed(seed))
        capture(lambda: suite.call(call, backend="cutile"), arch, device="cpu", carry_out=both)
    return lines


def _storage(tensor: Any) -> Any:
    """All bytes of the tensor's memory, whatever its strides."""
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(tensor.detach().untyped_storage())


def _verdict(launch: CapturedLaunch, tensors: list[Any], theirs: list[Any]) -> str:
    import torch

    for position, (tensor, wanted) in enumerate(zip(tensors, theirs, strict=True)):
        differing = int((_storage(tensor) != wanted).sum())
        if not torch.equal(_storage(tensor), wanted):
            return f"FAIL {launch.name}: {differing} of {len(wanted)} bytes of tensor {position} differ"
    return f"PASS BIT-EQUAL {launch.name}"
