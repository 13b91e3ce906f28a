// SPDX-License-Identifier: MIT
//! Numbers of the C contract, shared by build.rs and the library.

/// Version of the C ABI; changes when a function or a struct changes its meaning.
pub const ABI: i32 = 1;
/// Axes of a `TensorDesc`.
pub const MAX_RANK: usize = 5;
/// Parameters of one launch (pointer, extents, strides, scalars): the size of the launch routine's stack arrays.
pub const MAX_SLOTS: usize = 192;
/// Words of a specialization key: one per tensor or pointer, one per constant, one per hint.
pub const MAX_KEY_WORDS: usize = 64;
/// Hints of a launch: num_cta_in_cga, occupancy, num_worker_warps.
pub const HINTS: usize = 3;
/// Type generics of one kernel.
pub const MAX_TYPES: usize = 8;

/// (name in the kernel language, bits of one element); the index is the dtype code.
pub const DTYPES: [(&str, u32); 14] = [
    ("f32", 32),
    ("f16", 16),
    ("bf16", 16),
    ("i32", 32),
    ("i64", 64),
    ("f8e5m2", 8),
    ("f4e2m1fnx2", 8),
    ("f8e4m3fn", 8),
    ("u8", 8),
    ("i8", 8),
    ("i16", 16),
    ("f64", 64),
    ("bool", 8),
    ("f8e8m0fnu", 8),
];

/// Return codes.
pub const OK: i32 = 0;
pub const NOT_LOADED: i32 = 1;
pub const UNSUPPORTED: i32 = -2;
pub const LAUNCH: i32 = -3;
pub const DEVICE: i32 = -4;
pub const NULL: i32 = -5;
pub const INVALID: i32 = -6;
pub const PANIC: i32 = -7;
