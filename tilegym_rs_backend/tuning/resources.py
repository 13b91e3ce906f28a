# SPDX-License-Identifier: MIT
"""What a compiled candidate asks of a multiprocessor, read from its cubin, and whether that is a reason to drop it."""

from __future__ import annotations

from dataclasses import asdict
from dataclasses import dataclass
from typing import Any

from ..tile_ir.cubin import read_cubin
from .machine import Machine

_REGISTER_GRAIN = 8  # registers per thread are given out in steps


@dataclass(frozen=True)
class Resources:
    """Per block, as the cubin says.

    Attributes:
        registers: per thread at launch; a warp-specialized kernel redistributes them.
        frame_bytes: stack per thread; more than 0 means spills or local arrays.
        shared_bytes: shared memory.
        threads: all of them, also those that only load.
        text_bytes: machine code.
    """

    registers: int
    frame_bytes: int
    shared_bytes: int
    threads: int
    text_bytes: int

    @classmethod
    def of(cls, image: bytes) -> Resources:
        """Read a cubin with one kernel; raises CubinError."""
        kernel = read_cubin(image).only()
        return cls(kernel.registers, kernel.frame_bytes, kernel.shared_bytes, kernel.threads, len(kernel.text))

    def resident(self, machine: Machine) -> int:
        """Return how many blocks a multiprocessor holds at a time; 0 if not even one."""
        registers = -(-self.registers // _REGISTER_GRAIN) * _REGISTER_GRAIN * self.threads
        limits = [machine.blocks, machine.threads // max(self.threads, 1)]
        if registers:
            limits.append(machine.registers // registers)
        if self.shared_bytes > machine.block_shared_bytes:
            return 0
        limits.append(machine.shared_bytes // max(self.shared_bytes + machine.block_reserve, 1))
        return min(limits)

    def unfit(self, occupancy: int, machine: Machine) -> str:
        """Return why the candidate is not worth measuring, empty when it is.

        Args:
            occupancy: blocks per multiprocessor that the hint asked for, 0 when it asked for none.
            machine: the multiprocessor.
        """
        if self.frame_bytes:
            return f"spills: {self.frame_bytes} bytes of stack for each thread"
        if self.shared_bytes > machine.block_shared_bytes:
            return f"shared memory: {self.shared_bytes} bytes of the {machine.block_shared_bytes} a block may have"
        resident = self.resident(machine)
        if resident < max(occupancy, 1):
            return f"resident blocks: {resident} of the {max(occupancy, 1)} asked for fit a multiprocessor"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a table."""
        return asdict(self)
