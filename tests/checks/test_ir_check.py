# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tile_ir"))
import ir_kernels
from ir_writer import write_module

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks import ir
from tilegym_rs_backend.tile_ir.model import Module

CASE = Case("scale", "f16-4x64", "f16", (4, 64))
VIEW = write_module(ir_kernels.softmax().module())
POINTERS = write_module(ir_kernels.scaled_copy().module())
HOISTED = write_module(ir_kernels.scaled_copy(hoist=True).module())
TWO = write_module(Module((13, 4), [ir_kernels.softmax().finish(), ir_kernels.product().finish()]))


@dataclass(frozen=True)
class Launch:
    name: str
    bytecode: bytes
    grid: tuple[int, ...] = (4,)
    hints: dict = field(default_factory=dict)


def check(ours, theirs):
    result = ir.check(CASE, ours, theirs, "sm_90")
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert (result.check, result.op, result.case, result.dtype) == ("ir", "scale", "f16-4x64", "f16")
    return result


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(VIEW, VIEW, "IR-IDENTICAL in 1 kernel"), (POINTERS, HOISTED, "IR-EQUIVALENT in 1 kernel")],
)
def test_equal_kernels(ours, theirs, verdict):
    result = check([Launch("a", ours)], [Launch("b", theirs)])
    assert result.verdict == f"VERDICT: PASS {verdict}"
    assert result.data["equal"]
    assert result.data["categories"] == []


def test_each_difference_is_named_and_none_fails():
    result = check([Launch("mine", VIEW, (4,), {"occupancy": 2})], [Launch("peer", POINTERS, (8,), {})])
    assert result.status == "PASS"
    assert result.reason == "differs in memory_family, tile_shape, reduction, control, hint, arithmetic"
    assert "mine / peer: memory_family: ours 1 x view load (TMA), padding neg_inf (kernel.rs:10:1)" in result.details
    [row] = result.data["launches"]
    assert row["verdict"] == "DIFFERS"
    assert row["ours"] == {"kernel": "mine", "grid": [4, 1, 1], "hints": {"occupancy": 2}}
    assert row["launch_differences"] == [
        "grid: ours (4, 1, 1), theirs (8, 1, 1)",
        "occupancy: ours 2, theirs compiler's default",
    ]
    assert {"category", "what", "ours", "theirs", "our_line", "their_line"} == set(row["differences"][0])
    assert not result.data["equal"]


def test_numbers_of_launches_are_compared_too():
    one, two = [Launch("a", VIEW)], [Launch("b", VIEW), Launch("c", POINTERS)]
    result = check(one, two)
    assert result.status == "PASS"
    assert "1 launches (a) against 2 (b, c)" in result.details
    assert [s["kernel"] for s in result.data["surplus"]] == ["c"]


@pytest.mark.parametrize(
    ("ours", "theirs", "status", "reason"),
    [
        ([], [], "NOT-RUN", "neither side"),
        ([], [Launch("b", b"")], "FAIL", "launches nothing where cuTile Python launches b"),
        ([Launch("a", b"")], [], "NOT-RUN", "nothing to compare a with"),
        ([Launch("a", VIEW[:-1])], [Launch("b", VIEW)], "FAIL", "our kernel a is no valid Tile IR"),
        ([Launch("a", VIEW)], [Launch("b", VIEW[:-1])], "NOT-RUN", "kernel b cannot be read"),
        ([Launch("a", TWO)], [Launch("b", VIEW)], "FAIL", "our kernel a is no valid Tile IR"),
    ],
)
def test_what_cannot_be_compared(ours, theirs, status, reason):
    result = check(ours, theirs)
    assert result.status == status
    assert reason in result.reason
