# SPDX-License-Identifier: MIT
"""A case of cuTile Python's executed on the CPU, in the worker process: each launch when the op asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.arguments import copied
from pytest_cutile_rs.checks.arguments import modified
from pytest_cutile_rs.checks.guard import guarded
from pytest_cutile_rs.peers.wire import Packed
from pytest_cutile_rs.peers.wire import pack


@dataclass(frozen=True)
class Executed:
    """What a `PeerRun` is made of, as it travels."""

    outputs: tuple[Packed, ...]
    launches: tuple[str, ...]
    blocks: int
    approximate: tuple[str, ...]
    modified: tuple[str, ...]


def execute(suite: OpSuite, case: Case, arch: str, seed: int) -> Executed:
    """Run a case on CPU tensors.

    What the op allocates with ``torch.empty`` and its kind counts as unwritten and is NaN, so that an output which no
    kernel stored shows. A tuner gets the first configuration it would have tried, as for the comparison of kernels. An
    op that ``arch`` does not have yet is executed for the first one that has it.

    Raises:
        CompileError: cuTile Python's front end refused a kernel.
        ExecutionError: a kernel has a fault, or something that a CPU cannot execute.
        Exception: whatever the op raises.
    """
    import torch

    from tilegym_rs_backend import fresh
    from tilegym_rs_backend.port import capture as capturing
    from tilegym_rs_backend.port import execute as executing

    capturing.import_tilegym().set_backend("cutile")
    call = suite.inputs(case, "cpu", case.seed(seed))
    before = copied(call)
    launches: list[str] = []
    approximate: set[str] = set()
    blocks = 0
    result: Any = None

    def run() -> None:
        nonlocal result
        result = suite.call(call, backend="cutile")

    def carry_out(launch: Any) -> None:
        nonlocal blocks
        statistics = executing.execute(launch)
        launches.append(launch.name)
        approximate.update(statistics.approximate)
        blocks += statistics.blocks

    with torch.no_grad(), guarded(), fresh.uninitialized_memory():
        capturing.capture(run, suite.arch_for(arch), device="cpu", carry_out=carry_out)
    outputs = tuple(pack(output) for output in suite.outputs(case, call, result))
    return Executed(outputs, tuple(launches), blocks, tuple(sorted(approximate)), tuple(modified(suite, before, call)))
