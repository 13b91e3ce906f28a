# SPDX-License-Identifier: MIT
"""What fits a multiprocessor, reckoned by hand from the programming guide's limits."""

from __future__ import annotations

import pytest
from tuning_space import resources

from tilegym_rs_backend.tuning.machine import machine

H200 = machine("sm_90")


@pytest.mark.parametrize(
    ("asked", "arch", "blocks"),
    [
        (resources(registers=255, shared=0, threads=256), "sm_90", 1),  # 256 x 256 of 65536 registers
        (resources(registers=128, shared=0, threads=256), "sm_90", 2),
        (resources(registers=121, shared=0, threads=256), "sm_90", 2),  # given out in eights: 128
        (resources(registers=80, shared=0, threads=384), "sm_90", 2),
        (resources(registers=168, shared=0, threads=384), "sm_90", 1),
        (resources(registers=32, shared=0, threads=128), "sm_90", 16),  # 2048 threads
        (resources(registers=16, shared=0, threads=32), "sm_90", 32),  # 32 blocks
        (resources(registers=16, shared=0, threads=32), "sm_120", 24),
        (resources(registers=32, shared=115816, threads=128), "sm_90", 2),
        (resources(registers=32, shared=116737, threads=128), "sm_90", 1),
        (resources(registers=32, shared=81920, threads=128), "sm_80", 2),  # and 1 KiB per block for the system
        (resources(registers=32, shared=83000, threads=128), "sm_80", 1),
        (resources(registers=32, shared=233472, threads=128), "sm_90", 1),
        (resources(registers=32, shared=233473, threads=128), "sm_90", 0),
        (resources(registers=32, shared=102401, threads=128), "sm_120", 0),
    ],
)
def test_resident_blocks(asked, arch, blocks):
    assert asked.resident(machine(arch)) == blocks


@pytest.mark.parametrize(
    ("asked", "occupancy", "why"),
    [
        (resources(), 0, ""),
        (resources(), 4, ""),
        (resources(frame=904), 0, "spills: 904 bytes of stack for each thread"),
        (resources(shared=240000), 0, "shared memory: 240000 bytes of the 233472 a block may have"),
        (resources(registers=255, threads=256), 2, "resident blocks: 1 of the 2 asked for fit a multiprocessor"),
        (resources(registers=255, threads=512), 0, "resident blocks: 0 of the 1 asked for fit a multiprocessor"),
    ],
)
def test_why_a_candidate_is_not_worth_measuring(asked, occupancy, why):
    assert asked.unfit(occupancy, H200) == why
