# SPDX-License-Identifier: MIT
"""Every emitter of the translator, made wrong in turn: a check has to find each.

All mutated kernels are in one crate, built once. The Tile IR is compared first; only where it finds nothing is machine
code assembled.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

from mutations import IR
from mutations import MUTATIONS
from mutations import SASS
from mutations import WITHOUT

from tilegym_rs_backend.port.comparison import DIFFERENT
from tilegym_rs_backend.port.comparison import compare_launch
from tilegym_rs_backend.port.comparison import ir_verdict
from tilegym_rs_backend.port.comparison import translated_bytecode
from tilegym_rs_backend.port.stored import bytecode
from tilegym_rs_backend.port.translate import translate
from tilegym_rs_backend.port.translate.registry import EMITTERS
from tilegym_rs_backend.tile_ir.verdict import Sameness

KERNELS = sorted({mutation.kernel for mutation in MUTATIONS})


def verdict(crate, launch, entry):
    return ir_verdict(translated_bytecode(crate.kernels, launch, entry), bytecode(launch), launch.arch)


@pytest.mark.cargo
@pytest.mark.parametrize("name", KERNELS)
def test_the_right_translation_is_the_originals(shared_crate, name):
    launch = shared_crate.launches[name]
    found = verdict(shared_crate, launch, shared_crate.kernels.entry(launch))
    assert found.sameness is not Sameness.DIFFERS, found.differences


@pytest.mark.cargo
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_wrong_emitter_is_caught(shared_crate, mutation):
    launch, entry = shared_crate.launches[mutation.kernel], shared_crate.wrong[mutation.id]
    assert entry.name not in shared_crate.refused, shared_crate.refused[entry.name]
    found = verdict(shared_crate, launch, entry)
    differs = found.sameness is Sameness.DIFFERS
    assert differs == (mutation.caught_by == IR), f"{mutation.id}: the Tile IR is {found}"
    if mutation.caught_by == SASS:
        assert compare_launch(shared_crate.kernels, launch, entry, assemblies=1).verdict == DIFFERENT


def test_every_emitter_is_mutated():
    assert callable(translate)  # importing it registers the emitters
    mutated = {mutation.emitter for mutation in MUTATIONS}
    assert mutated | WITHOUT.keys() == EMITTERS.keys()
    assert not mutated & WITHOUT.keys()


def test_mutations_have_names_of_their_own():
    names = [mutation.id for mutation in MUTATIONS]
    assert len(names) == len(set(names))
