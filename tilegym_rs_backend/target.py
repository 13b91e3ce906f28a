# SPDX-License-Identifier: MIT
"""Where a launch goes: a CUDA device, the CPU, or a recorder that only notes what would be launched."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING

from .errors import LaunchError
from .toolchain.toolkit import check_arch

if TYPE_CHECKING:
    import torch

    from .library import Library

# Multiprocessors of the part that is common in data centres or on desks: it stands for its architecture when no GPU is
# there, so that grids match that machine's.
SM_COUNTS = {
    "sm_80": 108,
    "sm_86": 84,
    "sm_89": 142,
    "sm_90": 132,
    "sm_100": 148,
    "sm_103": 148,
    "sm_120": 188,
    "sm_121": 48,
}
DEFAULT_ARCH = "sm_90"


@dataclass(frozen=True)
class Recorded:
    """One launch that was asked for under `record`.

    `token` is the specialization's number in `library`, `spec_text` its stable text; grid counts tile blocks.
    """

    kernel: str
    token: int
    grid: tuple[int, int, int]
    constants: dict[str, int]
    hints: dict[str, int]
    spec_text: str
    library: Library = field(repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class Target:
    """A device as the ops see it: architecture, multiprocessor count, CUDA index (-1: a recorder, -2: the CPU)."""

    arch: str
    sm_count: int
    index: int
    recorded: list[Recorded] = field(default_factory=list)


RECORDS = -1
EXECUTES = -2

_devices: dict[int, Target] = {}
_cpus: dict[str, Target] = {}
_recorder: contextvars.ContextVar[Target | None] = contextvars.ContextVar("tilegym_rs_recorder", default=None)


def target_of(tensor: torch.Tensor, op: str, name: str, *, executes: bool = True) -> Target:
    """Return the target of a launch on `tensor`.

    A CPU tensor's launches are executed on the CPU if the machine has no GPU or TILEGYM_RS_CPU=execute, and
    `executes`.

    Raises:
        LaunchError: the tensor is not on a CUDA device, nothing records and nothing executes; the message names the
            tensor.
    """
    index = tensor.get_device() if tensor.is_cuda else -1
    if index >= 0:
        return target_of_device(index)
    recorder = _recorder.get()
    if recorder is not None:
        return recorder
    if executes and tensor.is_cpu and _executes():
        return executing_target()
    hint = ", or set TILEGYM_RS_CPU=execute to have the kernel executed on the CPU, slowly" if executes else ""
    raise LaunchError(
        f"{op}: {name} is on {tensor.device}; the Rust kernels run on CUDA tensors: move it with .cuda(){hint}", rc=-4
    )


def _executes() -> bool:
    choice = os.environ.get("TILEGYM_RS_CPU")
    if choice in ("execute", "refuse"):
        return choice == "execute"
    if choice:
        raise LaunchError(f"TILEGYM_RS_CPU={choice!r}: it is 'execute', 'refuse' or unset", rc=-6)
    import torch

    return not torch.cuda.is_available()


def executing_target(arch: str | None = None) -> Target:
    """Return the CPU, standing for `arch` (TILEGYM_RS_ARCH or sm_90): grids are those of that machine."""
    arch = arch or os.environ.get("TILEGYM_RS_ARCH") or DEFAULT_ARCH
    found = _cpus.get(arch)
    return found or _cpus.setdefault(arch, Target(arch, SM_COUNTS.get(arch, SM_COUNTS[DEFAULT_ARCH]), EXECUTES))


def target_of_device(index: int) -> Target:
    """Return the target that stands for CUDA device `index`.

    Raises:
        ToolchainError: tileiras does not know its architecture.
    """
    found = _devices.get(index)
    return found if found is not None else _device(index)


def _device(index: int) -> Target:
    import torch

    properties = torch.cuda.get_device_properties(index)
    arch = arch_of((properties.major, properties.minor), f"cuda:{index}, {properties.name},")
    return _devices.setdefault(index, Target(arch, properties.multi_processor_count, index))


def arch_of(capability: tuple[int, int], what: str) -> str:
    """Return the architecture to compile for on a device of a compute capability: TILEGYM_RS_ARCH, or its own.

    Raises:
        ToolchainError: tileiras does not know it; the message calls the device ``what``.
    """
    chosen = os.environ.get("TILEGYM_RS_ARCH")
    arch = chosen or "sm_{}{}".format(*capability)
    check_arch(arch, "TILEGYM_RS_ARCH" if chosen else what)
    return arch


def recording_target() -> Target | None:
    """Return the recorder of the `record` around the caller, None outside of one."""
    return _recorder.get()


def recorder_target(arch: str | None = None, sm_count: int | None = None) -> Target:
    """Return a fresh recorder for `arch` (TILEGYM_RS_ARCH or sm_90), with that architecture's multiprocessor count."""
    arch = arch or os.environ.get("TILEGYM_RS_ARCH") or DEFAULT_ARCH
    return Target(arch, sm_count or SM_COUNTS.get(arch, SM_COUNTS[DEFAULT_ARCH]), RECORDS)


@contextlib.contextmanager
def record(arch: str | None = None, sm_count: int | None = None) -> Iterator[list[Recorded]]:
    """Let ops take CPU and meta tensors, launch nothing, and yield the list of launches they would have made.

    CUDA tensors launch as always. The outputs of a recorded op are allocated and hold nothing of meaning.
    """
    target = recorder_target(arch, sm_count)
    token = _recorder.set(target)
    try:
        yield target.recorded
    finally:
        _recorder.reset(token)
