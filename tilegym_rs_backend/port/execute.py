# SPDX-License-Identifier: MIT
"""Carry a captured launch out on the CPU: compile it to bytecode and execute that over its tensors' memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from tilegym_rs_backend.port.stored import bytecode
from tilegym_rs_backend.tile_ir.execute import Options
from tilegym_rs_backend.tile_ir.execute import Statistics
from tilegym_rs_backend.tile_ir.execute import run_launch

if TYPE_CHECKING:
    from tilegym_rs_backend.port.capture import CapturedLaunch


def execute(launch: CapturedLaunch, options: Options | None = None) -> Statistics:
    """Execute a launch whose tensors lie on the CPU.

    Raises:
        CompileError: cuTile Python's front end refused the kernel.
        ExecutionError: a fault in the kernel, or something that a CPU cannot execute.
    """
    # Every extent stays a parameter, so that a tensor always stands for address, extents and strides.
    program = bytecode(launch, singleton_extents=False)
    return run_launch(program, launch.grid, list(arguments(launch)), options=options)


def arguments(launch: CapturedLaunch) -> Iterator[Any]:
    """What the kernel takes at run time: the arguments without constants, tuples spread."""
    for name, value in zip(launch.parameters, launch.args, strict=True):
        if name not in launch.constants:
            yield from value if isinstance(value, tuple) else (value,)
