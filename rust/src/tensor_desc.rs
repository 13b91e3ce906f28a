// SPDX-License-Identifier: MIT
//! `TensorDesc` as C sees it, and dtype codes.

use crate::contract::{DTYPES, MAX_RANK};

/// One tensor of a call; strides in elements, the first `ndim` entries count.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TensorDesc {
    pub ptr: u64,
    pub ndim: i32,
    pub shape: [i64; MAX_RANK],
    pub strides: [i64; MAX_RANK],
    pub dtype: i32,
}

/// A checked dtype code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DType(u8);

impl DType {
    #[inline]
    pub fn from_code(code: i32) -> Option<DType> {
        ((code as usize) < DTYPES.len() && code >= 0).then_some(DType(code as u8))
    }

    #[inline]
    pub fn code(self) -> u8 {
        self.0
    }

    /// The type's name in the kernel language.
    pub fn name(self) -> &'static str {
        DTYPES[self.0 as usize].0
    }

    /// Elements in 16 bytes.
    #[inline]
    pub fn per_16_bytes(self) -> u32 {
        128 / DTYPES[self.0 as usize].1
    }
}
