# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tile_ir"))
from elf import cubin
from elf import instruction

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks import sass
from pytest_cutile_rs.checks.pairs import pair
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.tile_ir.verdict import Sameness
from tilegym_rs_backend.tile_ir.verdict import Verdict

CASE = Case("scale", "f16-4x64", "f16", (4, 64))


@dataclass(frozen=True)
class Launch:
    name: str
    bytecode: bytes
    grid: tuple[int, ...] = (4,)
    hints: dict = field(default_factory=dict)


class Assembler:
    """Answers a bytecode with the cubins listed for it, one after the other, and counts its runs."""

    def __init__(self, **images):
        self.images = {name.encode(): itertools.cycle(found) for name, found in images.items()}
        self.runs = []

    def __call__(self, bytecode, arch, *, fresh=False):
        assert arch == "sm_90"
        self.runs.append((bytecode.decode(), fresh))
        image = next(self.images[bytecode])
        if isinstance(image, Exception):
            raise image
        return image


ONE = cubin(instruction(1) * 4, registers=32)
TWO = cubin(instruction(2) * 4, registers=64, frame=16, shared=1024)
LONG = cubin(instruction(1) * 6)


def check(assemble, ours=(Launch("mine", b"a"),), theirs=(Launch("peer", b"b"),), **options):
    result = sass.check(CASE, ours, theirs, "sm_90", assemble=assemble, **options)
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()
    return result


@pytest.mark.parametrize("variant", ["native", "ported"])
def test_identical_code(variant):
    assemble = Assembler(a=[ONE], b=[ONE])
    result = check(assemble, variant=variant)
    assert result.verdict == "VERDICT: PASS SASS-IDENTICAL peer (64 B; grid and hints equal)"
    assert result.data["identical"]
    assert assemble.runs == [("a", False), ("b", False)]


def test_a_native_kernel_passes_with_its_differences_named():
    assemble = Assembler(a=[ONE], b=[LONG])
    result = check(assemble)
    assert result.status == "PASS"
    assert "identical" not in result.reason.lower()
    assert "mine / peer differ: code 64/96 B, registers 32/40, frame 0/0 B, shared 0/0 B" in result.reason
    assert not result.data["identical"]
    [row] = result.data["launches"]
    assert (row["verdict"], row["assemblies"], row["instructions"]) == ("SASS-DIFFERENT", 1, 6)
    assert row["theirs"]["text_bytes"] == 96


def test_a_ported_kernel_fails_after_four_assemblies():
    assemble = Assembler(a=[ONE], b=[TWO])
    result = check(assemble, variant="ported")
    assert result.status == "FAIL"
    assert "registers 32/64, frame 0/16 B, shared 0/1024 B" in result.reason
    assert result.data["launches"][0]["assemblies"] == 4
    assert len(assemble.runs) == 8
    assert [run for run in assemble.runs if not run[1]] == [("a", False), ("b", False)]


def test_an_assembler_that_is_not_deterministic_is_asked_again():
    assemble = Assembler(a=[ONE, TWO], b=[TWO, TWO, ONE])
    result = check(assemble, variant="ported")
    assert result.status == "PASS"
    assert result.data["launches"][0]["assemblies"] == 2
    assert result.data["launches"][0]["distinct_codes"] == [2, 1]


def test_repeats_follow_the_lengths_unless_told():
    assert check(Assembler(a=[ONE], b=[TWO])).data["launches"][0]["assemblies"] == 4
    assert check(Assembler(a=[ONE], b=[TWO]), repeat=False).data["launches"][0]["assemblies"] == 1
    assert check(Assembler(a=[ONE], b=[LONG]), repeat=True).data["launches"][0]["assemblies"] == 4


@pytest.mark.parametrize(
    ("same", "variant", "looked_at"), [(True, "ported", 8), (False, "ported", 4), (True, "native", 4)]
)
def test_ported_kernels_whose_tile_ir_says_the_same_are_given_more_tries(monkeypatch, same, variant, looked_at):
    monkeypatch.setattr(sass, "_by_chance", lambda *_: same)
    result = check(Assembler(a=[*[ONE] * 7, TWO], b=[TWO]), variant=variant)
    assert result.data["launches"][0]["assemblies"] == looked_at
    assert result.data["identical"] == (looked_at == 8)


