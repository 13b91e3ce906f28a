// SPDX-License-Identifier: MIT
//! Host time of the hot path up to the driver: `cargo test --release -- --ignored --nocapture speed`.

use super::fake::{FUNCTION, quiet};
use super::{F16, PROBE, dense, key_of};
use crate::launch::{Call, Plan, call};
use crate::tensor_desc::TensorDesc;
use std::hint::black_box;
use std::time::Instant;

fn nanoseconds(name: &str, mut body: impl FnMut()) {
    const ROUNDS: u32 = 200_000;
    let best = (0..5).map(|_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| body());
        start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
    });
    println!("{name}: {:.0} ns", best.fold(f64::MAX, f64::min));
}

#[test]
#[ignore = "a measurement"]
fn hot_path() {
    let x = dense(F16, &[64, 1024]);
    let descs: [*const TensorDesc; 2] = [&x, &x];
    let options = Call { grid: [64, 1, 1], hints: [0; 3], device: 0, stream: 0 };
    let key = key_of(&PROBE, &[x, x], &[1 << 20], &[0; 3]).expect("valid");
    PROBE.specs.intern(&PROBE, &key).set_function(0, FUNCTION);
    // SAFETY: live descriptors; nothing is launched.
    let plan = unsafe { Plan::new(&PROBE, &descs, &[64], &[1 << 20], &options) }.expect("valid").expect("loaded");
    let plan = std::ptr::from_ref(&plan).cast();
    // SAFETY: live descriptors and plan; nothing is launched.
    quiet(|| unsafe {
        nanoseconds("key of two tensors", || {
            let _ = black_box(crate::specialize::key(&PROBE, black_box(&descs), &[1 << 20], &[0; 3]));
        });
        nanoseconds("call: key, look-up, parameters", || {
            let _ = black_box(call(&PROBE, black_box(&descs), &[64], &[1 << 20], &options));
        });
        nanoseconds("cutile_run_plan", || {
            black_box(crate::exports::cutile_run_plan(black_box(plan), 0, 0x1000, 0x2000, 0, 0));
        });
    });
}
