# SPDX-License-Identifier: MIT
"""Ways in which an emitter of the translator can be wrong, each shown by a kernel that has the construct.

A mutation replaces a pattern in every line that its emitter writes for the kernel, and in nothing else. All of them
have to be found by a check.
"""

from __future__ import annotations

from dataclasses import dataclass

IR, SASS = "ir", "sass"
BY_CODE = frozenset({"clipped", "add_all"})
"""Kernels whose right translation has equal machine code, but Tile IR of another form (an early return, a list)."""


@dataclass(frozen=True)
class Mutation:
    """One wrong emitter.

    Attributes:
        emitter: the operation of the front end's IR that it is registered for.
        kind: what it gets wrong.
        kernel: of mutated_kernels.launches().
        pattern, replacement: a regular expression, applied to the emitter's lines.
        forgets: a pass that it does not name, instead of a pattern; ``"scan_axes"`` is its axis.
    """

    emitter: str
    kind: str
    kernel: str
    pattern: str = ""
    replacement: str = ""
    forgets: str = ""

    @property
    def id(self) -> str:
        """Unique among all."""
        return f"{self.emitter}-{self.kind}-{self.kernel}".replace(" ", "_")

    @property
    def caught_by(self) -> str:
        """The check that has to fail: the Tile IR's verdict, or the machine code's."""
        return SASS if self.kernel in BY_CODE else IR


def _of(emitter: str, *rows: tuple[str, str, str, str]) -> list[Mutation]:
    return [Mutation(emitter, *row) for row in rows]


_PAIR = r"\((\w+), (\w+)"

