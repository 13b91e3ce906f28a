// SPDX-License-Identifier: MIT
//! In-crate tests: they need the private modules, and the kernels must live in the crate that is linked.

pub mod fake;
