# SPDX-License-Identifier: MIT
"""Kernels that break the rules of Tile IR, or ask for what cannot be: each stops with its fault, at its line."""

from __future__ import annotations

import pytest
import torch
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import partition
from ir_builder import pointer
from ir_builder import tensor
from ir_builder import tile
from ir_run import lanes
from ir_run import load
from ir_run import run
from ir_run import store
from ir_writer import write_module

from tilegym_rs_backend.tile_ir.execute import ExecutionError
from tilegym_rs_backend.tile_ir.execute import run_launch
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import Global
from tilegym_rs_backend.tile_ir.model import Module
from tilegym_rs_backend.tile_ir.model import SameElements

F4, F8, I4 = tile("f32", 4), tile("f32", 8), tile("i32", 4)
KERNELS = {}


def kernel(kind, op, message, *params, name=None, arguments=()):
    """Register a kernel: the fault it has to stop with, and what it is launched with."""

    def register(build):
        KERNELS[name or build.__name__] = (kind, op, message, params, build, arguments)
        return build

    return register


def one(name, *operands, to, kind="malformed", message="types do not fit", title=None, **attributes):
    """Register a kernel of one operation on its parameters' values."""
    title = title or f"{name} of {', '.join(map(str, operands))} -> {to}"

    @kernel(kind, name, message, *(pointer(str(each.element)) for each in operands), name=title)
    def build(b):
        values = [load(b, p, str(each.element), each.shape[0]) for p, each in zip(b.params, operands, strict=True)]
        b(name, *values, to=to, **attributes)


one("addi", I4, tile("i32", 1), to=I4, overflow="none")
one("addf", F4, F4, to=F8)
one("mulf", F4, tile("f16", 4), to=F4)
one("negf", F4, to=tile("f16", 4))
one("cmpf", F4, F8, to=tile("i1", 8), comparison_predicate="equal", comparison_ordering="ordered")
one("ftof", F4, to=tile("f16", 8))
one("broadcast", F4, to=tile("f32", 2, 4), title="broadcast to another rank")
one("broadcast", F4, to=F8, title="broadcast of 4 to 8")
one("reshape", F4, to=tile("f32", 2, 4))
one("permute", F4, to=F4, permutation=(-1,), title="permute by -1")
one("permute", F4, to=F4, permutation=(0, 1), title="permute by two axes of one")
one("mmaf", F4, F4, F4, to=F4)
one("select", tile("i1", 1), F4, F4, to=F4)
one("assume", I4, to=I4, predicate=DivBy(3), message="no power of two")
one("assume", I4, to=I4, predicate=DivBy(1 << 64), message="no power of two")
one("assume", I4, to=I4, predicate=DivBy(4, 0, 0), message="every and along")
one("assume", I4, to=I4, predicate=DivBy(4, 2, 7), message="every and along")
one("assume", I4, to=I4, predicate=DivBy(4, 2, None), message="every and along")
one("assume", F4, to=F4, predicate=DivBy(4), message="no divisors")
one("assume", I4, to=I4, predicate=SameElements((2, 2)), message="does not fit")
one("assume", I4, to=I4, predicate=SameElements((0,)), message="does not fit")
one("assume", I4, to=I4, predicate=Bounded(5, 1), message="exclude each other")
one("assume", I4, to=I4, predicate=Bounded(0, 1 << 40), message="no such numbers")
one("assume", F4, to=F4, predicate=Bounded(0, None), message="no order")


@kernel("malformed", "constant", "", name="constant of too few bytes")
def _(b):
    b("constant", to=I4, value=bytes(8))


@kernel("malformed", "constant", "", name="constant of no bytes")
def _(b):
    b("constant", to=I4, value=b"")


@kernel("malformed", "iota", "", name="iota of two axes")
def _(b):
    b("iota", to=tile("i32", 2, 2))


@kernel("malformed", "if", "types do not fit", I32, name="if of an i32", arguments=(1,))
def _(b):
    with b.region() as yes:
        b("yield")
    with b.region() as no:
        b("yield")
    b("if", b.params[0], regions=[yes, no])


@kernel("malformed", "load_ptr_tko", "types do not fit", pointer("f32"), name="pointers of another shape")
def _(b):
    b("load_ptr_tko", lanes(b, b.params[0], "f32", 4), to=[F8, TOKEN])


