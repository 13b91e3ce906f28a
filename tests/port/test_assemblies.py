# SPDX-License-Identifier: MIT
"""How often two texts are assembled before their machine code is called different; the assembler is a list."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

from tilegym_rs_backend.port import assemblies
from tilegym_rs_backend.port import comparison
from tilegym_rs_backend.tile_ir.machine_code import Sameness
from tilegym_rs_backend.tile_ir.verdict import Sameness as IrSameness
from tilegym_rs_backend.tile_ir.verdict import Verdict


@pytest.fixture
def assembler(monkeypatch):
    """Gives each side's codes one after the other, the last one again and again; notes the runs."""
    found = SimpleNamespace(codes={b"ours": [], b"theirs": []}, runs=[])

    def assemble(code, arch, fresh):
        assert fresh
        found.runs.append(code)
        codes = found.codes[code]
        return codes.pop(0) if len(codes) > 1 else codes[0]

    def same(one, other):
        return Sameness.IDENTICAL if one.text == other.text else Sameness.DIFFERENT

    monkeypatch.setattr(assemblies, "assemble", assemble)
    monkeypatch.setattr(assemblies, "compare_code", same)
    monkeypatch.setattr(
        assemblies, "read_cubin", lambda image: SimpleNamespace(only=lambda: SimpleNamespace(text=image))
    )
    return found


def met(first, second, most=4):
    return assemblies.meeting(b"ours", b"theirs", (first, second), "sm_90", most)


def test_any_two_assemblies_may_meet(assembler):
    assembler.codes = {b"ours": [b"b", b"c"], b"theirs": [b"y", b"b"]}
    assert met(b"a", b"x") == (b"b", b"b")
    assert assembler.runs == [b"ours", b"theirs"] * 2


def test_what_never_meets_is_given_as_it_was(assembler):
    assembler.codes = {b"ours": [b"b"], b"theirs": [b"y"]}
    assert met(b"a", b"x", most=3) == (b"a", b"x")
    assert len(assembler.runs) == 2 * 2


@pytest.mark.parametrize("theirs", [b"a", b"xy"])
def test_equal_code_and_code_of_another_length_are_not_assembled_again(assembler, theirs):
    assert met(b"a", theirs) == (b"a", theirs)
    assert assembler.runs == []


@pytest.mark.parametrize(
    ("sameness", "plain", "most"),
    [
        (IrSameness.DIFFERS, False, 4),
        (IrSameness.EQUIVALENT, False, 12),
        (IrSameness.IDENTICAL, False, 12),
        (IrSameness.EQUIVALENT, True, 4),  # the parity passes are tried next
    ],
)
def test_texts_that_say_the_same_are_given_more_tries(monkeypatch, sameness, plain, most):
    asked = []
    kernel = SimpleNamespace(text=b"code")

    def meeting(ours, theirs, cubins, arch, tries):
        asked.append(tries)
        return cubins

    monkeypatch.setattr(comparison, "meeting", meeting)
    monkeypatch.setattr(comparison, "bytecode", lambda launch: b"theirs")
    monkeypatch.setattr(comparison, "translated_bytecode", lambda *_: b"ours")
    monkeypatch.setattr(comparison, "assemble", lambda code, arch, name: code)
    monkeypatch.setattr(comparison, "read_cubin", lambda image: SimpleNamespace(only=lambda: kernel))
    monkeypatch.setattr(comparison, "compare_code", lambda *_: Sameness.IDENTICAL)
    monkeypatch.setattr(comparison, "ir_verdict", lambda *_: Verdict(sameness))
    entry = SimpleNamespace(name="k", baked=(), passes=(), plain=plain)
    found = comparison.compare_launch(None, SimpleNamespace(arch="sm_90", name="k"), entry)
    assert (found.verdict, asked) == (comparison.IDENTICAL, [most])
