// SPDX-License-Identifier: MIT
//! A tensor written as its address, extents and strides; what an entry takes for granted; passes.
#![allow(clippy::undocumented_unsafe_blocks)] // the device code, as in `ops`

use super::{F32, dense, key_of};
use crate::contract::MAX_RANK;
use crate::frontend::bytecode;
use crate::kernel::{Elem, Generic, GenericKind, Holds, Kernel, Kind, Param};
use crate::passes::Pass;
use crate::specialize::text;
use crate::status::Code;
use crate::table::Table;
use crate::tensor_desc::TensorDesc;

#[cutile::module]
pub mod flat {
    use cutile::core::*;

    /// Running sums of each row's first BLOCK elements, those beyond the row as 0; x by address.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn flat_row<const BLOCK: i32>(
        out: &Tensor<f32, { [-1, -1] }>,
        x: *mut f32,
        x_n0: i32,
        x_n1: i32,
        x_s0: i32,
        x_s1: i32,
    ) {
        let tok: Token = new_token_unordered();
        let row: i32 = get_tile_block_id().0;
        let start: i32 = row * x_s0;
        let base: PointerTile<*mut f32, { [] }> = pointer_to_tile(x);
        let base: PointerTile<*mut f32, { [1] }> = base.reshape(shape![1]);
        let base: PointerTile<*mut f32, { [BLOCK] }> = base.broadcast(shape![BLOCK]);
        let columns: Tile<i32, { [BLOCK] }> = iota(shape![BLOCK]);
        let at: Tile<i32, { [BLOCK] }> = broadcast_scalar(start, shape![BLOCK]);
        let at: Tile<i32, { [BLOCK] }> = at + columns;
        let ptrs: PointerTile<*mut f32, { [BLOCK] }> = base.offset_tile(at);
        let width: Tile<i32, { [BLOCK] }> = broadcast_scalar(x_n1, shape![BLOCK]);
        let mask: Tile<bool, { [BLOCK] }> = lt_tile(columns, width);
        let pad: Tile<f32, { [BLOCK] }> = constant(0.0f32, shape![BLOCK]);
        let ld: (Tile<f32, { [BLOCK] }>, Token) = unsafe {
            load_ptr_tko(ptrs, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, Some(tok), Latency::<0>)
        };
        let loaded: Tile<f32, { [BLOCK] }> = ld.0;
        let padded: Tile<f32, { [BLOCK] }> = select(mask, loaded, pad);
        let tile: Tile<f32, { [1, BLOCK] }> = padded.reshape(shape![1, BLOCK]);
        let sums: Tile<f32, { [1, BLOCK] }> = scan_sum(tile, 1i32, reverse::Forward, 0.0f32);
        let mut dst: PartitionMut<f32, { [1, BLOCK] }> = unsafe { out.partition_full_mut(shape![1, BLOCK]) };
        unsafe {
            store_view_tko_mut(&mut dst, sums, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
        };
    }
}

const HOLDS: Holds = Holds {
    extents: [-1; MAX_RANK],
    strides: [-1, 1, -1, -1, -1],
    pointer_16: true,
    extents_16: 0b10,
    strides_16: 0b01,
};

const fn kernel(passes: &'static [Pass]) -> Kernel {
    Kernel {
        name: "flat_row",
        entry: c"flat_row_entry",
        module: "flat",
        ast: flat::__module_ast_self,
        params: &[
            Param { name: "out", kind: Kind::Tensor { rank: 2, elem: Elem::Concrete(0) }, holds: None },
            Param { name: "x", kind: Kind::Flattened { rank: 2, elem: Elem::Concrete(0) }, holds: Some(HOLDS) },
        ],
        generics: &[Generic { name: "BLOCK", kind: GenericKind::Int }],
        passes,
        tensors: 2,
        scalars: 0,
        constants: 1,
        specs: Table::new(),
    }
}

static PLAIN: Kernel = kernel(&[]);
static BOUNDS: Kernel = kernel(&[Pass::DropBounds]);
static PADS: Kernel = kernel(&[Pass::FoldPads]);
static SCANS: Kernel = kernel(&[Pass::ScanAxes(&[1])]);
static WRONG_SCANS: Kernel = kernel(&[Pass::ScanAxes(&[1, 1])]);

fn x() -> TensorDesc {
    dense(F32, &[8, 64])
}

fn spec(x: TensorDesc) -> crate::status::Result<String> {
    key_of(&PLAIN, &[dense(F32, &[8, 64]), x], &[64], &[0; 3]).map(|key| text(&PLAIN, &key))
}

#[test]
fn a_flattened_tensor_is_specialized_like_a_reference() {
    let line = spec(x()).expect("it holds");
    assert!(line.ends_with(" out:f32:p16:(?,16):(16,1) x:f32:p16:(?,16):(16,1)"), "{line}");
}

#[test]
fn a_launch_that_the_text_is_not_for_is_refused() {
    let mut changed: Vec<(TensorDesc, &str)> = vec![];
    for (edit, expected) in [
        ((|d: &mut TensorDesc| d.ptr += 4) as fn(&mut TensorDesc), "the address is not a multiple of 16 bytes"),
        (|d| d.shape[1] = 60, "extent 60 of axis 1 is not a multiple of 16"),
        (|d| d.strides[0] = 65, "stride 65 of axis 0 is not a multiple of 16 bytes"),
        (|d| d.strides[1] = 2, "stride 2 of axis 1 is not 1"),
    ] {
        let mut desc = x();
        edit(&mut desc);
        changed.push((desc, expected));
    }
    for (desc, expected) in changed {
        let error = spec(desc).expect_err(expected);
        assert!(error.code == Code::Invalid && error.text.contains(expected), "{}", error.text);
        assert!(error.text.starts_with("flat_row: x: ") && error.text.contains("translate the launch again"));
    }
}

fn emit(kernel: &'static Kernel) -> std::result::Result<Vec<u8>, String> {
    let key = key_of(kernel, &[dense(F32, &[8, 64]), x()], &[64], &[0; 3]).expect("it holds");
    bytecode(kernel, &key, "sm_90").map_err(|e| e.text)
}

#[test]
fn every_pass_changes_the_bytecode_and_leaves_it_valid() {
    let plain = emit(&PLAIN).expect("compiles");
    for kernel in [&BOUNDS, &PADS, &SCANS] {
        let bytes = emit(kernel).expect("compiles");
        assert!(bytes != plain, "{:?} has no effect", kernel.passes);
        assert!(bytes == emit(kernel).expect("compiles"), "{:?} is not deterministic", kernel.passes);
    }
    // One select less; one assume less.
    assert!(emit(&PADS).expect("compiles").len() < plain.len());
    assert!(emit(&BOUNDS).expect("compiles").len() < plain.len());
}

#[test]
fn scan_axes_must_be_as_many_as_scans() {
    let error = emit(&WRONG_SCANS).expect_err("two axes, one scan");
    assert!(error.contains("names 2 scan axes, the kernel has 1 scans"), "{error}");
}
