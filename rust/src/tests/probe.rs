// SPDX-License-Identifier: MIT
//! A kernel for tests of the interface, so that they do not follow the ops' signatures: two tensors, a scalar, a
//! constant. What build.rs would write for it is written by hand.
#![allow(clippy::undocumented_unsafe_blocks)] // the device code, as in `ops`

use crate::exports::export;
use crate::kernel::{Elem, Generic, GenericKind, Kernel, Kind, Param};
use crate::launch::{self, Call};
use crate::table::Table;
use crate::tensor_desc::TensorDesc;

#[cutile::module]
pub mod probe {
    use cutile::core::*;

    /// out[r, :] = x[r, :], rows in steps of the grid.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn probe_row<E: ElementType, const BLOCK: i32>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
        n_rows: i32,
    ) {
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let src: Partition<E, { [1, BLOCK] }> =
            unsafe { make_partition_view(x, tile, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [1, BLOCK] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let programs: (i32, i32, i32) = get_num_tile_blocks();
        for row in (pid.0..n_rows).step_by(programs.0 as usize) {
            let t: Tile<E, { [1, BLOCK] }> = src.load([row, 0i32]);
            unsafe {
                store_view_tko_mut(&mut dst, t, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
            };
        }
    }
}

const TENSOR: Kind = Kind::Tensor { rank: 2, elem: Elem::Generic(0) };

pub static PROBE: Kernel = Kernel {
    name: "probe_row",
    entry: c"probe_row_entry",
    module: "probe",
    ast: probe::__module_ast_self,
    params: &[
        Param { name: "out", kind: TENSOR, holds: None },
        Param { name: "x", kind: TENSOR, holds: None },
        Param { name: "n_rows", kind: Kind::Scalar, holds: None },
    ],
    generics: &[Generic { name: "E", kind: GenericKind::Bound(0) }, Generic { name: "BLOCK", kind: GenericKind::Int }],
    passes: &[],
    tensors: 2,
    scalars: 1,
    constants: 1,
    specs: Table::new(),
};

export! { fn cutile_probe_row(
    out: *const TensorDesc, x: *const TensorDesc, n_rows: i32, block: i32, grid_x: i32, grid_y: i32, grid_z: i32,
    device_id: i32, raw_stream: u64,
) -> i32 {
    let call = Call { grid: [grid_x, grid_y, grid_z], hints: [0; 3], device: device_id, stream: raw_stream };
    // SAFETY: null or live descriptors.
    unsafe { launch::call(&PROBE, &[out, x], &[n_rows as u32 as u64], &[block], &call) }
} }
