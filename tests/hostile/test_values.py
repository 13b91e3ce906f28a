# SPDX-License-Identifier: MIT
"""Arithmetic at the edges of its types. Expectations: the Tile IR specification, IEEE 754, two's complement.

What the specification leaves undefined (division by zero, shifts by a type's width, floats that no integer holds) has
to leave the other elements alone, no more.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import TORCH
from ir_run import elementwise
from ir_run import load
from ir_run import run
from ir_run import store

INF, NAN, MAX, TINY = math.inf, math.nan, 1.7976931348623157e308, 5e-324
MIN64, MAX64 = -(1 << 63), (1 << 63) - 1
TOP_BF16 = 2**62 + 2**54  # half way between two bfloat16
SIGNED, UNSIGNED = {"signedness": "signed"}, {"signedness": "unsigned"}
WRAPS = {"overflow": "none"}
DOWN, UP, ZERO = ({"rounding_mode": mode} for mode in ("negative_inf", "positive_inf", "zero"))
LESS = {"comparison_predicate": "less_than"}
F8 = "f8E4M3FN"
MINUS_0 = -0.0

# name: operation, type of the operands, operands, type of the result, attributes, what comes out
VALUES = {
    "i8 addi over the top": ("addi", "i8", [[127, -128, 0, -1], [1, -1, 0, 1]], "i8", WRAPS, [-128, 127, 0, 0]),
    "i64 subi below the bottom": (
        *("subi", "i64", [[MIN64, 0, MAX64, 1], [1, MIN64, -1, 1]], "i64", WRAPS),
        [MAX64, MIN64, MIN64, 0],
    ),
    "i32 muli": ("muli", "i32", [[-(1 << 31), 65536], [-1, 65536]], "i32", WRAPS, [-(1 << 31), 0]),
    "i1 addi is xor": ("addi", "i1", [[1, 1, 0, 0], [1, 0, 1, 0]], "i1", WRAPS, [0, 1, 1, 0]),
    "i1 muli is and": ("muli", "i1", [[1, 1, 0, 0], [1, 0, 1, 0]], "i1", WRAPS, [1, 0, 0, 0]),
    "i1 maxi signed: true is -1": ("maxi", "i1", [[1, 1, 0, 0], [1, 0, 1, 0]], "i1", SIGNED, [1, 0, 0, 0]),
    "i1 mini signed: true is -1": ("mini", "i1", [[1, 1, 0, 0], [1, 0, 1, 0]], "i1", SIGNED, [1, 1, 1, 0]),
    "i1 maxi unsigned": ("maxi", "i1", [[1, 1, 0, 0], [1, 0, 1, 0]], "i1", UNSIGNED, [1, 1, 1, 0]),
    "i1 shli by nothing": ("shli", "i1", [[1, 0, 1, 0], [0, 0, 0, 0]], "i1", WRAPS, [1, 0, 1, 0]),
    "i1 shri fills with the sign": ("shri", "i1", [[1, 0], [0, 0]], "i1", SIGNED, [1, 0]),
    "i1 divi": ("divi", "i1", [[1, 0], [1, 1]], "i1", SIGNED, [1, 0]),
    "i1 remi": ("remi", "i1", [[1, 0], [1, 1]], "i1", UNSIGNED, [0, 0]),
    "i1 cmpi signed: true is -1": ("cmpi", "i1", [[1, 1, 0, 0], [1, 0, 1, 0]], "i1", SIGNED | LESS, [0, 1, 0, 0]),
    "i1 itof signed": ("itof", "i1", [[1, 0]], "f32", SIGNED, [-1.0, 0.0]),
    "i1 exti signed": ("exti", "i1", [[1, 0]], "i8", SIGNED, [-1, 0]),
    "i8 absi of the least": ("absi", "i8", [[-128, -127, 0, 127]], "i8", {}, [-128, 127, 0, 127]),
    "i64 negi of the least": ("negi", "i64", [[MIN64, MAX64]], "i64", WRAPS, [MIN64, MIN64 + 1]),
    "i8 divi by rounding": (
        *("divi", "i8", [[7, -7, 127, -128], [2, 2, -2, 3]], "i8", {"rounding": "negative_inf"}),
        [3, -4, -64, -43],
    ),
    "i8 divi unsigned": ("divi", "i8", [[-1, -128, 127, 1], [2, 3, -1, -1]], "i8", UNSIGNED, [127, 42, 0, 0]),
    "i64 divi unsigned": ("divi", "i64", [[-1, MIN64], [2, MAX64]], "i64", UNSIGNED, [MAX64, 1]),
    "i8 remi takes the sign of what is divided": (
        "remi",
        "i8",
        [[-7, 7, -128, 5], [3, -3, 7, 5]],
        "i8",
        {},
        [-1, 1, -2, 0],
    ),
    "i8 shli to the sign": ("shli", "i8", [[1, 3, -1, 64], [7, 6, 4, 1]], "i8", WRAPS, [-128, -64, -16, -128]),
    "i64 shri unsigned": ("shri", "i64", [[-1, MIN64], [63, 63]], "i64", UNSIGNED, [1, 1]),
    "i64 shri signed": ("shri", "i64", [[-1, MIN64], [63, 62]], "i64", SIGNED, [-1, -2]),
    "i64 mulhii": ("mulhii", "i64", [[-1, MIN64], [-1, 2]], "i64", {}, [-2, 1]),
    "i8 cmpi unsigned": ("cmpi", "i8", [[-1, 1], [1, -1]], "i1", UNSIGNED | LESS, [0, 1]),
    "trunci keeps the low bits": ("trunci", "i64", [[1 << 32, 0x1FF, MIN64, -1]], "i8", WRAPS, [0, -1, 0, -1]),
    "i64 to bf16 rounds once": (
        "itof",
        "i64",
        [[TOP_BF16 + 1, TOP_BF16, -TOP_BF16 - 1, 1]],
        "bf16",
        SIGNED,
        [*(2.0**62 + 2.0**55, 2.0**62, -(2.0**62) - 2.0**55, 1.0)],
    ),
    "i64 unsigned to f32": ("itof", "i64", [[-1, MIN64 + 1]], "f32", UNSIGNED, [2.0**64, 2.0**63]),
    "i64 to f32 rounds once": (
        "itof",
        "i64",
        [[2**62 + 2**38 + 1, 2**62 + 2**38]],
        "f32",
        SIGNED,
        [2.0**62 + 2**39, 2.0**62],
    ),
    "i64 beyond f16": ("itof", "i64", [[65519, 65520, -65520, MAX64]], "f16", SIGNED, [65504.0, INF, -INF, INF]),
    "ftoi truncates": (
        "ftoi",
        "f64",
        [[-0.99, 2147483647.9, -2147483648.5, 1e-300]],
        "i32",
        SIGNED,
        [0, 2**31 - 1, -(2**31), 0],
    ),
    "ftoi of subnormals": ("ftoi", "f32", [[1e-45, -1e-45]], "i8", SIGNED, [0, 0]),
    "maxf +0 is greater": (
        "maxf",
        "f32",
        [[MINUS_0, 0.0, MINUS_0, 0.0], [0.0, MINUS_0, MINUS_0, 0.0]],
        "f32",
        {},
        [0.0, 0.0, MINUS_0, 0.0],
    ),
    "minf -0 is less": (
        "minf",
        "f32",
        [[MINUS_0, 0.0, MINUS_0, 0.0], [0.0, MINUS_0, MINUS_0, 0.0]],
        "f32",
        {},
        [MINUS_0, MINUS_0, MINUS_0, 0.0],
    ),
    "maxf +0 is greater, NaN wins": (
        *("maxf", "f64", [[MINUS_0, 0.0, NAN, 1.0], [0.0, MINUS_0, 0.0, NAN]], "f64", {"propagate_nan": True}),
        [0.0, 0.0, NAN, NAN],
    ),
    "minf a number wins over NaN": (
        "minf",
        "f16",
        [[NAN, 1.0, NAN, -INF], [1.0, NAN, NAN, NAN]],
        "f16",
        {},
        [1.0, 1.0, NAN, -INF],
    ),
    "sum of 0 rounded down": (
        "addf",
        "f32",
        [[1.0, 0.0, MINUS_0, 0.0], [-1.0, MINUS_0, MINUS_0, 0.0]],
        "f32",
        DOWN,
        [MINUS_0, MINUS_0, MINUS_0, 0.0],
    ),
    "difference of 0 rounded down": (
        "subf",
        "f64",
        [[1.0, 0.0, MINUS_0, 0.0], [1.0, 0.0, 0.0, MINUS_0]],
        "f64",
        DOWN,
        [MINUS_0, MINUS_0, MINUS_0, 0.0],
    ),
    "sum of 0 to nearest": ("addf", "f32", [[1.0, MINUS_0], [-1.0, MINUS_0]], "f32", {}, [0.0, MINUS_0]),
    "fma of 0 rounded down": ("fma", "f32", [[1.0, MINUS_0], [1.0, 1.0], [-1.0, 0.0]], "f32", DOWN, [MINUS_0, MINUS_0]),
    "f64 mulf overflows toward zero": (
        "mulf",
        "f64",
        [[1e308, -1e308, 1e308, TINY], [10.0, 10.0, -10.0, 0.5]],
        "f64",
        ZERO,
        [MAX, -MAX, -MAX, 0.0],
    ),
    "f64 mulf overflows down": (
        "mulf",
        "f64",
        [[1e308, -1e308, TINY, -TINY], [10.0, 10.0, 0.5, 0.5]],
        "f64",
        DOWN,
        [MAX, -INF, 0.0, -TINY],
    ),
    "f64 mulf overflows up": (
        "mulf",
        "f64",
        [[1e308, -1e308, TINY, -TINY], [10.0, 10.0, 0.5, 0.5]],
        "f64",
        UP,
        [INF, -MAX, TINY, MINUS_0],
    ),
    "f64 mulf of large numbers, up": ("mulf", "f64", [[1e308], [1.1]], "f64", UP, [1.1000000000000002e308]),
    "f64 addf overflows toward zero": ("addf", "f64", [[MAX, -MAX], [MAX, -1e300]], "f64", ZERO, [MAX, -MAX]),
    "f64 divf of subnormals, up": ("divf", "f64", [[TINY, 1.0], [2.0, 3.0]], "f64", UP, [TINY, 0.33333333333333337]),
    "f64 divf by zero": (
        "divf",
        "f64",
        [[1.0, -1.0, 0.0, INF], [0.0, 0.0, 0.0, 0.0]],
        "f64",
        ZERO,
        [INF, -INF, NAN, INF],
    ),
    "f32 mulf overflows up": (
        "mulf",
        "f32",
        [[3e38, -3e38, 1e-45, -1e-45], [10.0, 10.0, 0.5, 0.5]],
        "f32",
        UP,
        [INF, -3.4028234663852886e38, 1e-45, MINUS_0],
    ),
    "sqrt of negatives": ("sqrt", "f32", [[-1.0, MINUS_0, INF, NAN]], "f32", {}, [NAN, MINUS_0, INF, NAN]),
    "rsqrt of zeros": ("rsqrt", "f32", [[0.0, MINUS_0, INF, -1.0]], "f32", {}, [INF, -INF, 0.0, NAN]),
    "remf": ("remf", "f32", [[5.0, -5.0, INF, 3.0], [0.0, 3.0, 2.0, INF]], "f32", {}, [NAN, -2.0, NAN, 3.0]),
    "pow": ("pow", "f64", [[0.0, -8.0, NAN, -1.0], [0.0, 1 / 3, 0.0, INF]], "f64", {}, [1.0, NAN, 1.0, 1.0]),
    "atan2 of signed zeros": (
        "atan2",
        "f64",
        [[0.0, MINUS_0, 0.0, MINUS_0], [MINUS_0, MINUS_0, 1.0, 0.0]],
        "f64",
        {},
        [math.pi, -math.pi, 0.0, MINUS_0],
    ),
    "subnormals live": ("mulf", "f32", [[1e-45, 2.0**-126], [1.0, 0.5]], "f32", {}, [1e-45, 2.0**-127]),
    "ftz takes them away": (
        "mulf",
        "f32",
        [[1e-45, -(2.0**-126)], [1e30, 0.5]],
        "f32",
        {"flush_to_zero": True},
        [0.0, MINUS_0],
    ),
    "bf16 overflows": ("addf", "bf16", [[3.3895e38, -3.3895e38], [3.3895e38, -3.3895e38]], "bf16", {}, [INF, -INF]),
    "f16 rounds ties to even": ("addf", "f16", [[2048.0, 2050.0], [1.0, 1.0]], "f16", {}, [2048.0, 2052.0]),
    "fp8 of infinity and beyond": ("ftof", "f32", [[INF, -INF, 1e9, NAN]], F8, {}, [448.0, -448.0, 448.0, NAN]),
    "fp8 of subnormals": (
        "ftof",
        "f32",
        [[2.0**-9, 2.0**-10, 3 * 2.0**-10, -(2.0**-11)]],
        F8,
        {},
        [2.0**-9, 0.0, 2.0**-8, MINUS_0],
    ),
    "bfp8 of infinity": ("ftof", "f32", [[INF, 6e4, 7e4, NAN]], "f8E5M2", {}, [57344.0, 57344.0, 57344.0, NAN]),
    "cmpf of NaN is false in order": (
        *("cmpf", "f32", [[NAN, 1.0, 0.0], [NAN, NAN, MINUS_0]], "i1"),
        {"comparison_predicate": "equal", "comparison_ordering": "ordered"},
        [0, 0, 1],
    ),
}


def tensor(element, values):
    size = 1 << (len(values) - 1).bit_length()  # tiles have powers of two
    return torch.tensor([*values, *values[:1] * (size - len(values))], dtype=TORCH[element])


def same(got, expected):
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    nan = np.isnan(expected)
    equal = np.where(nan, np.isnan(got), (got == expected) & (np.signbit(got) == np.signbit(expected)))
    return bool(equal.all())


@pytest.mark.parametrize(
    ("opcode", "source", "operands", "target", "attributes", "expected"), VALUES.values(), ids=VALUES
)
def test_values(opcode, source, operands, target, attributes, expected):
    found = elementwise(opcode, *((source, tensor(source, each)) for each in operands), to=target, **attributes)
    found = found[: len(expected)]
    if found.dtype.is_floating_point:
        exact = torch.tensor(expected, dtype=torch.float64).to(found.dtype)
        assert same(found.double().numpy(), exact.double().numpy()), found.tolist()
    else:
        assert [int(each) for each in found.tolist()] == expected


@pytest.mark.parametrize("opcode", ["divi", "remi"])
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
def test_division_by_zero_leaves_its_neighbours_alone(element, signedness, opcode):
    low = -(1 << (8 * TORCH[element].itemsize - 1))
    a, b = torch.tensor([7, 7, low, low], dtype=TORCH[element]), torch.tensor([0, 2, -1, 0], dtype=TORCH[element])
    found = elementwise(opcode, (element, a), (element, b), to=element, signedness=signedness)
    assert found[1].item() == {"divi": 3, "remi": 1}[opcode]


@pytest.mark.parametrize("opcode", ["shli", "shri"])
@pytest.mark.parametrize("count", [8, 127, -1, -128])
def test_shifts_by_the_width_and_more_leave_their_neighbours_alone(count, opcode):
    a, b = torch.tensor([-1, 4], dtype=torch.int8), torch.tensor([count, 1], dtype=torch.int8)
    found = elementwise(opcode, ("i8", a), ("i8", b), to="i8", **(WRAPS if opcode == "shli" else SIGNED))
    assert found[1].item() == {"shli": 8, "shri": 2}[opcode]


@pytest.mark.parametrize("value", [NAN, INF, -INF, 3e38, -3e38])
@pytest.mark.parametrize("element", ["i1", "i8", "i64"])
def test_floats_that_no_integer_holds_leave_their_neighbours_alone(element, value):
    found = elementwise("ftoi", ("f32", torch.tensor([value, 0.5])), to=element, rounding_mode="nearest_int_to_zero")
    assert found[1].item() == 0


def i4(values, opcode, other, **attributes):
    """An operation on i4, from and to bytes."""
    b = Kernel(pointer("i8"), pointer("i8"), pointer("i8"))
    wide, narrow = tile("i8", len(values)), tile("i4", len(values))
    a, c = (b("trunci", load(b, p, "i8", len(values)), to=narrow, overflow="none") for p in b.params[:2])
    store(
        b,
        b.params[2],
        b("exti", b(opcode, a, c, to=narrow, **attributes), to=wide, signedness="signed"),
        "i8",
        len(values),
    )
    out = torch.zeros(len(values), dtype=torch.int8)
    run(b, torch.tensor(values, dtype=torch.int8), torch.tensor(other, dtype=torch.int8), out)
    return out.tolist()


@pytest.mark.parametrize(
    ("opcode", "other", "attributes", "expected"),
    [
        ("addi", [1, 1, -1, 7], WRAPS, [-8, 0, 7, 0]),
        ("muli", [7, 7, 7, 7], WRAPS, [1, -7, -8, -1]),
        ("mulhii", [15, 15, 15, 15], {}, [6, -2, 7, -8]),
        ("maxi", [0, 0, 0, 0], UNSIGNED, [7, -1, -8, -7]),
        ("divi", [2, 2, 2, 2], UNSIGNED, [3, 7, 4, 4]),
        ("shri", [1, 1, 1, 1], UNSIGNED, [3, 7, 4, 4]),
    ],
)
def test_four_bit_integers(opcode, other, attributes, expected):
    assert i4([7, -1, -8, -7], opcode, other, **attributes) == expected
