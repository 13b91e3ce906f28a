// SPDX-License-Identifier: MIT
//! A kernel as build.rs describes it from its signature, and its specializations.

use crate::contract::MAX_RANK;
use crate::passes::Pass;
use crate::table::Table;
use std::ffi::CStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elem {
    /// Index among the type generics.
    Generic(usize),
    /// dtype code.
    Concrete(u8),
}

/// `Flattened` is a tensor that the kernel takes as its address, extents and strides (`x`, `x_n0`, .., `x_s0`, ..).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tensor { rank: usize, elem: Elem },
    Flattened { rank: usize, elem: Elem },
    Pointer { elem: Elem },
    Scalar,
}

impl Kind {
    /// A tensor's or pointer's element type.
    pub fn elem(&self) -> Option<Elem> {
        match *self {
            Kind::Tensor { elem, .. } | Kind::Flattened { elem, .. } | Kind::Pointer { elem } => Some(elem),
            Kind::Scalar => None,
        }
    }
}

#[derive(Debug)]
pub struct Param {
    pub name: &'static str,
    pub kind: Kind,
    pub holds: Option<Holds>,
}

/// What the kernel's text takes for granted of a tensor: checked when a launch is specialized.
#[derive(Debug, Clone, Copy)]
pub struct Holds {
    /// By axis; -1 = any.
    pub extents: [i64; MAX_RANK],
    pub strides: [i64; MAX_RANK],
    pub pointer_16: bool,
    /// Bit i: axis i.
    pub extents_16: u32,
    pub strides_16: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenericKind {
    /// A type bound by the tensors that carry it: its index among the type generics.
    Bound(usize),
    /// A type that no tensor carries: a dtype code among the constants.
    Free,
    Int,
    Bool,
}

#[derive(Debug)]
pub struct Generic {
    pub name: &'static str,
    pub kind: GenericKind,
}

pub struct Kernel {
    pub name: &'static str,
    /// The symbol in the cubin.
    pub entry: &'static CStr,
    /// The `#[cutile::module]`.
    pub module: &'static str,
    pub ast: fn() -> cutile_compiler::ast::Module,
    pub params: &'static [Param],
    /// In declaration order.
    pub generics: &'static [Generic],
    /// What happens to its Tile IR behind the front end, in order.
    pub passes: &'static [Pass],
    /// Parameters passed as descriptors, scalars, constants: the counts of a call's three lists.
    pub tensors: usize,
    pub scalars: usize,
    pub constants: usize,
    pub specs: Table,
}

impl Kernel {
    /// Parameters that come as descriptors, in order.
    pub fn descriptors(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().filter(|p| p.kind != Kind::Scalar)
    }

    /// Generics that come as constants, in order.
    pub fn constant_generics(&self) -> impl Iterator<Item = &'static Generic> {
        self.generics.iter().filter(|g| !matches!(g.kind, GenericKind::Bound(_)))
    }
}
