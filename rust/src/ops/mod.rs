// SPDX-License-Identifier: MIT
//! Device kernels, one file per TileGym op. This list is written by hand: build.rs reads the files and checks it.

pub mod apply_rope_base;
pub mod dropout;
pub mod fmha;
pub mod fused_linear_cross_entropy;
pub mod geglu;
pub mod gelu;
pub mod get_swiglu;
pub mod layer_norm;
pub mod layer_norm_legacy;
pub mod matmul;
pub mod mhc_apply_residual;
pub mod mhc_sinkhorn;
pub mod persistent_layer_norm;
pub mod relu;
pub mod rms_norm;
pub mod silu_and_mul;
pub mod softmax;
pub mod splitk_reduce;
pub mod transpose;
