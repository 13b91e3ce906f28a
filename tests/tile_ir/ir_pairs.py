# SPDX-License-Identifier: MIT
"""What the tests of the comparison share: kernels that differ in one expression, and the verdict on two kernels."""

from __future__ import annotations

from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile

from tilegym_rs_backend.tile_ir.verdict import Sameness
from tilegym_rs_backend.tile_ir.verdict import compare

IDENTICAL, EQUIVALENT, DIFFERS = Sameness.IDENTICAL, Sameness.EQUIVALENT, Sameness.DIFFERS
WIDE = tile("f32", 32)
ALL = pointer("f32", 32)


def verdict(ours, theirs, arch="sm_90"):
    return compare(ours.finish(), theirs.finish(), arch)


def elementwise(body, *, file="kernel.rs", pointers=3, params=(), **hints):
    """``store(p[-1], body(b, x, y, ..))`` of tiles loaded through the other pointers."""
    b = Kernel(*[ALL] * pointers, *params, file=file, **hints)
    root = b("make_token", to=TOKEN)
    loaded = [b("load_ptr_tko", p, token=root, to=[WIDE, TOKEN])[0] for p in b.params[: pointers - 1]]
    b("store_ptr_tko", b.params[pointers - 1], body(b, *loaded), token=root, to=TOKEN)
    return b


def op(name, **attributes):
    return lambda b, *xs: b(name, *xs, to=WIDE, **attributes)
