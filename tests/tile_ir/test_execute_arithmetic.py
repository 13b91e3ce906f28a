# SPDX-License-Identifier: MIT
"""Arithmetic of the executor against numpy, torch and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from ir_run import TORCH
from ir_run import elementwise

SPECIAL = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 65504.0]
SPECIAL += [1e-40, -1e-40, 3.0e38, 2.0**-24, 6e-8, 1e5, 0.1, 7.0]


def floats(element, seed=0, n=64):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n - 16, generator=generator, dtype=torch.float64) * 3
    return torch.cat((values, torch.tensor(SPECIAL, dtype=torch.float64).roll(seed))).to(TORCH[element])


def ints(element, seed=0, n=64):
    low, high = {"i8": (-128, 128), "i16": (-(2**15), 2**15)}.get(element, (-(2**31), 2**31))
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(low, high, (n,), generator=generator, dtype=torch.int64)
    values[:6] = torch.tensor([0, 1, -1, low, high - 1, 7])
    return values.to(TORCH[element])


def fmod(a, b):
    with np.errstate(invalid="ignore"):
        exact = np.fmod(a.double().numpy(), b.double().numpy())  # as remf is
    return torch.from_numpy(exact).to(a.dtype)


def same(a, b):
    return torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(
        torch.nan_to_num(a.double()), torch.nan_to_num(b.double())
    )


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize(
    ("opcode", "function"),
    [("addf", torch.add), ("subf", torch.sub), ("mulf", torch.mul), ("divf", torch.div), ("remf", fmod)],
)
def test_binary_floats_round_as_torch(opcode, function, element):
    a, b = floats(element, 1), floats(element, 2)
    assert same(elementwise(opcode, (element, a), (element, b), to=element), function(a, b))


@pytest.mark.parametrize("element", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(
    ("opcode", "function"),
    [
        *(("exp", torch.exp), ("exp2", torch.exp2), ("log", torch.log), ("log2", torch.log2), ("sin", torch.sin)),
        *(("cos", torch.cos), ("tan", torch.tan), ("sinh", torch.sinh), ("cosh", torch.cosh), ("tanh", torch.tanh)),
        *(("sqrt", torch.sqrt), ("rsqrt", torch.rsqrt), ("absf", torch.abs), ("negf", torch.neg)),
        *(("ceil", torch.ceil), ("floor", torch.floor)),
    ],
)
def test_unary_floats_are_the_exact_function_rounded(opcode, function, element):
    x = floats(element, 3)
    expected = function(x.double()).to(TORCH[element])
    assert same(elementwise(opcode, (element, x), to=element), expected)


@pytest.mark.parametrize("mode", ["zero", "negative_inf", "positive_inf"])
@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("opcode", ["addf", "mulf", "divf"])
def test_directed_rounding_is_exact(opcode, element, mode):
    a, b = floats(element, 4), floats(element, 5)
    got = elementwise(opcode, (element, a), (element, b), to=element, rounding_mode=mode)
    numpy_type = np.float16 if element == "f16" else np.float32
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=False):
        if not all(map(math.isfinite, (x, y, z))) or (opcode == "divf" and y == 0):
            continue
        exact = {
            "addf": lambda p, q: p + q,
            "mulf": lambda p, q: p * q,
            "divf": lambda p, q: p / q,
        }[opcode](Fraction(x), Fraction(y))
        towards = {"negative_inf": -math.inf, "positive_inf": math.inf}.get(mode, 0.0)
        if Fraction(z) == exact:
            continue
        down = Fraction(z) < exact
        assert down == (towards < 0 or (mode == "zero" and exact > 0)), (x, y, z)
        with np.errstate(all="ignore"):
            other = float(np.nextafter(numpy_type(z), numpy_type(math.inf if down else -math.inf)))
        if math.isfinite(other):
            assert (Fraction(other) > exact) == down, (x, y, z)


@pytest.mark.parametrize("element", ["f16", "f32", "bf16"])
def test_fma_rounds_once(element):
    a, b, c = (floats(element, seed)[:32] for seed in (6, 7, 8))
    got = elementwise("fma", (element, a), (element, b), (element, c), to=element)
    for x, y, z, value in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=False):
        if not all(map(math.isfinite, (x, y, z, value))):
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        near = torch.tensor([value], dtype=TORCH[element])
        for toward in (math.inf, -math.inf):
            if element == "bf16":
                continue
            other = torch.nextafter(near.float() if element == "f32" else near, torch.full_like(near, toward)).item()
            if math.isfinite(other):
                assert abs(Fraction(value) - exact) <= abs(Fraction(other) - exact)


def test_ftz_flushes_operands_and_results():
    a = torch.tensor([1e-40, -1e-40, 1e-30, 2.0] * 4)
    b = torch.tensor([1.0, 1.0, 1e-10, 3.0] * 4)
    got = elementwise("mulf", ("f32", a), ("f32", b), to="f32", flush_to_zero=True)
    assert got.tolist()[:4] == [0.0, 0.0, 0.0, 6.0]
    assert math.copysign(1, got[1].item()) == -1
    kept = elementwise("mulf", ("f32", a), ("f32", b), to="f32")
    assert kept[0].item() != 0


@pytest.mark.parametrize("propagate", [True, False])
def test_max_and_nan(propagate):
    a, b = torch.tensor([math.nan, 1.0, 2.0, math.nan]), torch.tensor([1.0, math.nan, 3.0, math.nan])
    got = elementwise("maxf", ("f32", a), ("f32", b), to="f32", propagate_nan=propagate)
    expected = torch.maximum(a, b) if propagate else torch.fmax(a, b)
    assert same(got, expected)


@pytest.mark.parametrize("ordering", ["ordered", "unordered"])
@pytest.mark.parametrize("predicate", ["equal", "not_equal", "less_than", "greater_than_or_equal"])
def test_comparisons_of_nan(ordering, predicate):
    a, b = torch.tensor([math.nan, 1.0, 2.0, 2.0]), torch.tensor([1.0, math.nan, 3.0, 2.0])
    got = elementwise(
        "cmpf", ("f32", a), ("f32", b), to="i1", comparison_predicate=predicate, comparison_ordering=ordering
    )
    number = {"equal": [False, True], "not_equal": [True, False]}
    number |= {"less_than": [True, False], "greater_than_or_equal": [False, True]}
    assert got.tolist() == [ordering == "unordered"] * 2 + number[predicate]


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize(("opcode", "function"), [("addi", np.add), ("subi", np.subtract), ("muli", np.multiply)])
def test_integers_wrap(opcode, function, element):
    a, b = ints(element, 1), ints(element, 2).flip(0)
    assert (
        elementwise(opcode, (element, a), (element, b), to=element).tolist() == function(a.numpy(), b.numpy()).tolist()
    )


@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("rounding", ["zero", "negative_inf", "positive_inf"])
@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
def test_division(element, rounding, signedness):
    a, b = ints(element, 3), ints(element, 4).flip(0)
    b[b == 0] = 3
    got = elementwise("divi", (element, a), (element, b), to=element, rounding=rounding, signedness=signedness)
    rest = elementwise("remi", (element, a), (element, b), to=element, signedness=signedness)
    bits = a.element_size() * 8
    for x, y, q, r in zip(a.tolist(), b.tolist(), got.tolist(), rest.tolist(), strict=False):
        if signedness == "unsigned":
            x, y = x % 2**bits, y % 2**bits
        exact = Fraction(x, y)
        whole = {"zero": math.trunc, "negative_inf": math.floor, "positive_inf": math.ceil}[rounding](exact)
        assert (whole - q) % 2**bits == 0
        assert (x - math.trunc(exact) * y - r) % 2**bits == 0


@pytest.mark.parametrize("element", ["i8", "i32", "i64"])
def test_unsigned_operations(element):
    a, b = ints(element, 5), ints(element, 6).flip(0)
    bits = a.element_size() * 8
    x, y = [v % 2**bits for v in a.tolist()], [v % 2**bits for v in b.tolist()]
    pair = ((element, a), (element, b))
    less = elementwise("cmpi", *pair, to="i1", comparison_predicate="less_than", signedness="unsigned")
    assert less.tolist() == [p < q for p, q in zip(x, y, strict=False)]
    high = elementwise("mulhii", *pair, to=element)
    assert [v % 2**bits for v in high.tolist()] == [p * q >> bits for p, q in zip(x, y, strict=False)]
    top = elementwise("maxi", *pair, to=element, signedness="unsigned")
    assert [v % 2**bits for v in top.tolist()] == list(map(max, x, y))
    count = torch.full_like(a, 3)
    shifted = elementwise("shri", (element, a), (element, count), to=element, signedness="unsigned")
    assert [v % 2**bits for v in shifted.tolist()] == [p >> 3 for p in x]


def test_extension_by_signedness():
    a = ints("i8", 7)
    assert elementwise("exti", ("i8", a), to="i32", signedness="signed").tolist() == a.tolist()
    assert elementwise("exti", ("i8", a), to="i32", signedness="unsigned").tolist() == [v % 256 for v in a.tolist()]
    wide = ints("i32", 8)
    assert elementwise("trunci", ("i32", wide), to="i8").tolist() == wide.to(torch.int8).tolist()


@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64"])
def test_integer_to_float(target):
    a = ints("i32", 9)
    assert same(elementwise("itof", ("i32", a), to=target), a.double().to(TORCH[target]))
    big = elementwise("itof", ("i32", torch.tensor([-1, -2], dtype=torch.int32)), to="f64", signedness="unsigned")
    assert big.tolist() == [2.0**32 - 1, 2.0**32 - 2]


@pytest.mark.parametrize(
    ("signedness", "expected"),
    [("signed", [-128, 127, 0, 1, -1, 127, -128, 100]), ("unsigned", [0, -1, 0, 1, 0, -56, 0, 100])],
)
def test_float_to_integer_truncates_and_clamps(signedness, expected):
    x = torch.tensor([-math.inf, math.inf, math.nan, 1.9, -1.9, 200.0, -300.0, 100.5])
    got = elementwise("ftoi", ("f32", x), to="i8", signedness=signedness, rounding_mode="nearest_int_to_zero")
    assert got.tolist() == expected


@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_narrowing_from_f64_rounds_once(target):
    bits = {"f16": 10, "bf16": 7}[target]
    x = torch.tensor([1 + 2.0 ** -(bits + 1) + 2.0**-40, 1 + 2.0 ** -(bits + 1)] * 2, dtype=torch.float64)
    got = elementwise("ftof", ("f64", x), to=target)
    assert got.tolist() == [1 + 2.0**-bits, 1.0] * 2


def test_tf32_and_fp8():
    x = torch.tensor([1 + 2.0**-11, 1 + 3 * 2.0**-11, math.inf, math.nan])
    assert elementwise("ftof", ("f32", x), to="tf32").tolist()[:3] == [1.0, 1 + 2.0**-9, math.inf]
    away = elementwise("ftof", ("f32", x), to="tf32", rounding_mode="nearest_away")
    assert away.tolist()[:2] == [1 + 2.0**-10, 1 + 2.0**-9]
    y = torch.tensor([447.0, 460.0, 1e9, -1e9, math.nan, 0.0011, 17.0, 19.0])
    got = elementwise("ftof", ("f32", y), to="f8E4M3FN").float()
    assert got.tolist()[:4] == [448.0, 448.0, 448.0, -448.0]
    assert math.isnan(got[4])
    assert got.tolist()[5:] == [0.001953125, 16.0, 20.0]
    back = elementwise("ftof", ("f8E4M3FN", got.to(torch.float8_e4m3fn)), to="f32")
    assert same(back, got)


def test_bitcast_keeps_the_bits():
    x = floats("f16", 10)
    assert torch.equal(elementwise("bitcast", ("f16", x.nan_to_num()), to="i16"), x.nan_to_num().view(torch.int16))
    y = ints("i32", 11)
    assert same(elementwise("bitcast", ("i32", y), to="f32"), y.view(torch.float32))
