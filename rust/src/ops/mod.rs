// SPDX-License-Identifier: MIT
//! Device kernels, one file per TileGym op. This list is written by hand: build.rs reads the files and checks it.

pub mod apply_rope_base;
pub mod fmha;
pub mod fused_linear_cross_entropy;
pub mod matmul;
pub mod mhc_apply_residual;
pub mod mhc_sinkhorn;
pub mod silu_and_mul;
pub mod softmax;
pub mod splitk_reduce;
pub mod transpose;
