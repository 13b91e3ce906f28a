# SPDX-License-Identifier: MIT
"""Where two kernels part, and what is different there: one change, one root, however much follows from it."""

from __future__ import annotations

import pytest
from ir_builder import TOKEN
from ir_builder import tile
from ir_pairs import WIDE
from ir_pairs import elementwise
from ir_pairs import op

from tilegym_rs_backend.tile_ir.roots import CATEGORIES
from tilegym_rs_backend.tile_ir.roots import roots


def found(ours, theirs):
    return roots(ours.finish(), theirs.finish())


def chain(first):
    """What follows differs too, and is no root; x and y are told apart, whatever the order of the parameters."""
    return elementwise(lambda b, x, y: b("exp", b("negf", first(b, x, b("tanh", y, to=WIDE)), to=WIDE), to=WIDE))


def test_equal_kernels_have_no_root():
    assert found(chain(op("subf")), chain(op("subf"))) == []


def test_operands_in_another_order():
    [root] = found(chain(op("subf")), chain(lambda b, x, y: b("subf", y, x, to=WIDE)))
    assert root.category == "operand_order"
    assert root.our_opcode == root.their_opcode == "subf"
    assert root.our_loc is not None


def test_another_operator():
    [root] = found(chain(op("subf")), chain(op("addf")))
    assert (root.category, root.our_opcode, root.their_opcode) == ("operator", "subf", "addf")


def test_another_modifier():
    [root] = found(chain(op("addf", rounding_mode="zero")), chain(op("addf", rounding_mode="nearest_even")))
    assert root.category == "modifier"


def test_a_constant_that_is_spread():
    def kernel(value):
        def body(b, x, y):
            spread = b("broadcast", b("reshape", b.constant(value, tile("f32")), to=tile("f32", 1)), to=WIDE)
            return b("addf", b("mulf", x, spread, to=WIDE), y, to=WIDE)

        return elementwise(body)

    [root] = found(kernel(0.5), kernel(0.25))
    assert (root.category, root.our_opcode) == ("constant", "constant")
    assert root.ours.startswith("constant(0.5)")


def test_an_operation_of_one_side_alone():
    twice = elementwise(lambda b, x, y: b("exp", b("negf", x, to=WIDE), to=WIDE))
    once = elementwise(lambda b, x, y: b("exp", x, to=WIDE))
    categories = sorted(root.category for root in found(twice, once))
    assert categories == ["op_extra", "operand"] or categories == ["operator"]


def test_another_token():
    def kernel(own):
        b = elementwise(lambda b, x, y: b("addf", x, y, to=WIDE))
        root = b("make_token", to=TOKEN)
        loaded, after = b("load_ptr_tko", b.params[0], token=root, to=[WIDE, TOKEN])
        last = b("store_ptr_tko", b.params[1], loaded, token=after, to=TOKEN)
        b("store_ptr_tko", b.params[2], loaded, token=last if own else after, to=TOKEN)
        return b

    [root] = found(kernel(True), kernel(False))
    assert root.category == "token"


@pytest.mark.parametrize("count", [2, 3])
def test_each_change_is_a_root(count):
    def kernel(names):
        def body(b, x, y):
            parts = [b(name, x, y, to=WIDE) for name in names]
            total = parts[0]
            for part in parts[1:]:
                total = b("maxf", total, part, to=WIDE)
            return total

        return elementwise(body)

    changed = found(kernel(["subf", "mulf", "divf"][:count]), kernel(["addf", "minf", "pow"][:count]))
    assert len(changed) == count
    assert {root.category for root in changed} == {"operator"}


def test_categories_have_names_of_their_own():
    assert len(set(CATEGORIES)) == len(CATEGORIES) == 16
    assert tile("f32", 32) == WIDE
