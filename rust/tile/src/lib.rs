// SPDX-License-Identifier: MIT
//! `#[tile::entry(...)]` marks a kernel for the cutile front end and for build.rs; rustc sees the plain function. The
//! other attributes say more about an entry to build.rs alone.
//!
//! cutile reads any attribute whose last segment is `entry`, but under its own `#[cutile::entry]` it also writes a host
//! launcher of some 450 lines per kernel. Nothing here calls those: launches go through the C interface. They were
//! nine tenths of what rustc had to read again after an edit.

use proc_macro::TokenStream;

/// Return the function as it is; the attribute's arguments are read from the source text.
#[proc_macro_attribute]
pub fn entry(_arguments: TokenStream, kernel: TokenStream) -> TokenStream {
    kernel
}

/// `#[tile::flattened(x = 2)]`: the parameter `x: *mut E` and the scalars `x_n0, x_n1, x_s0, x_s1` behind it are one
/// tensor of rank 2: its address, extents and strides. The launch takes one descriptor for them and specializes them
/// like a `&Tensor`, whose strides a kernel cannot read.
#[proc_macro_attribute]
pub fn flattened(_arguments: TokenStream, kernel: TokenStream) -> TokenStream {
    kernel
}

/// `#[tile::holds(x(extents = [1, -1], strides = [-1, 1], pointer_16, extents_16 = [1], strides_16 = [0]))]`: what the
/// kernel's text takes for granted of a tensor. Values by axis (-1: any), a 16-byte aligned address, axes whose extent
/// is a multiple of 16, axes whose stride is a multiple of 16 bytes. A launch that does not satisfy it is refused.
#[proc_macro_attribute]
pub fn holds(_arguments: TokenStream, kernel: TokenStream) -> TokenStream {
    kernel
}

/// `#[tile::passes(drop_bounds, unchanged_results, constant_tiles, fold_pads, wrapping_truncations, constant_bits,
/// scan_axes = [1])]`: passes over the kernel's Tile IR after the cutile front end (src/passes.rs).
#[proc_macro_attribute]
pub fn passes(_arguments: TokenStream, kernel: TokenStream) -> TokenStream {
    kernel
}