@kernel("malformed", "store_ptr_tko", "types do not fit", pointer("f32"), name="one element for four pointers")
def _(b):
    b("store_ptr_tko", lanes(b, b.params[0], "f32", 4), b.constant(1.0, tile("f32", 1)), to=TOKEN)


@kernel("malformed", "store_ptr_tko", "types do not fit", pointer("f32"), name="mask of another shape")
def _(b):
    mask = b.constant(1, tile("i1", 1))
    b("store_ptr_tko", lanes(b, b.params[0], "f32", 4), b.constant(1.0, F4), mask=mask, to=TOKEN)


@kernel("malformed", "reduce", "types do not fit", pointer("f32"), name="reduce to the shape it came from")
def _(b):
    b.reduce("addf", load(b, b.params[0], "f32", 4), 0, F4, 0.0)


@kernel("malformed", "load_view_tko", "types do not fit", pointer("f32"), name="a tile that is not the view's")
def _(b):
    kind = tensor("f32", 1)
    whole = b("make_tensor_view", b.params[0], dynamic_shape=[b.constant(8)], dynamic_strides=[], to=kind)
    part = b("make_partition_view", whole, to=partition(kind, 4))
    b("load_view_tko", part, index=[b.constant(0)], to=[F8, TOKEN])


@kernel("malformed", "load_view_tko", "types do not fit", pointer("f32"), name="an index too many")
def _(b):
    kind = tensor("f32", 1)
    whole = b("make_tensor_view", b.params[0], dynamic_shape=[b.constant(8)], dynamic_strides=[], to=kind)
    part = b("make_partition_view", whole, to=partition(kind, 4))
    b("load_view_tko", part, index=[b.constant(0)] * 2, to=[F4, TOKEN])


@kernel("malformed", "alloca", "at a multiple of 3", name="alloca aligned to 3")
def _(b):
    b("alloca", to=pointer("f32"), num_elem=4, alignment=3)


@kernel("unsupported", "alloca", "no GPU has that", name="alloca of 2^62 bytes")
def _(b):
    b("alloca", to=pointer("f32"), num_elem=1 << 60, alignment=16)


@kernel("unsupported", "alloca", "no GPU has that", name="alloca aligned to 2^62")
def _(b):
    b("alloca", to=pointer("f32"), num_elem=1, alignment=1 << 62)


@kernel("out-of-bounds", "load_ptr_tko", "bytes? ", name="alloca of nothing")
def _(b):
    b("load_ptr_tko", b("alloca", to=pointer("f32"), num_elem=0, alignment=16), to=[tile("f32"), TOKEN])


@kernel("malformed", "get_global", "", name="a global that is not there")
def _(b):
    b("get_global", to=pointer("f32"), name="nowhere")


@kernel("unsupported", "load_ptr_tko", "two to a byte", pointer("i4"), name="a load of four bits")
def _(b):
    b("load_ptr_tko", b.params[0], to=[tile("i4"), TOKEN])


@kernel("out-of-bounds", "extract", "index 4", pointer("f32"), name="extract beyond")
def _(b):
    value = load(b, b.params[0], "f32", 8)
    b("extract", value, indices=[b.constant(4)], to=tile("f32", 2))


@kernel("out-of-bounds", "extract", "index 4294967295", pointer("f32"), name="extract at -1, which is unsigned")
def _(b):
    b("extract", load(b, b.params[0], "f32", 8), indices=[b.constant(-1)], to=tile("f32", 2))


@kernel("out-of-bounds", "load_ptr_tko", "byte", pointer("f32"), name="an offset of -2^31 elements")
def _(b):
    b("load_ptr_tko", b("offset", b.params[0], b.constant(-(1 << 31)), to=pointer("f32")), to=[tile("f32"), TOKEN])


@kernel("out-of-bounds", "load_ptr_tko", "", tile("i64"), name="address 0", arguments=(0,))
def _(b):
    b("load_ptr_tko", b("int_to_ptr", b.params[0], to=pointer("f32")), to=[tile("f32"), TOKEN])


@kernel("out-of-bounds", "store_ptr_tko", "", tile("i64"), name="the last address", arguments=((1 << 64) - 4,))
def _(b):
    b("store_ptr_tko", b("int_to_ptr", b.params[0], to=pointer("f32")), b.constant(1.0, tile("f32")), to=TOKEN)


@kernel("assert", "assert", "not this", tile("i1"), name="a failed assertion", arguments=(0,))
def _(b):
    b("assert", b.params[0], message="not this")


