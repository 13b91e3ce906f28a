// SPDX-License-Identifier: MIT
//! Plans, with the function declared loaded and the launch recorded (`fake`).

use super::fake::{FUNCTION, Launched, take};
use super::{F16, PROBE, dense, key_of};
use crate::launch::{Call, Plan};
use crate::status::{Code, NOT_LOADED, OK, Result};
use crate::tensor_desc::TensorDesc;

const ROWS: u64 = 60;

fn call(grid: [i32; 3], device: i32) -> Call {
    Call { grid, hints: [0; 3], device, stream: 0 }
}

fn plan_on(x: &TensorDesc, block: i32, grid: [i32; 3], device: i32) -> Result<Option<Plan>> {
    let descs: [*const TensorDesc; 2] = [x, x];
    // SAFETY: live descriptors.
    unsafe { Plan::new(&PROBE, &descs, &[ROWS], &[block], &call(grid, device)) }
}

/// Declares the probe for `x` and `block` loaded on `device`.
fn loaded(x: &TensorDesc, block: i32, device: usize) {
    let key = key_of(&PROBE, &[*x, *x], &[block], &[0; 3]).expect("valid");
    PROBE.specs.intern(&PROBE, &key).set_function(device, FUNCTION);
}

fn plan(x: &TensorDesc, block: i32) -> Plan {
    loaded(x, block, 0);
    plan_on(x, block, [7, 1, 1], 0).expect("valid").expect("loaded")
}

fn run(plan: &Plan, pointers: &[u64], scalars: Option<&[u64]>) -> Result<i32> {
    // SAFETY: nothing is launched.
    unsafe { plan.run(42, pointers, scalars) }
}

#[test]
fn a_run_passes_the_flattened_parameters() {
    let mut x = dense(F16, &[60, 1000]);
    x.strides[0] = 1008;
    let plan = plan(&x, 1 << 12);
    assert_eq!(run(&plan, &[0x1000, 0x2000], None), Ok(OK));
    assert_eq!(run(&plan, &[0x3000, 0x4000], Some(&[59])), Ok(OK));
    let values = |out, x, rows| vec![out, 60, 1000, 1008, 1, x, 60, 1000, 1008, 1, rows];
    let launched = |values| Launched { grid: [7, 1, 1], stream: 42, values };
    assert_eq!(take(), [launched(values(0x1000, 0x2000, ROWS)), launched(values(0x3000, 0x4000, 59))]);
}

#[test]
fn a_typed_call_passes_the_same_parameters() {
    let x = dense(F16, &[60, 1000]);
    loaded(&x, 1 << 13, 3);
    // SAFETY: live descriptors; nothing is launched.
    let code = unsafe { super::probe::cutile_probe_row(&x, &x, 60, 1 << 13, 7, 1, 1, 3, 9) };
    assert_eq!(code, OK);
    let values = vec![x.ptr, 60, 1000, 1000, 1, x.ptr, 60, 1000, 1000, 1, 60];
    assert_eq!(take(), [Launched { grid: [7, 1, 1], stream: 9, values }]);
}

#[test]
fn another_alignment_is_answered_not_launched() {
    let plan = plan(&dense(F16, &[60, 1000]), 1 << 14);
    assert_eq!(run(&plan, &[0x1000, 0x2002], None), Ok(NOT_LOADED));
    assert_eq!(run(&plan, &[0x1008, 0x2000], None), Ok(NOT_LOADED));
    assert_eq!(take(), []);
}

#[test]
fn a_plan_needs_its_function_on_its_device() {
    let x = dense(F16, &[60, 1000]);
    assert!(plan_on(&x, 1 << 15, [7, 1, 1], 0).expect("valid").is_none());
    loaded(&x, 1 << 15, 1);
    assert!(plan_on(&x, 1 << 15, [7, 1, 1], 0).expect("valid").is_none());
    assert!(plan_on(&x, 1 << 15, [7, 1, 1], 1).expect("valid").is_some());
    assert_eq!(plan_on(&x, 1 << 15, [7, 1, 1], 64).err().map(|e| e.code), Some(Code::Device));
    assert_eq!(plan_on(&x, 1 << 15, [7, -1, 1], 1).err().map(|e| e.code), Some(Code::Invalid));
}

#[test]
fn an_empty_grid_launches_nothing_and_needs_nothing_loaded() {
    let plan = plan_on(&dense(F16, &[0, 1000]), 1 << 16, [0, 1, 1], 0).expect("valid").expect("nothing to load");
    assert_eq!(run(&plan, &[0, 0], None), Ok(OK));
    assert_eq!(take(), []);
}

#[test]
fn counts_are_checked_at_every_run() {
    let plan = plan(&dense(F16, &[60, 1000]), 1 << 17);
    let refused = |r: Result<i32>| r.err().map(|e| (e.code, e.text)).expect("refused");
    assert_eq!(refused(run(&plan, &[16], None)), (Code::Invalid, "probe_row: takes 2 pointers, got 1".into()));
    let (code, text) = refused(run(&plan, &[16, 16], Some(&[])));
    assert_eq!((code, text.as_str()), (Code::Invalid, "probe_row: takes 1 scalars, got 0"));
    assert_eq!(take(), []);
}

#[test]
fn threads_share_plans_without_seeing_each_other_s_pointers() {
    let plans: Vec<Plan> = (0..4).map(|i| plan(&dense(F16, &[60, 1000 + i]), 1 << 18)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let plans = &plans;
            scope.spawn(move || {
                for round in 0..20_000u64 {
                    let (plan, at) = (&plans[(round % 4) as usize], (thread << 32) + round * 16);
                    assert_eq!(run(plan, &[at, at + 16], Some(&[thread])), Ok(OK));
                    let launch = take().pop().expect("one launch");
                    let columns = 1000 + round % 4;
                    assert_eq!(launch.values, [at, 60, columns, columns, 1, at + 16, 60, columns, columns, 1, thread]);
                }
            });
        }
    });
}
