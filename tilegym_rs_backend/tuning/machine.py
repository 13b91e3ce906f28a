# SPDX-License-Identifier: MIT
"""What a multiprocessor of each architecture holds, and the rates the model of `model.py` reckons with.

Limits are the CUDA programming guide's (compute capabilities). Rates are those of the part that stands for its
architecture (`target.SM_COUNTS`); only their proportions matter for a ranking. docs/tuning.md states them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace

from ..target import SM_COUNTS


@dataclass(frozen=True)
class Machine:
    """A GPU as rules and model see it.

    Attributes:
        arch: ``"sm_90"``; sm_count: multiprocessors.
        registers, threads, blocks: of one multiprocessor, the most there are at a time.
        shared_bytes: shared memory of one multiprocessor; block_shared_bytes: what one block may have of it, as cubins
            count; block_reserve: what the system keeps per block besides (cubins of sm_90 and later count it already).
        clusters: whether blocks can form clusters (num_cta_in_cga above 1).
        warpgroup: whether tensor cores take operands from shared memory, four warps at a time (Hopper).
        clock_ghz: under load.
        dram_gb_s: device memory; l2_bytes_per_clock: what a multiprocessor gets from L2.
        shared_bytes_per_clock: a multiprocessor's shared memory.
        mma_flops_per_clock: tensor cores of a multiprocessor by operand type; the key ``""`` is everything else.
    """

    arch: str
    sm_count: int
    registers: int = 65536
    threads: int = 2048
    blocks: int = 32
    shared_bytes: int = 167936
    block_shared_bytes: int = 166912
    block_reserve: int = 0
    clusters: bool = False
    warpgroup: bool = False
    clock_ghz: float = 1.4
    dram_gb_s: float = 1900.0
    l2_bytes_per_clock: float = 40.0
    shared_bytes_per_clock: float = 128.0
    mma_flops_per_clock: Mapping[str, float] = field(default_factory=lambda: {"tf32": 1024, "f16": 2048, "": 128})

    @property
    def family(self) -> str:
        """The architecture whose tables serve this one: sm_86 has sm_80's, sm_121 sm_120's."""
        return family(self.arch)


_FAMILIES = {
    "sm_80": Machine("sm_80", SM_COUNTS["sm_80"], block_reserve=1024),
    "sm_90": Machine(
        "sm_90",
        SM_COUNTS["sm_90"],
        shared_bytes=233472,
        block_shared_bytes=233472,
        clusters=True,
        warpgroup=True,
        clock_ghz=1.6,
        dram_gb_s=4400.0,
        l2_bytes_per_clock=72.0,
        mma_flops_per_clock={"tf32": 2048, "f16": 4096, "f8": 8192, "": 256},
    ),
    "sm_100": Machine(
        "sm_100",
        SM_COUNTS["sm_100"],
        shared_bytes=233472,
        block_shared_bytes=233472,
        clusters=True,
        clock_ghz=1.8,
        dram_gb_s=7200.0,
        l2_bytes_per_clock=64.0,
        mma_flops_per_clock={"tf32": 4096, "f16": 8192, "f8": 16384, "": 256},
    ),
    "sm_120": Machine(
        "sm_120",
        SM_COUNTS["sm_120"],
        threads=1536,
        blocks=24,
        shared_bytes=102400,
        block_shared_bytes=102400,
        clusters=True,
        clock_ghz=2.4,
        dram_gb_s=1700.0,
        mma_flops_per_clock={"tf32": 512, "f16": 1024, "f8": 2048, "": 256},
    ),
}
FAMILIES = tuple(_FAMILIES)
"""Architectures with tables of their own; another has those of the newest that is not newer."""


def family(arch: str) -> str:
    """Return the architecture of `FAMILIES` whose tables serve `arch`."""
    number = _number(arch)
    older = [name for name in FAMILIES if _number(name) <= number]
    return older[-1] if older else FAMILIES[0]


def machine(arch: str, sm_count: int | None = None) -> Machine:
    """Return the machine that stands for an architecture, with `sm_count` multiprocessors if given."""
    known = _FAMILIES[family(arch)]
    return replace(known, arch=arch, sm_count=sm_count or SM_COUNTS.get(arch, known.sm_count))


def _number(arch: str) -> int:
    digits = "".join(each for each in arch.removeprefix("sm_") if each.isdigit())
    return int(digits or 0)