@pytest.mark.parametrize(
    ("theirs", "readable", "same", "chance"),
    [(TWO, True, True, True), (TWO, True, False, False), (LONG, True, True, False), (TWO, False, True, False)],
)
def test_a_difference_is_chance_where_the_tile_ir_says_the_same(monkeypatch, theirs, readable, same, chance):
    sameness = Sameness.EQUIVALENT if same else Sameness.DIFFERS
    monkeypatch.setattr(sass.verdict, "compare", lambda *_, **__: Verdict(sameness))
    if readable:
        monkeypatch.setattr(sass, "read_kernel", lambda code: code)
    assemble = Assembler(a=[ONE], b=[theirs])
    [both] = pair([Launch("mine", b"a")], [Launch("peer", b"b")])
    sides = [sass._Side(launch, "sm_90", assemble) for launch in (both.ours, both.theirs)]
    assert sass._by_chance(both, sides, "sm_90") is chance


def test_identical_up_to_parameter_offsets():
    mine, peer = cubin(instruction(1, 5, 0x210)), cubin(instruction(1, 5, 0x218))
    result = check(Assembler(a=[mine], b=[peer]))
    assert result.reason == "mine / peer: identical up to parameter-bank offsets (16 B)"
    assert check(Assembler(a=[mine], b=[peer]), variant="ported").status == "FAIL"


def test_a_ported_launch_has_to_agree_in_grid_and_hints():
    ours = [Launch("mine", b"a", (4,), {"occupancy": 2})]
    theirs = [Launch("peer", b"b", (8, 1, 1), {})]
    result = check(Assembler(a=[ONE], b=[ONE]), ours, theirs, variant="ported")
    assert result.status == "FAIL"
    assert "mine: grid: ours (4, 1, 1), theirs (8, 1, 1); mine: occupancy: ours 2" in result.reason
    native = check(Assembler(a=[ONE], b=[ONE]), ours, theirs)
    assert native.reason == "SASS-IDENTICAL peer (64 B; launches differ in grid or hints)"
    spelled = [Launch("mine", b"a", (4, 1, 1), {"num_cta_in_cga": 2, "occupancy": 0})]
    same = [Launch("peer", b"b", (4,), {"num_ctas": 2})]
    assert check(Assembler(a=[ONE], b=[ONE]), spelled, same, variant="ported").status == "PASS"


def test_numbers_of_launches():
    two = [Launch("peer", b"b"), Launch("more", b"b")]
    images = {"a": [ONE], "b": [ONE]}
    assert check(Assembler(**images), theirs=two, variant="ported").status == "FAIL"
    assert check(Assembler(**images), theirs=two).reason == "1 launches (mine) against 2 (peer, more)"
    assert check(Assembler(), (), ()).status == "NOT-RUN"
    assert check(Assembler(), ()).status == "FAIL"
    assert check(Assembler(), theirs=()).status == "NOT-RUN"


@pytest.mark.parametrize(
    ("images", "status", "reason"),
    [
        ({"a": [CompileError("located")], "b": [ONE]}, "FAIL", "our kernel mine cannot be assembled for sm_90"),
        ({"a": [ONE], "b": [CompileError("located")]}, "NOT-RUN", "cuTile Python's kernel peer cannot be assembled"),
        ({"a": [ToolchainError("no tileiras")], "b": [ONE]}, "NOT-RUN", "no tileiras"),
        ({"a": [b"garbage"], "b": [ONE]}, "FAIL", "our kernel mine cannot be assembled"),
    ],
)
def test_what_cannot_be_assembled(images, status, reason):
    result = check(Assembler(**images))
    assert result.status == status
    assert reason in result.reason


def test_an_unknown_variant_is_an_error():
    with pytest.raises(ValueError, match="variant is one of"):
        check(Assembler(), variant="auto")
