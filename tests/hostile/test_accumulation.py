# SPDX-License-Identifier: MIT
"""Matrices, reductions and atomics at the ends of their types."""

from __future__ import annotations

import math

import pytest
import torch
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import TORCH
from ir_run import lanes
from ir_run import load
from ir_run import run
from ir_run import store

from tilegym_rs_backend.tile_ir.execute import ExecutionError

INF, NAN = math.inf, math.nan
MOST = (1 << 31) - 1
BOTH = {"signedness_lhs": "signed", "signedness_rhs": "signed"}
FIRST_UNSIGNED = {"signedness_lhs": "unsigned", "signedness_rhs": "signed"}


def product(opcode, element, accumulator, a, b, c, **attributes):
    k = Kernel(pointer(element), pointer(element), pointer(accumulator), pointer(accumulator))
    kinds = [tile(element, *a.shape), tile(element, *b.shape), tile(accumulator, *c.shape)]
    values = [
        k("reshape", load(k, p, str(kind.element), x.numel()), to=kind)
        for p, kind, x in zip(k.params, kinds, (a, b, c), strict=False)
    ]
    total = k(opcode, *values, to=kinds[2], **attributes)
    store(k, k.params[3], k("reshape", total, to=tile(accumulator, c.numel())), accumulator, c.numel())
    out = torch.zeros_like(c)
    run(k, a, b, c, out)
    return out.tolist()


def full(shape, value, dtype=torch.float32):
    return torch.full(shape, value, dtype=torch.float64).to(dtype)


LEAST_8 = full((2, 2), -128, torch.int8)
MATRICES = {
    "i8, the accumulator wraps": (
        "mmai",
        "i8",
        "i32",
        LEAST_8,
        LEAST_8,
        torch.tensor([[MOST]]).int().expand(2, 2).clone(),
        BOTH,
        MOST + 2 * 16384 - (1 << 32),
    ),
    "u8 by i8": ("mmai", "i8", "i32", LEAST_8, LEAST_8, full((2, 2), 0, torch.int32), FIRST_UNSIGNED, -2 * 16384),
    "fp8 beyond fp8": (
        "mmaf",
        "f8E4M3FN",
        "f32",
        *[full((2, 2), 448, torch.float8_e4m3fn)] * 2,
        full((2, 2), 0),
        {},
        2 * 448.0**2,
    ),
    "f16 overflows in its own type": (
        "mmaf",
        "f16",
        "f16",
        full((2, 2), 65504, torch.half),
        full((2, 2), 1, torch.half),
        full((2, 2), 0, torch.half),
        {},
        INF,
    ),
    "f16 does not in f32": (
        "mmaf",
        "f16",
        "f32",
        full((2, 2), 65504, torch.half),
        full((2, 2), 1, torch.half),
        full((2, 2), 0),
        {},
        131008.0,
    ),
    "infinity by zero": ("mmaf", "f32", "f32", full((2, 2), INF), full((2, 2), 0), full((2, 2), 1), {}, NAN),
    "infinities of two signs": ("mmaf", "f32", "f32", full((2, 2), INF), full((2, 2), 1), full((2, 2), -INF), {}, NAN),
    "one by one": (
        "mmaf",
        "f64",
        "f64",
        *[full((1, 1), 1e154, torch.double)] * 2,
        full((1, 1), 0, torch.double),
        {},
        1e308,
    ),
}


@pytest.mark.parametrize(
    ("opcode", "element", "accumulator", "a", "b", "c", "attributes", "expected"), MATRICES.values(), ids=MATRICES
)
def test_matrices(opcode, element, accumulator, a, b, c, attributes, expected):
    for row in product(opcode, element, accumulator, a, b, c, **attributes):
        assert all(each == expected or (each != each and expected != expected) for each in row), row


def reduced(combine, element, values, **attributes):
    k = Kernel(pointer(element), pointer(element))
    one = tile(element)
    with k.region(one, one) as body:
        k("yield", k(combine, *body.params, to=one, **attributes))
    total = k("reduce", load(k, k.params[0], element, len(values)), to=one, dim=0, identities=(0.0,), regions=[body])
    k("store_ptr_tko", k.params[1], total, to=TOKEN)
    out = torch.zeros(1, dtype=TORCH[element])
    run(k, torch.tensor(values, dtype=TORCH[element]), out)
    return out.item()


