// SPDX-License-Identifier: MIT
//! A function that is launched nowhere: the launch that would reach the driver is recorded instead.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// The CUfunction of a specialization that a test declares loaded.
pub const FUNCTION: u64 = 0xfa4e;

/// One recorded launch: what the driver would have read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub grid: [u32; 3],
    pub stream: u64,
    pub values: Vec<u64>,
}

thread_local! {
    static LAUNCHES: RefCell<Vec<Launched>> = const { RefCell::new(Vec::new()) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` without recording, for measurements.
pub fn quiet(body: impl FnOnce()) {
    QUIET.set(true);
    body();
    QUIET.set(false);
}

pub fn launched(grid: [u32; 3], stream: u64, params: &[*mut c_void]) {
    if QUIET.get() {
        std::hint::black_box(params);
        return;
    }
    // SAFETY: each parameter points to a live 8-byte slot for the duration of the launch.
    let values = params.iter().map(|&p| unsafe { *p.cast::<u64>() }).collect();
    LAUNCHES.with(|l| l.borrow_mut().push(Launched { grid, stream, values }));
}

/// This thread's launches since the last call.
pub fn take() -> Vec<Launched> {
    LAUNCHES.take()
}