@pytest.mark.parametrize("name", KERNELS)
def test_fault(name):
    kind, op, message, params, build, arguments = KERNELS[name]
    b = Kernel(*params)
    build(b)
    given = list(arguments) or [torch.zeros(64, dtype=torch.float64) for _ in params]
    with pytest.raises(ExecutionError, match=message) as caught:
        run(b, *given)
    error = caught.value
    assert (error.kind, error.op) == (kind, op), str(error)
    assert error.file == "kernel.rs"
    assert error.line > 0


def trips(element, lower, upper, step, unsigned=False, **options):
    """How often a `for` turns; the last index it had."""
    kind, count = tile(element), tile("i64")
    b = Kernel(pointer("i64"))
    bounds = [b.constant(each, kind) for each in (lower, upper, step)]
    with b.region(kind, count) as body:
        b("continue", b("addi", body.params[1], b.constant(1, count), to=count, overflow="none"))
    start = [b.constant(0, count)]
    total = b("for", *bounds, init_values=start, to=[count], regions=[body], unsigned_cmp=unsigned)
    b("store_ptr_tko", b.params[0], total, to=TOKEN)
    out = torch.zeros(1, dtype=torch.int64)
    run(b, out, **options)
    return out.item()


LEAST, MOST = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize(
    ("element", "lower", "upper", "step", "unsigned", "expected"),
    [
        *(("i32", 0, 0, 1, False, 0), ("i32", 5, -5, 1, False, 0), ("i32", -3, 4, 3, False, 3)),
        *(("i8", -128, 127, 1, False, 255), ("i8", 0, -1, 1, True, 255), ("i8", -128, 127, 127, False, 3)),
        *(("i32", -(1 << 31), (1 << 31) - 1, (1 << 31) - 1, False, 3), ("i64", LEAST, MOST, 1 << 62, False, 4)),
        *(("i64", LEAST, MOST, MOST, False, 3), ("i64", 0, -1, 1 << 62, True, 4), ("i64", -1, 0, 1, True, 0)),
    ],
)
def test_loops_to_the_ends_of_their_type(element, lower, upper, step, unsigned, expected):
    assert trips(element, lower, upper, step, unsigned) == expected


def test_loops_whose_bounds_differ_by_block():
    kind = tile("i64")
    b = Kernel(*[pointer("i64")] * 3)
    block = b("get_tile_block_id", to=[I32] * 3)[0]
    lows, highs, out = (b("offset", p, block, to=pointer("i64")) for p in b.params)
    bounds = [b("load_ptr_tko", each, to=[kind, TOKEN])[0] for each in (lows, highs)]
    with b.region(kind, kind) as body:
        b("continue", b("addi", body.params[1], b.constant(1, kind), to=kind, overflow="none"))
    start, step = b.constant(0, kind), b.constant(1 << 61, kind)
    b("store_ptr_tko", out, b("for", *bounds, step, init_values=[start], to=[kind], regions=[body]), to=TOKEN)
    low = torch.tensor([-(1 << 62) - 5, 0, LEAST, 7])
    high = torch.tensor([(1 << 62) + 5, 3, MOST, 7])
    found = torch.zeros(4, dtype=torch.int64)
    run(b, low, high, found, grid=(4, 1, 1))
    assert found.tolist() == [5, 1, 8, 0]


@pytest.mark.parametrize("step", [0, -1, -(1 << 31)])
@pytest.mark.parametrize("bounds", [(0, 10), (10, 0)])
def test_steps_have_to_be_positive(bounds, step):
    with pytest.raises(ExecutionError, match=f"step is {step}: it has to be positive") as caught:
        trips("i32", *bounds, step)
    assert caught.value.kind == "endless"


@pytest.mark.parametrize("upper", [(1 << 31) - 1, MOST])
def test_a_loop_of_2_to_the_31_turns_and_more_is_endless(upper):
    with pytest.raises(ExecutionError) as caught:
        trips("i64", 0, upper, 1, iterations=500)
    assert (caught.value.kind, caught.value.op) == ("endless", "for")


def endless(*, inner):
    b = Kernel()
    with b.region() as outer:
        if inner:
            bounds = [b.constant(each) for each in (0, 100, 1)]
            with b.region(I32) as body:
                b("continue")
            b("for", *bounds, init_values=[], regions=[body])
        b("continue")
    b("loop", init_values=[], regions=[outer])
    return b


@pytest.mark.parametrize("inner", [False, True])
def test_endless_loops_end(inner):
    with pytest.raises(ExecutionError) as caught:
        run(endless(inner=inner), iterations=200)
    assert caught.value.kind == "endless"