REDUCTIONS = {
    "maxf of zeros": ("maxf", "f32", [-0.0, -0.0, 0.0, -0.0], {}, 0.0),
    "maxf of negative zeros": ("maxf", "bf16", [-0.0, -0.0, -0.0, -INF], {}, -0.0),
    "minf of zeros": ("minf", "f32", [0.0, 0.0, -0.0, 0.0], {}, -0.0),
    "maxf swallows NaN": ("maxf", "f32", [NAN, 1.0, NAN, 2.0], {}, 2.0),
    "maxf propagates NaN": ("maxf", "f32", [1.0, NAN, 3.0, 2.0], {"propagate_nan": True}, NAN),
    "maxf of nothing but NaN": ("maxf", "f16", [NAN] * 4, {}, NAN),
    "mini of i8": ("mini", "i8", [-128, 127, 0, 1], {}, -128),
    "mini of i8, unsigned": ("mini", "i8", [-128, 127, -1, 126], {"signedness": "unsigned"}, 126),
    "addi wraps": ("addi", "i8", [127, 1, 127, 1], {"overflow": "none"}, 0),
    "maxi of truth values, signed": ("maxi", "i1", [True, True, False, True], {"signedness": "signed"}, False),
    "xori of truth values": ("xori", "i1", [True, True, False, True], {}, True),
    "addf of infinities": ("addf", "f32", [INF, 1.0, -INF, 1.0], {}, NAN),
    "mulf of subnormals": ("mulf", "f32", [2.0**-100, 2.0**-49, 1.0, 1.0], {}, 2.0**-149),
}


@pytest.mark.parametrize(
    ("combine", "element", "values", "attributes", "expected"), REDUCTIONS.values(), ids=REDUCTIONS
)
def test_reductions(combine, element, values, attributes, expected):
    found = reduced(combine, element, values, **attributes)
    if isinstance(expected, float):
        assert (math.isnan(found) and math.isnan(expected)) or (found, math.copysign(1, found)) == (
            expected,
            math.copysign(1, expected),
        )
    else:
        assert found == expected


def meeting(mode, element, start, argument, count):
    """So many lanes at one element."""
    k = Kernel(pointer(element))
    there = k("broadcast", lanes(k, k.params[0], element, 1), to=pointer(element, count))
    k("atomic_rmw_tko", there, k.constant(argument, tile(element, count)), to=[tile(element, count), TOKEN], mode=mode)
    x = torch.tensor([start], dtype=TORCH[element])
    run(k, x)
    return x.item()


@pytest.mark.parametrize(
    ("mode", "element", "start", "argument", "count", "expected"),
    [
        *(
            ("add", "i32", MOST, 1, 4096, -(1 << 31) + 4095),
            ("umax", "i32", -1, 1, 2, -1),
            ("umin", "i32", -1, 1, 2, 1),
        ),
        *(
            ("max", "i64", -(1 << 63), -1, 2, -1),
            ("min", "i64", 0, -(1 << 63), 2, -(1 << 63)),
            ("xor", "i32", 5, -1, 3, ~5),
        ),
        *(
            ("addf", "f16", 2048.0, 1.0, 8, 2048.0),
            ("addf", "f32", INF, -1.0, 2, INF),
            ("xchg", "f32", 1.0, INF, 2, INF),
        ),
    ],
)
def test_lanes_that_meet(mode, element, start, argument, count, expected):
    assert meeting(mode, element, start, argument, count) == expected


@pytest.mark.parametrize(("mode", "element"), [("add", "f32"), ("and", "f32"), ("max", "f16"), ("addf", "i32")])
def test_atomics_of_another_kind_of_number(mode, element):
    with pytest.raises(ExecutionError, match=f"atomic {mode} of {element}") as caught:
        meeting(mode, element, 1, 1, 2)
    assert (caught.value.kind, caught.value.op) == ("malformed", "atomic_rmw_tko")


@pytest.mark.parametrize(
    ("element", "start", "compared", "expected"),
    [
        *(
            ("f32", -0.0, 0.0, -0.0),
            ("f32", NAN, NAN, 5.0),
            ("f64", 0.0, -0.0, 0.0),
            ("i64", -(1 << 63), -(1 << 63), 5),
        ),
    ],
)
def test_compare_and_swap_goes_by_bits(element, start, compared, expected):
    k = Kernel(pointer(element), tile(element), tile(element))
    k("atomic_cas_tko", *k.params, to=[tile(element), TOKEN])
    x = torch.tensor([start], dtype=TORCH[element])
    run(k, x, compared, 5)
    assert (x.item(), math.copysign(1, x.item())) == (expected, math.copysign(1, expected))


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        *(("%d", [7], "7"), ("100%% of %d", [7], "100% of 7"), ("{} {}", [1, 2], "1 2"), ("%99999999d", [7], "7")),
        *(("%d %d", [7], "7 %d"), ("%n%s", [7], "%n%s"), ("", [7], ""), ("%", [], "%")),
    ],
)
def test_formats(form, values, expected):
    k = Kernel(*[I32] * len(values))
    k("print_tko", args=list(k.params), str=form, to=TOKEN)
    printed = []
    run(k, *values, printer=printed.append)
    assert printed == [expected]