MUTATIONS = [
    *_of(
        "RawBinaryArithmeticOperation",
        ("operand order", "floats", r"^(total\w*) - (\w+)$", r"\2 - \1"),
        ("operator", "floats", "^max_tile", "min_tile"),
        ("division for product", "floats", r"^(\w+) \* (\w+)$", r"\1 / \2"),
        ("rounding", "floats", "rounding::Zero", "rounding::NearestEven"),
        ("ftz", "floats", "ftz::Enabled", "ftz::Disabled"),
        ("approximation", "floats", rf"^true_div{_PAIR}\)", r"\1 / \2"),
        ("operands of a function", "floats", rf"^pow{_PAIR}\)", r"pow(\2, \1)"),
        ("operands of scalars", "floats", "^scale - limit$", "limit - scale"),
        ("rounding", "integers", "rounding::NegativeInf", "rounding::Zero"),
        ("operands of integers", "integers", r"^divi\(a, b", "divi(b, a"),
        ("operands of scalar division", "integers", r"floor_div\(n, limit\)", "floor_div(limit, n)"),
        ("operator of scalars", "integers", r"^min\(n, limit\)", "max(n, limit)"),
        ("modulus", "integers", "^n % 3i32$", "n / 3i32"),
        ("operator of integers", "integers", "^maxi", "mini"),
    ),
    *_of(
        "RawBinaryBitwiseOperation",
        ("operator", "integers", "^andi", "ori"),
        ("exclusive or", "integers", "^xori", "ori"),
        ("mask", "row_offsets", "^andi", "ori"),
    ),
    *_of(
        "RawBitwiseShiftOperation",
        ("direction", "integers", ">>", "<<"),
        ("operand order", "integers", r"^a << (\w+)$", r"\1 << a"),
    ),
    *_of(
        "RawComparisonOperation",
        ("predicate", "integers", "^lt_tile", "le_tile"),
        ("operand order", "integers", rf"^ge_tile{_PAIR}\)", r"ge_tile(\2, \1)"),
        ("nan", "floats", "Unordered", "Ordered"),
        ("predicate of floats", "floats", "predicate::NotEqual", "predicate::Equal"),
        ("predicate of scalars", "clipped", "^block >= limit$", "block > limit"),
        ("bounds", "row_offsets", "^lt_tile", "le_tile"),
    ),
    *_of("RawWhereOperation", ("arms", "floats", r"^select\((\w+), (\w+), (\w+)\)", r"select(\1, \3, \2)")),
    *_of(
        "FusedMulAddOperation",
        ("operand order", "floats", r"^fma\((\w+), (\w+), (\w+)", r"fma(\1, \3, \2"),
        ("rounding", "floats", "rounding::NearestEven", "rounding::Zero"),
        ("ftz", "floats", "ftz::Disabled", "ftz::Enabled"),
    ),
    *_of(
        "Unary",
        ("ftz", "functions", r"^exp2\((\w+), ftz::Enabled", r"exp2(\1, ftz::Disabled"),
        ("function", "functions", r"^log\(", "log2("),
        ("function of an angle", "functions", r"^sin\(", "cos("),
        ("rounding", "functions", "rounding::Zero", "rounding::NearestEven"),
        ("approximation", "functions", r"^unsafe \{ tanh_with_rounding\((\w+), rounding::Approx\) \}", r"tanh(\1)"),
        ("sign", "functions", r"^negf\((\w+)\)", r"absf(\1)"),
        ("sign of integers", "integers", r"^negi\((\w+), overflow::None\)", r"absi(\1)"),
        ("complement", "integers", r"constant\(-1i32", "constant(1i32"),
    ),
    *_of(
        "TileMma",
        ("accumulator", "product", r"total_2\)", "total)"),
        ("signedness", "integer_product", "signedness::Unsigned", "signedness::Signed"),
        ("fast accumulation", "quick_product", r"^unsafe \{ mmaf_with_fast_acc\((.*), fast_acc.*", r"mmaf(\1)"),
        ("operand order", "quick_product", r"\(x, y", "(y, x"),
    ),
    *_of(
        "TypedConst",
        ("constant", "rereads", "^1i32$", "3i32"),
        ("bits of a half", "half_offset", "14746u16", "14747u16"),
        ("sign of a half", "half_offset", r"^negf\((\w+)\)", r"absf(\1)"),
        ("unsigned constant", "mixed_bits", "-766435501i32", "-766435502i32"),
        ("negative constant", "conversions", r"^(\w+) - (\w+)$", r"\1 + \2"),
        ("generic", "clipped", "HALF_SCALE_TIMES_0P5_BITS", "HALF_SCALE_BITS"),
        ("filled tile", "blocks", "0.5f32", "0.25f32"),
    ),
    *_of("TileBroadcast", ("constant", "floats", "0.75f32", "0.5f32")),
    *_of("TileReshape", ("axes", "refolds", r"^(\w+)\.reshape.*", r"permute(\1, const_array![1, 0])")),
    *_of(
        "TilePermute",
        ("axes", "squares", r"const_array!\[1, 0\]", "const_array![0, 1]"),
        ("reshape", "shapes", r"^permute\(tile_2.*", "tile_2.reshape(shape![COLS, ROWS])"),
    ),
    *_of("TileArange", ("elements", "shapes", r"^iota\((.*)\)", r"constant(0i32, \1)")),
    *_of(
        "TileAsType",
        ("predicate", "conversions", "^ne_tile", "eq_tile"),
        ("bits for value", "conversions", r"^convert_tile\(tile_2\)", "bitcast(tile_2)"),
    ),
    Mutation("TileAsType", "overflow", "conversions", forgets="wrapping_truncations"),
    *_of("TileBitCast", ("value for bits", "shapes", "^bitcast", "convert_tile")),
    *_of("TileCat", ("operand order", "shapes", rf"^cat{_PAIR}", r"cat(\2, \1")),
    *_of("TileExtract", ("index", "shapes", r"\[(c\w*), (c\w*)\]", r"[\2, \1]")),
    *_of(
        "TileReduce",
        ("operator", "shapes", "^reduce_max", "reduce_min"),
        ("product for sum", "shapes", "^reduce_sum", "reduce_prod"),
        ("axis", "squares", "0i32", "1i32"),
    ),
    *_of("TileScan", ("direction", "backwards", "reverse::Reverse", "reverse::Forward")),
    Mutation("TileScan", "axis", "backwards", forgets="scan_axes"),
    *_of("TileBid", ("axis", "blocks", r"\.1$", ".0")),
    *_of("TileNumBlocks", ("axis", "blocks", r"\.0$", ".1")),
    *_of("JoinTokens", ("token", "rereads", r"\[(\w+), (\w+)\]", r"[\2]")),
    *_of("AssumeDivBy", ("divisor", "states_facts", "_, 16>", "_, 8>")),
    *_of("AssumeBounded", ("bound", "row_offsets", "_, 0>", "_, 1>")),
    *_of("MakeListView", ("stride", "add_all", r"\[3, 1\]", "[4, 1]")),
    *_of(
        "GetArrayListItem",
        ("word", "add_all", r"scalar_to_tile\(1i32\)", "scalar_to_tile(2i32)"),
        ("item", "add_all", r"\[i, 0i32\]", "[0i32, 0i32]"),
    ),
    *_of(
        "MakeTensorView",
        ("extents", "views", r"\[x_n0, x_n1\]", "[x_n1, x_n0]"),
        ("stride", "views", r"\{ dims: &\[x_s0\] \}", "{ dims: &[x_n0] }"),
    ),
    *_of(
        "MakePartitionView",
        ("padding", "views", "padding::Zero", "padding::NegZero"),
        ("no padding", "views", "padding::NegInf", "padding::None"),
        ("axes", "views", r"const_array!\[1, 0\]", "dim_map::Identity"),
    ),
    *_of("MakeGatherScatterView", ("padding", "selected_rows", "padding::Zero", "padding::NegZero")),
    *_of("NumTiles", ("axis", "views", "0i32", "1i32")),
    *_of(
        "TileLoad",
        ("index order", "views", r"\[i, j\]", "[j, i]"),
        ("tma", "views", "tma::Disabled", "tma::Enabled"),
        ("latency", "views", r"Some\(4\)", "Some(3)"),
        ("generic latency", "pipelined", r"Some\(LATENCY_PLUS_1\)", "Some(LATENCY)"),
        ("in bounds", "views", r"\[false, false\]", "[true, false]"),
        ("token", "rereads", r"Some\(tok_\d\)", "Some(tok)"),
    ),
    *_of(
        "TileStore",
        ("index order", "product", r"\[i, j\]", "[j, i]"),
        ("token", "rereads", r"Some\(tok_\d\)", "Some(tok)"),
        ("in bounds", "product", r"\[false, false\]", "[true, true]"),
        ("tma", "product", "tma::Enabled", "tma::Disabled"),
    ),
    *_of(
        "TileAtomicRMW",
        ("operator", "histogram", "atomic::Add", "atomic::Max"),
        ("signedness", "updates", "atomic::Max", "atomic::Umax"),
        ("order", "updates", "ordering::AcqRel", "ordering::Relaxed"),
        ("scope", "updates", "scope::Device", "scope::System"),
        ("mask", "updates", r"scope::Device, Some\(\w+\)", "scope::Device, None"),
        ("token", "updates", r"Some\(tok_\d\)\)", "Some(tok))"),
    ),
    *_of(
        "TileAtomicCAS",
        ("operand order", "updates", r"(\w+), before, value", r"\1, value, before"),
        ("order", "updates", "ordering::Relaxed", "ordering::AcqRel"),
        ("token", "updates", r"Some\(tok_\d\)\)", "Some(tok))"),
    ),
    *_of(
        "TileAtomicRedView",
        ("index", "adds_tiles", r"\[0i32\]", "[1i32]"),
        ("scope", "adds_tiles", "scope::Device", "scope::TileBlock"),
    ),
    *_of("PointerOffset", ("offset", "row_offsets", r"^(\w+)\.offset_tile\(\w+\)", r"\1.offset_tile(c)")),
    *_of(
        "LoadPointer",
        ("mask", "row_offsets", r"Some\(t_\w+\), None,", "None, None,"),
        ("padding", "row_offsets", r"^select\((\w+), (\w+), (\w+)\)", r"select(\1, \3, \2)"),
        ("latency", "pipelined", "Latency::<LATENCY>", "Latency::<0>"),
    ),
    Mutation("LoadPointer", "separate padding", "row_offsets", forgets="fold_pads"),
    *_of(
        "StorePointer",
        ("mask", "row_offsets", r"Some\(t_\w+\), Some", "None, Some"),
        ("latency", "pipelined", "Latency::<0>", "Latency::<2>"),
        ("operand", "states_facts", r"(\w+), ordering::Weak", r"\1, ordering::Relaxed"),
    ),
    *_of(
        "Loop",
        ("start", "views", r"1i32\.\.", "0i32.."),
        ("stop", "product", r"\.\.tiles", "..i"),
        ("step", "views", r"step_by\(2i32", "step_by(1i32"),
        ("initial value", "views", "^total$", "first"),
    ),
    *_of(
        "Continue",
        ("value", "views", "^total_2 = total_3;$", "total_2 = t_5;"),
        ("token", "rereads", "^tok_3 = tok_9;$", "tok_3 = tok_6;"),
    ),
    *_of(
        "Break",
        ("value", "finds", "^tile_2 = tile_3;$", "tile_2 = unset;"),
        ("order", "finds", "^break;$", "continue;"),
    ),
    *_of("IfElse", ("condition", "clipped", "^if t_9_s ", "if t_3 ")),
    *_of("EndBranch", ("value", "clipped", "^scaled = scaled_2;$", "scaled = tile_2;")),
    *_of("Return", ("condition", "clipped", "^if t ", "if true ")),
]

WITHOUT = {
    "MakeToken": "writes nothing: it stands for the root token, which is bound once before the body",
    "TilePack": "one function of one operand, and its result's type says the rest: rustc takes no other",
    "MakeDummy": "any value is right: the front end makes one for what is never read",
}
"""Emitters without a mutation, and why none is possible."""