@pytest.mark.parametrize(
    ("values", "predicate"),
    [
        ([4, 5, 6, 9], DivBy(4, 4, 0)),
        ([5, 6, 7, 8], DivBy(4, 4, 0)),
        ([0, 4, 8, 13], DivBy(4)),
        ([0, 0, 1, 0], SameElements((2,))),
        ([0, 0, 0, -1], Bounded(0, None)),
        ([0, 0, 0, 9], Bounded(None, 8)),
    ],
)
def test_false_assumptions(values, predicate):
    b = Kernel(pointer("i32"))
    x = load(b, b.params[0], "i32", 4)
    b("assume", x, to=x.type, predicate=predicate)
    with pytest.raises(ExecutionError) as caught:
        run(b, torch.tensor(values, dtype=torch.int32))
    assert (caught.value.kind, caught.value.op) == ("assume", "assume")


@pytest.mark.parametrize(
    ("element", "values", "predicate"),
    [
        ("i32", [4, 5, 8, 9], DivBy(4, 2, 0)),
        ("i8", [0, 0, 0, 0], DivBy(256)),
        ("i64", [LEAST, 0, 0, LEAST], DivBy(1 << 62)),
        ("i32", [1, 1, 1, 2], SameElements((3,))),
        ("i8", [-128, 127, 0, 0], Bounded(-128, 127)),
    ],
)
def test_true_assumptions(element, values, predicate):
    b = Kernel(pointer(element))
    x = load(b, b.params[0], element, 4)
    b("assume", x, to=x.type, predicate=predicate)
    run(b, torch.tensor(values, dtype={"i8": torch.int8, "i32": torch.int32, "i64": torch.int64}[element]))


@pytest.mark.parametrize("data", [b"", b"123", b"1" * 15, b"1" * 17, b"1" * 64])
def test_globals_of_another_size(data):
    b = Kernel()
    b("get_global", to=pointer("i32"), name="g")
    module = b.module()
    module.globals.append(Global("g", I4, data))
    with pytest.raises(ExecutionError, match="global g") as caught:
        run_launch(write_module(module), (1, 1, 1), [])
    assert caught.value.kind == "malformed"


def test_large_constants_take_no_memory():
    b = Kernel()
    for _ in range(300):
        b("constant", to=tile("i64", 1 << 24), value=bytes(8))
        b("iota", to=tile("i32", 1 << 22))
    run_launch(write_module(b.module()), (1, 1, 1), [])


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_and_reductions_of_one_element(reverse):
    b = Kernel(pointer("f32"), pointer("f32"))
    x = load(b, b.params[0], "f32", 1)
    one = tile("f32")
    with b.region(one, one) as body:
        b("yield", b("addf", *body.params, to=one))
    scanned = b("scan", x, to=x.type, dim=0, reverse=reverse, identities=(0.0,), regions=[body])
    store(b, b.params[1], scanned, "f32", 1)
    b(
        "store_ptr_tko",
        b("offset", b.params[1], b.constant(1), to=pointer("f32")),
        b.reduce("maxf", x, 0, one, 0.0),
        to=TOKEN,
    )
    out = torch.zeros(2)
    run(b, torch.tensor([-7.5]), out)
    assert out.tolist() == [-7.5, -7.5]


def test_a_scan_backwards_along_the_first_axis():
    b = Kernel(pointer("i32"), pointer("i32"))
    x = b("reshape", load(b, b.params[0], "i32", 8), to=tile("i32", 4, 2))
    with b.region(I32, I32) as body:
        b("yield", b("addi", *body.params, to=I32, overflow="none"))
    scanned = b("scan", x, to=x.type, dim=0, reverse=True, identities=(0,), regions=[body])
    store(b, b.params[1], b("reshape", scanned, to=tile("i32", 8)), "i32", 8)
    out = torch.zeros(8, dtype=torch.int32)
    run(b, torch.arange(8, dtype=torch.int32), out)
    assert out.tolist() == [12, 16, 12, 15, 10, 12, 6, 7]


@pytest.mark.parametrize("names", [("a", "b"), ()])
def test_no_entry_or_two(names):
    data = write_module(Module((13, 4), [Kernel(name=each).finish() for each in names]))
    with pytest.raises(ExecutionError, match="One entry was expected") as caught:
        run_launch(data, (1, 1, 1), [])
    assert caught.value.kind == "arguments"
