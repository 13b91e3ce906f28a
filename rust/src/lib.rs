// SPDX-License-Identifier: MIT
//! tilegym-rs: cutile-rs kernels and their launcher behind a C interface.
//!
//! `ops` and `device` hold device code only. A call goes exports -> specialize -> table -> launch -> driver; a cold one
//! is answered 1, and the caller goes spec -> emit (frontend) -> its assembler -> load, and calls again.
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod contract;
// In device code every load and store is `unsafe`; the one promise behind them all is the launch's: shapes, strides
// and grid fit (`exports`, `launch`).
#[allow(clippy::undocumented_unsafe_blocks)]
pub mod device;
mod driver;
pub mod exports;
mod frontend;
mod holds;
mod image;
mod kernel;
mod launch;
#[allow(clippy::undocumented_unsafe_blocks)] // as in `device`
pub mod ops;
mod passes;
mod specialize;
mod status;
mod table;
mod tensor_desc;
#[cfg(test)]
mod tests;
mod texts;
