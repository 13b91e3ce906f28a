// SPDX-License-Identifier: MIT
//! Passes over constants.

use super::{operations, results};
use cutile_ir::Module;
use cutile_ir::bytecode::Opcode;
use cutile_ir::ir::{Attribute, OpId, TileElementType, Type};

/// `bitcast(constant)` becomes the constant of the same bits.
///
/// A bitcast keeps every bit of every element and changes what they are called, so the result is a constant, element by
/// element the one written down here; the widths of both element types are equal, because Tile IR allows no other.
pub fn constant_bits(module: &mut Module) {
    let (_, producer) = results(module);
    for (_, op) in operations(module) {
        let data = module.op(op);
        if data.opcode != Opcode::Bitcast {
            continue;
        }
        let Some(&source) = producer.get(&data.operands[0]) else { continue };
        let Type::Tile(target) = &data.result_types[0] else { continue };
        let TileElementType::Scalar(element) = target.element_type else { continue };
        if module.op(source).opcode != Opcode::Constant {
            continue;
        }
        let mut attributes = module.op(source).attributes.clone();
        for (_, attribute) in &mut attributes {
            if let Attribute::DenseElements(elements) = attribute {
                elements.element_type = Type::Scalar(element);
            }
        }
        become_constant(module, op, attributes);
    }
}

/// `broadcast(reshape(constant))` of one element becomes the constant of the broadcast's shape.
///
/// Every element of a broadcast is an element of its operand, and here there is one; a constant of one element written
/// at a larger shape is that element everywhere.
pub fn constant_tiles(module: &mut Module) {
    let (_, producer) = results(module);
    for (_, op) in operations(module) {
        if module.op(op).opcode != Opcode::Broadcast {
            continue;
        }
        let mut source = producer.get(&module.op(op).operands[0]).copied();
        if let Some(reshape) = source.filter(|&source| module.op(source).opcode == Opcode::Reshape) {
            source = producer.get(&module.op(reshape).operands[0]).copied();
        }
        let Some(source) = source.filter(|&source| module.op(source).opcode == Opcode::Constant) else { continue };
        let (Type::Tile(one), Type::Tile(all)) = (&module.op(source).result_types[0], &module.op(op).result_types[0])
        else {
            continue;
        };
        if one.shape.iter().any(|&extent| extent != 1) {
            continue;
        }
        let (mut attributes, shape) = (module.op(source).attributes.clone(), all.shape.clone());
        for (_, attribute) in &mut attributes {
            if let Attribute::DenseElements(elements) = attribute {
                elements.shape.clone_from(&shape);
            }
        }
        become_constant(module, op, attributes);
    }
}

fn become_constant(module: &mut Module, op: OpId, attributes: Vec<(String, Attribute)>) {
    let op = module.op_mut(op);
    op.opcode = Opcode::Constant;
    op.operands.clear();
    op.attributes = attributes;
}
