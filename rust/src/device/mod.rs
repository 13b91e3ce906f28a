// SPDX-License-Identifier: MIT
//! Device functions that kernels of several ops share, one file per concern.

pub mod activations;
pub mod elementwise;
pub mod exponents;
pub mod gated;
pub mod layer_norms;
pub mod memory;
pub mod moments;
pub mod rotary;
pub mod rows;
