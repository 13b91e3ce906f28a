# SPDX-License-Identifier: MIT
"""Element types: cuda.tile's names, Rust's, and what the emitters ask about them."""

from __future__ import annotations

from typing import Any

RUST_NAMES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "tfloat32": "tf32",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "float4_e2m1fn": "f4e2m1fn",
    "bool_": "bool",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}
HALVES = ("f16", "bf16")
_BITS = {"bool": 1, "f4e2m1fn": 4, "f8e4m3fn": 8, "f8e5m2": 8, "bf16": 16, "tf32": 32}


def rust_name(dtype: Any) -> str | None:
    """The Rust name of an element type, None when the DSL has none (a pointer's is not one)."""
    return RUST_NAMES.get(str(dtype))


def is_float(name: str) -> bool:
    """Whether a Rust element type is a floating-point type."""
    return name != "bool" and name[0] in "fbt"


def is_unsigned(name: str) -> bool:
    """Whether a Rust element type is an unsigned integer; bool counts as one."""
    return name == "bool" or name[0] == "u"


def bits(name: str) -> int:
    """Width of an element."""
    return _BITS.get(name) or int(name[1:])
