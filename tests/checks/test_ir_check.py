# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tile_ir"))
from listings import POINTERS
from listings import VIEW

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks import ir
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.tile_ir.listing import parse_listing

CASE = Case("scale", "f16-4x64", "f16", (4, 64))


@dataclass(frozen=True)
class Launch:
    name: str
    bytecode: bytes
    grid: tuple[int, ...] = (4,)
    hints: dict = field(default_factory=dict)


def read(bytecode):
    if bytecode.startswith(b"bad"):
        raise CompileError("tileirdisasm refused the bytecode (exit status 1): bad operand")
    return parse_listing(bytecode.decode())[0]


def check(ours, theirs):
    result = ir.check(CASE, ours, theirs, "sm_90", read=read)
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    assert (result.check, result.op, result.case, result.dtype) == ("ir", "scale", "f16-4x64", "f16")
    return result


def test_equal_listings():
    result = check([Launch("a", VIEW.encode())], [Launch("b", VIEW.encode())])
    assert result.verdict.startswith("VERDICT: PASS IR-EQUAL")
    assert result.data["equal"]
    assert result.data["categories"] == []


def test_each_difference_is_named_and_none_fails():
    result = check(
        [Launch("mine", VIEW.encode(), (4,), {"occupancy": 2})], [Launch("peer", POINTERS.encode(), (8,), {})]
    )
    assert result.status == "PASS"
    assert result.reason == "differs in memory_family, tile_shape, reduction, control, hint"
    assert "mine / peer: memory_family: how memory is reached: ours view load without TMA" in result.details
    [row] = result.data["launches"]
    assert row["ours"] == {"kernel": "mine", "grid": [4, 1, 1], "hints": {"occupancy": 2}}
    assert row["launch_differences"] == [
        "grid: ours (4, 1, 1), theirs (8, 1, 1)",
        "occupancy: ours 2, theirs compiler's default",
    ]
    assert {"category", "what", "ours", "theirs"} == set(row["differences"][0])
    assert not result.data["equal"]


def test_numbers_of_launches_are_compared_too():
    one, two = [Launch("a", VIEW.encode())], [Launch("b", VIEW.encode()), Launch("c", POINTERS.encode())]
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
        ([Launch("a", b"bad")], [Launch("b", VIEW.encode())], "FAIL", "our kernel a is no valid Tile IR"),
        ([Launch("a", VIEW.encode())], [Launch("b", b"bad")], "NOT-RUN", "kernel b cannot be read"),
    ],
)
def test_what_cannot_be_compared(ours, theirs, status, reason):
    result = check(ours, theirs)
    assert result.status == status
    assert reason in result.reason


def test_without_a_toolkit_nothing_ran(monkeypatch):
    def missing():
        raise ToolchainError("no CUDA toolkit: run `tilegym-rs setup`")

    monkeypatch.setattr(ir, "reader", missing)
    result = ir.check(CASE, [Launch("a", b"x")], [Launch("b", b"y")], "sm_90")
    assert result.verdict == "VERDICT: NOT-RUN no CUDA toolkit: run `tilegym-rs setup`"
