// SPDX-License-Identifier: MIT
//! Passes over branches.

use super::{operations, replace, results, walk};
use cutile_ir::Module;
use cutile_ir::bytecode::Opcode;
use cutile_ir::ir::{OpId, RegionId, Value, ValueProducer};
use std::collections::HashMap;

/// An `if` yields what it changes: a result that every arm hands on as it was before the `if` is that value.
///
/// The front end yields every variable of the loop or branch around an `if`, changed or not. An arm that leaves the loop
/// yields nothing, so the result has the value of the arms that do: where they yield one value, made outside of the
/// `if`, it is the result whichever arm ran. Readers take that value and the result goes. Inner branches come first:
/// what they hand on unchanged is unchanged for the outer one too.
pub fn unchanged_results(module: &mut Module) {
    let mut results = results(module).0;
    for (block, op) in operations(module).into_iter().rev() {
        if module.op(op).opcode != Opcode::If {
            continue;
        }
        let yields: Vec<OpId> = module.op(op).regions.iter().filter_map(|&arm| last(module, arm)).collect();
        let yields: Vec<OpId> = yields.into_iter().filter(|&end| module.op(end).opcode == Opcode::Yield).collect();
        let Some(&first) = yields.first() else { continue };
        let unchanged = |&position: &usize| {
            let value = module.op(first).operands[position];
            let same = yields.iter().all(|&end| module.op(end).operands[position] == value);
            (same && !is_made_inside(module, op, value)).then_some((position, value))
        };
        let positions = 0..module.op(op).result_types.len();
        let gone: HashMap<usize, Value> = positions.clone().filter_map(|position| unchanged(&position)).collect();
        if gone.is_empty() {
            continue;
        }
        let kept: Vec<usize> = positions.filter(|position| !gone.contains_key(position)).collect();
        let of = results.remove(&op).unwrap_or_default();
        for end in yields {
            let operands = &mut module.op_mut(end).operands;
            *operands = kept.iter().map(|&position| operands[position]).collect();
        }
        // A value's position among its operation's results is fixed: fewer results are another operation's.
        let mut fewer = module.op(op).clone();
        fewer.result_types = kept.iter().map(|&position| fewer.result_types[position].clone()).collect();
        let types = fewer.result_types.clone();
        let fewer = module.alloc_op(fewer);
        let mut now = gone;
        for (result_index, (ty, &position)) in types.into_iter().zip(&kept).enumerate() {
            let producer = ValueProducer::OpResult { op: fewer, result_index: result_index as u32 };
            now.insert(position, module.alloc_value(ty, producer));
        }
        module.block_mut(block).ops.iter_mut().filter(|other| **other == op).for_each(|other| *other = fewer);
        let all = operations(module);
        for (position, value) in now {
            replace(module, &all, of[position], value);
        }
    }
}

/// The operation that a region ends with.
fn last(module: &Module, region: RegionId) -> Option<OpId> {
    module.region(region).blocks.last().and_then(|&block| module.block(block).ops.last().copied())
}

fn is_made_inside(module: &Module, op: OpId, value: Value) -> bool {
    let mut inside = vec![];
    walk(module, &module.op(op).regions, &mut inside);
    match module.value_data(value).producer {
        ValueProducer::OpResult { op, .. } => inside.iter().any(|&(_, other)| other == op),
        ValueProducer::BlockArg { block, .. } => inside.iter().any(|&(other, _)| other == block),
    }
}
