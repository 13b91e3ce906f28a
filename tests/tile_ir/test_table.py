# SPDX-License-Identifier: MIT
"""The committed table of operations is what the installed cuda-tile says, and complete."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tilegym_rs_backend.tile_ir import table

GENERATOR = Path(__file__).parents[2] / "tools" / "gen_tile_ir_table.py"


def load_generator():
    spec = importlib.util.spec_from_file_location("gen_tile_ir_table", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_table_is_what_would_be_generated():
    generator = load_generator()
    source = generator.find_source()
    if source is None:
        pytest.skip("cuda-tile is not installed")
    assert generator.render(generator.table(source)) == generator.TARGET.read_text()


def test_all_opcodes_are_there():
    assert len(table.names()) == len(set(table.names())) == 109


@pytest.mark.parametrize(("minor", "count"), [(1, 92), (2, 93), (3, 100), (4, 105)])
def test_each_format_has_its_operations(minor, count):
    assert len(table.layouts((13, minor))) == count


def test_what_is_left_is_of_13_5():
    known = {layout.name for layout in table.layouts((13, 4)).values()}
    assert {name: table.since(name) for name in table.names() if name not in known} == {
        "multimem_load_reduce_view_tko": "13.5",
        "multimem_reduce_view_tko": "13.5",
        "multimem_store_view_tko": "13.5",
        "preview$call": "preview",
    }


def test_names_follow_the_dialect():
    generator = load_generator()
    names = {"FToF": "ftof", "MmaFScaled": "mmaf_scaled", "XOrI": "xori", "AtomicCASTko": "atomic_cas_tko"}
    names |= {"FPowF": "pow", "PreviewCall": "preview$call", "ShLI": "shli", "GetTileBlockId": "get_tile_block_id"}
    assert {name: generator.operation_name(name) for name in names} == names


def test_what_an_older_format_cannot_hold_has_its_meaning():
    old = {layout.name: layout for layout in table.layouts((13, 1)).values()}
    assert old["negi"].defaults == {"overflow": "none"}
    assert old["exp"].defaults == {"rounding_mode": "full"}
    assert old["for"].defaults == {"unsigned_cmp": False}
    assert old["mmaf"].defaults == {"fast_acc": False}
