// SPDX-License-Identifier: MIT
//! tilegym-rs: cutile-rs kernels and their launcher behind a C interface.
//!
//! `ops` holds device code only. A call goes exports -> specialize -> table -> launch -> driver; a cold one is
//! answered 1, and the caller goes spec -> emit (frontend) -> its assembler -> load, and calls again.
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod contract;
mod driver;
pub mod exports;
mod frontend;
mod holds;
mod image;
mod kernel;
mod launch;
mod moments;
// In device code every load and store is `unsafe`; the one promise behind them all is the launch's: shapes, strides
// and grid fit (`exports`, `launch`).
#[allow(clippy::undocumented_unsafe_blocks)]
pub mod ops;
mod passes;
#[allow(clippy::undocumented_unsafe_blocks)] // device code, as in `ops`
mod rows;
mod specialize;
mod status;
mod table;
mod tensor_desc;
#[cfg(test)]
mod tests;
mod texts;
