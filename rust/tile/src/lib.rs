// SPDX-License-Identifier: MIT
//! `#[tile::entry(...)]` marks a kernel for the cutile front end and for build.rs; rustc sees the plain function.
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
