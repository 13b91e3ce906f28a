// SPDX-License-Identifier: MIT
//! Passes over a kernel's Tile IR between the cutile front end and the bytecode.
//!
//! Each makes the IR say exactly what cuTile Python's front end says for the same kernel, where the DSL of cutile-rs
//! 0.5.0 cannot. An entry names those it needs (`#[tile::passes(..)]`), and each comes with the reason why the kernel's
//! meaning stays what its text says.

mod branches;
mod constants;

use cutile_ir::Module;
use cutile_ir::bytecode::Opcode;
use cutile_ir::ir::{Attribute, BlockId, OpId, RegionId, Value, ValueProducer};
use std::collections::HashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // which ones the library's own entries name differs per library
pub enum Pass {
    DropBounds,
    UnchangedResults,
    ConstantTiles,
    FoldPads,
    WrappingTruncations,
    ConstantBits,
    /// The axis of each scan, in the order of the text.
    ScanAxes(&'static [i32]),
}

pub fn apply(module: &mut Module, passes: &[Pass]) -> Result<(), String> {
    for pass in passes {
        match pass {
            Pass::DropBounds => drop_bounds(module),
            Pass::UnchangedResults => branches::unchanged_results(module),
            Pass::ConstantTiles => constants::constant_tiles(module),
            Pass::FoldPads => fold_pads(module),
            Pass::WrappingTruncations => wrapping_truncations(module),
            Pass::ConstantBits => constants::constant_bits(module),
            Pass::ScanAxes(axes) => scan_axes(module, axes)?,
        }
    }
    Ok(())
}

/// Operations with their blocks, in the order of the text.
fn operations(module: &Module) -> Vec<(BlockId, OpId)> {
    let mut found = vec![];
    for &function in &module.functions {
        walk(module, &module.op(function).regions, &mut found);
    }
    found
}

fn walk(module: &Module, regions: &[RegionId], found: &mut Vec<(BlockId, OpId)>) {
    for &region in regions {
        for &block in &module.region(region).blocks {
            for &op in &module.block(block).ops {
                found.push((block, op));
                walk(module, &module.op(op).regions, found);
            }
        }
    }
}

/// Results of each operation, and the operation behind each result.
fn results(module: &Module) -> (HashMap<OpId, Vec<Value>>, HashMap<Value, OpId>) {
    let (mut of, mut producer): (HashMap<OpId, Vec<Value>>, HashMap<Value, OpId>) = Default::default();
    for (value, data) in module.values_since(0) {
        if let ValueProducer::OpResult { op, .. } = data.producer {
            of.entry(op).or_default().push(value);
            producer.insert(value, op);
        }
    }
    (of, producer)
}

fn replace(module: &mut Module, all: &[(BlockId, OpId)], from: Value, to: Value) {
    for &(_, op) in all {
        module.op_mut(op).operands.iter_mut().filter(|v| **v == from).for_each(|v| *v = to);
    }
}

fn remove(module: &mut Module, block: BlockId, op: OpId) {
    module.block_mut(block).ops.retain(|&other| other != op);
}

/// Drop the bounds that the front end attaches to block indices, grid extents and loop counters.
///
/// An `assume` is the identity on its operand plus a promise. Its result is replaced by its operand, so every value
/// stays what it was; a promise less allows fewer programs, never more.
fn drop_bounds(module: &mut Module) {
    let all = operations(module);
    let (of, _) = results(module);
    let mut roots = vec![];
    for &(_, op) in &all {
        match module.op(op).opcode {
            Opcode::GetTileBlockId | Opcode::GetNumTileBlocks => {
                roots.extend(of.get(&op).into_iter().flatten().copied());
            }
            Opcode::For => {
                let body = module.region(module.op(op).regions[0]).blocks[0];
                roots.extend(module.block(body).args.first().map(|arg| arg.0));
            }
            _ => {}
        }
    }
    for &(block, op) in &all {
        let data = module.op(op);
        if data.opcode != Opcode::Assume || !roots.contains(&data.operands[0]) {
            continue;
        }
        if !data.attributes.iter().any(|(_, attribute)| matches!(attribute, Attribute::Bounded(_))) {
            continue;
        }
        let (operand, result) = (data.operands[0], of[&op][0]);
        replace(module, &all, result, operand);
        remove(module, block, op);
    }
}

/// `select(m, load(p, m), pad)` becomes `load(p, m, pad)`.
///
/// A masked load without padding leaves the elements outside the mask undetermined, and one with padding sets them to
/// it: exactly what the `select` of the same mask did. Inside the mask both give what was loaded. Another reader of the
/// unpadded load saw undetermined elements where it now sees the padding, which is one of the values it could have
/// seen. The padding must be there before the load: the load is moved to nothing, so a padding computed between the
/// two leaves the pair as it is.
fn fold_pads(module: &mut Module) {
    let all = operations(module);
    let (of, producer) = results(module);
    let position: HashMap<OpId, usize> = all.iter().enumerate().map(|(i, &(_, op))| (op, i)).collect();
    for &(block, op) in &all {
        if module.op(op).opcode != Opcode::Select {
            continue;
        }
        let [mask, loaded, pad] = module.op(op).operands[..] else { continue };
        let Some(&load) = producer.get(&loaded) else { continue };
        let data = module.op(load);
        // Operands: addresses, mask, token. A load that is padded already has four.
        if data.opcode != Opcode::LoadPtrTko || data.operands.len() != 3 || data.operands[1] != mask {
            continue;
        }
        if producer.get(&pad).is_some_and(|made| position.get(made) > position.get(&load)) {
            continue;
        }
        if !has_padding(module, load) {
            continue;
        }
        module.op_mut(load).operands.insert(2, pad);
        replace(module, &all, of[&op][0], loaded);
        remove(module, block, op);
    }
}

/// Make room for a padding operand: (addresses, mask, padding, token) counts.
fn has_padding(module: &mut Module, load: OpId) -> bool {
    for (name, attribute) in &mut module.op_mut(load).attributes {
        if name == "operandSegmentSizes"
            && let Attribute::Array(sizes) = attribute
            && let Some(Attribute::Integer(count, _)) = sizes.get_mut(2)
            && *count == 0
        {
            *count = 1;
            return true;
        }
    }
    false
}

/// Integer truncations may wrap.
///
/// The DSL writes a truncation only together with the promise that no set bit is lost. This takes the promise back:
/// the result is defined for more operands and the same for those for which it was defined before.
fn wrapping_truncations(module: &mut Module) {
    for (_, op) in operations(module) {
        if module.op(op).opcode == Opcode::TruncI {
            for (name, attribute) in &mut module.op_mut(op).attributes {
                if name == "overflow"
                    && let Attribute::Integer(value, _) = attribute
                {
                    *value = 0;
                }
            }
        }
    }
}

/// Put in the axis that `scan_sum` was given: the front end of 0.5.0 emits axis 0 whatever the text says.
///
/// This makes the IR mean what the text says; the number of scans must agree, and helpers are inlined in text order.
fn scan_axes(module: &mut Module, axes: &[i32]) -> Result<(), String> {
    let scans: Vec<OpId> =
        operations(module).into_iter().map(|(_, op)| op).filter(|&op| module.op(op).opcode == Opcode::Scan).collect();
    if scans.len() != axes.len() {
        return Err(format!("the text names {} scan axes, the kernel has {} scans", axes.len(), scans.len()));
    }
    for (op, &axis) in scans.into_iter().zip(axes) {
        for (name, attribute) in &mut module.op_mut(op).attributes {
            if name == "dim" {
                *attribute = Attribute::i32(axis.into());
            }
        }
    }
    Ok(())
}
