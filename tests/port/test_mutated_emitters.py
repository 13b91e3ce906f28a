# SPDX-License-Identifier: MIT
"""Every emitter of the translator, made wrong in turn: a check has to find each.

All mutated kernels are in one crate, built once. The Tile IR is compared first; only where it finds nothing is machine
code assembled.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

from mutations import BY_CODE
from mutations import IR
from mutations import MUTATIONS
from mutations import WITHOUT

from tilegym_rs_backend.port.comparison import DIFFERENT
from tilegym_rs_backend.port.comparison import IDENTICAL
from tilegym_rs_backend.port.comparison import compare_launch
from tilegym_rs_backend.port.comparison import ir_verdict
from tilegym_rs_backend.port.comparison import translated_bytecode
from tilegym_rs_backend.port.translate import translate
from tilegym_rs_backend.port.translate.registry import EMITTERS
from tilegym_rs_backend.tile_ir.verdict import Sameness

KERNELS = sorted({mutation.kernel for mutation in MUTATIONS})


def verdict(crate, name, entry):
    ours = translated_bytecode(crate.kernels, crate.launches[name], entry)
    return ir_verdict(ours, crate.original(name), crate.launches[name].arch)


@pytest.mark.cargo
@pytest.mark.parametrize("name", KERNELS)
def test_the_right_translation_is_the_originals(shared_crate, name):
    entry = shared_crate.kernels.entry(shared_crate.launches[name])
    if name in BY_CODE:
        assert compare_launch(shared_crate.kernels, shared_crate.launches[name]).verdict == IDENTICAL
        return
    found = verdict(shared_crate, name, entry)
    assert found.sameness is not Sameness.DIFFERS, [str(each) for each in found.differences]


@pytest.mark.cargo
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_wrong_emitter_is_caught(shared_crate, mutation):
    entry = shared_crate.wrong[mutation.id]
    assert entry.name not in shared_crate.refused, shared_crate.refused[entry.name]
    if mutation.caught_by == IR:
        assert verdict(shared_crate, mutation.kernel, entry).sameness is Sameness.DIFFERS
        return
    launch = shared_crate.launches[mutation.kernel]
    assert compare_launch(shared_crate.kernels, launch, entry, assemblies=1).verdict == DIFFERENT


def test_every_emitter_is_mutated():
    assert callable(translate)  # importing it registers the emitters
    mutated = {mutation.emitter for mutation in MUTATIONS}
    assert mutated | WITHOUT.keys() == EMITTERS.keys()
    assert not mutated & WITHOUT.keys()


def test_mutations_have_names_of_their_own():
    names = [mutation.id for mutation in MUTATIONS]
    assert len(names) == len(set(names))
