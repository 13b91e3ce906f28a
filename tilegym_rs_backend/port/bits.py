# SPDX-License-Identifier: MIT
"""Both sides of a launch over equal memory, compared bit by bit; without a GPU both are executed on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
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

    def both(launch: CapturedLaunch) -> None:
        differences = execute_launch_twice(kernels, launch, arch)
        lines.append(f"FAIL {launch.name}: {differences[0]}" if differences else f"PASS BIT-EQUAL {launch.name}")

    with backend_set("cutile"):
        call = suite.inputs(case, "cpu", case.seed(seed))
        capture(lambda: suite.call(call, backend="cutile"), arch, device="cpu", carry_out=both)
    return lines


def execute_launch_twice(
    kernels: PortedKernels, launch: CapturedLaunch, arch: str, differing: Callable[[Any, Any], str] | None = None
) -> list[str]:
    """Execute a launch on the CPU as its original and as its translation; returns what differs, a line per tensor.

    ``differing`` as for `over_equal_memory`.

    Raises:
        Exception: what a compiler or the executor raises.
    """
    target = executing_target(arch)
    sides = (lambda: execute(launch), lambda: carry_out(kernels, launch, target))
    return over_equal_memory(launch.args, *sides, differing)


def over_equal_memory(
    args: Sequence[Any],
    theirs: Callable[[], Any],
    ours: Callable[[], Any],
    differing: Callable[[Any, Any], str] | None = None,
) -> list[str]:
    """Call ``theirs``, put back what it wrote, call ``ours``, and compare all memory of all tensors.

    Args:
        args: of the launch; tensors in lists count too.
        theirs, ours: launch the two sides on these arguments.
        differing: given a tensor as ours and as theirs left it, says what is wrong, ``""`` for nothing; the default
            compares every byte of its memory.

    Returns:
        A line per tensor that differs.
    """
    listed = [tensor for value in args if isinstance(value, list) for tensor in value]
    tensors = [*(value for value in args if hasattr(value, "data_ptr")), *listed]
    before = [_storage(tensor).clone() for tensor in tensors]
    theirs()
    wanted = [_storage(tensor).clone() for tensor in tensors]
    for tensor, old in zip(tensors, before, strict=True):
        _storage(tensor).copy_(old)
    ours()
    found = []
    for position, (tensor, want) in enumerate(zip(tensors, wanted, strict=True)):
        text = differing(tensor, _like(tensor, want)) if differing else _bytes(tensor, want)
        if text:
            found.append(f"tensor {position}: {text}")
    return found


def _storage(tensor: Any) -> Any:
    """All bytes of the tensor's memory, whatever its strides."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.detach().untyped_storage())


def _like(tensor: Any, content: Any) -> Any:
    """The tensor's view of another memory."""
    import torch

    base = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return base.set_(content.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def _bytes(tensor: Any, wanted: Any) -> str:
    differing = int((_storage(tensor) != wanted).sum())
    return f"{differing} of {len(wanted)} bytes differ" if differing else ""
