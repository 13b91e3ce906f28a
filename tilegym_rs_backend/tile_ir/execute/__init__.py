# SPDX-License-Identifier: MIT
"""Tile IR executed on the CPU with numpy, over the tensors' own memory.

`compile_function` turns an entry into a `Program` once; `Program.run` runs its blocks over a `Memory`. `run_launch`
does both from bytecode and torch tensors.
"""

from __future__ import annotations

from tilegym_rs_backend.tile_ir.execute.compile import compile_function
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.launch import flatten
from tilegym_rs_backend.tile_ir.execute.launch import run_launch
from tilegym_rs_backend.tile_ir.execute.memory import Memory
from tilegym_rs_backend.tile_ir.execute.program import Options
from tilegym_rs_backend.tile_ir.execute.program import Program
from tilegym_rs_backend.tile_ir.execute.program import Statistics

__all__ = [
    "ExecutionError",
    "Memory",
    "Options",
    "Program",
    "Statistics",
    "compile_function",
    "flatten",
    "run_launch",
]
