# SPDX-License-Identifier: MIT
"""The roofline that ranks candidates before any is measured: bytes, products, waves, pipeline depth.

docs/tuning.md states it in words. Times are in clocks of a multiprocessor until the end. It need not be right in
microseconds, only in order: what it leaves out equally for all candidates of a problem does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .machine import Machine
from .resources import Resources
from .space import Work

LOAD_CLOCKS = 2400.0
"""From asking for a tile to having it in shared memory while all multiprocessors ask: bytes in flight over rate."""
FILL_CLOCKS = 900.0
"""The same for the first tile of a block, when nobody else asks."""
STEP_CLOCKS = 40.0
"""What a step costs a block besides its work: waiting at barriers, starting the products."""
TILE_CLOCKS = 700.0
"""What a tile costs a block besides its steps and bytes: indices, converting and storing the result."""
LAUNCH_US = 1.0
"""What a launch costs in any case."""
WRITE_SHARE = 0.5
"""What a byte that the copy engine writes to shared memory costs, as a share of one that is read there."""
SHARPNESS = 16.0
"""How sharply the slowest of the overlapping rates decides: the p of a p-norm over them."""


@dataclass(frozen=True)
class Prediction:
    """Microseconds, and what they are made of.

    Attributes:
        us: the launch.
        bound: what limits it most: ``"mma"``, ``"l2"``, ``"shared"``, ``"ops"``, ``"latency"`` or ``"dram"``.
        waves: tiles per multiprocessor.
    """

    us: float
    bound: str
    waves: float


def predict(work: Work, resident: int, warps: int, stages: float, machine: Machine) -> Prediction:
    """Return what the model says of a launch.

    Args:
        work: its work.
        resident: blocks a multiprocessor holds at a time.
        warps: worker warps of a block.
        stages: steps whose loads a block has in flight.
        machine: where it runs.
    """
    per_sm = math.ceil(work.tiles / machine.sm_count)
    together = max(min(resident, per_sm), 1)  # blocks that share a multiprocessor
    rates = {
        "mma": _mma_clocks(work, warps, machine),
        "shared": _shared_clocks(work, warps, machine),
        "l2": work.step_bytes / machine.l2_bytes_per_clock,
        "ops": work.step_ops / machine.mma_flops_per_clock[""],
        "latency": LOAD_CLOCKS / (max(stages, 1.0) * together),
    }
    step = _norm(rates.values()) + STEP_CLOCKS / together
    fill = FILL_CLOCKS + TILE_CLOCKS + work.tile_bytes / machine.l2_bytes_per_clock
    exposed = fill / together
    if work.persistent and per_sm > 1:
        exposed /= 2  # the next tile's loads start while this one is stored
    busy = per_sm * (work.steps * step + exposed)
    busy_us = busy / (machine.clock_ghz * 1e3)
    dram_us = work.least_bytes / (machine.dram_gb_s * 1e3)
    us = _norm((busy_us, dram_us)) + LAUNCH_US
    bound = "dram" if dram_us > busy_us else max(rates, key=lambda name: rates[name])
    return Prediction(us, bound, work.tiles / machine.sm_count)


def predict_compiled(work: Work, resources: Resources, warps: int, machine: Machine) -> Prediction:
    """Return what the model says of a compiled candidate: residency and pipeline depth as the cubin has them."""
    return predict(work, resources.resident(machine), warps, _stages(work, resources.shared_bytes), machine)


def predict_uncompiled(work: Work, occupancy: int, warps: int, machine: Machine) -> Prediction:
    """Return what the model says before anything is compiled: the blocks asked for fit, and fill shared memory."""
    resident = max(occupancy, 1)
    stages = _stages(work, min(machine.shared_bytes // resident, machine.block_shared_bytes))
    return predict(work, resident, warps, min(stages, work.stages or stages), machine)


def _stages(work: Work, shared_bytes: int) -> float:
    """Return how many steps' loads a block's shared memory holds, beside what a tile stores."""
    if not work.step_bytes:
        return 1.0
    return max((shared_bytes - min(work.tile_bytes, shared_bytes / 2)) / work.step_bytes, 1.0)


def _norm(values: object) -> float:
    numbers = [float(value) for value in values]  # type: ignore[attr-defined]
    top = max(numbers)
    if top <= 0:
        return 0.0
    return float(top * sum((number / top) ** SHARPNESS for number in numbers) ** (1 / SHARPNESS))


def _mma_clocks(work: Work, warps: int, machine: Machine) -> float:
    """Clocks of a step's products at the tensor cores' full rate; tiles below the instruction's extent are padded."""
    if not work.mma:
        return 0.0
    rate = machine.mma_flops_per_clock.get(work.mma_type, machine.mma_flops_per_clock["f16"])
    least_m, least_n = (64, 8) if machine.warpgroup else (16, 8)
    return sum(2.0 * max(m, least_m) * max(n, least_n) * k for m, n, k in work.mma) / rate


def _shared_clocks(work: Work, warps: int, machine: Machine) -> float:
    """Clocks of a step's traffic with shared memory: what is loaded is written once, and read by each group of warps.

    A Hopper warpgroup's instruction covers 64 rows and reads both operands; with more warpgroups than such rows, each
    has a share of the columns. Older tensor cores get theirs by warps that share the tile in two dimensions.
    """
    size = {"tf32": 4, "f16": 2, "f8": 1}.get(work.mma_type, 4)
    traffic = WRITE_SHARE * work.step_bytes
    for m, n, k in work.mma:
        if machine.warpgroup:
            rows = max(m // 64, 1)
            wide = min(n // max(warps // 4 // rows, 1), 256)
            traffic += rows * math.ceil(n / wide) * (64 + wide) * k * size
        else:
            across = 2 if warps >= 4 else 1
            down = max(warps // across, 1)
            traffic += (m * across + n * down) * k * size
    return traffic / machine.shared_bytes_per_clock
