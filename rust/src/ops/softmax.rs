// SPDX-License-Identifier: MIT
//! Row softmax: out = exp(x - max(x)) / sum(exp(x - max(x))) over the last axis, computed in f32.
//!
//! `softmax_packed` is the fast one: rows without gaps, one tile of whole rows per block, read through pointers.
//! `softmax_rows` and `softmax_long` take any strides.

#[cutile::module]
pub mod softmax {
    use crate::device::exponents::exponents::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// Softmax of whole rows. A NaN is passed over by the maximum but not by the sum, so its row is NaN, as in torch;
    /// +inf, or nothing but -inf, makes inf - inf = NaN.
    fn normalize<const ROWS: i32, const BLOCK: i32>(x: Tile<f32, { [ROWS, BLOCK] }>) -> Tile<f32, { [ROWS, BLOCK] }> {
        let full: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let column: Shape<{ [ROWS, 1] }> = shape![ROWS, 1];
        let top: Tile<f32, { [ROWS] }> = reduce_max(x, 1i32);
        let top: Tile<f32, { [ROWS, BLOCK] }> = top.reshape(column).broadcast(full);
        let e: Tile<f32, { [ROWS, BLOCK] }> = exp_below(x, top);
        let sum: Tile<f32, { [ROWS] }> = reduce_sum(e, 1i32);
        let one: Tile<f32, { [ROWS] }> = constant(1.0f32, shape![ROWS]);
        let inverse: Tile<f32, { [ROWS] }> = true_div(one, sum);
        let inverse: Tile<f32, { [ROWS, BLOCK] }> = inverse.reshape(column).broadcast(full);
        e * inverse
    }

    /// Both tensors contiguous, BLOCK >= columns, columns a multiple of ALIGN (elements; ALIGN elements are at most
    /// 16 bytes: the width of a load). One tile of ROWS rows per block: the grid is (ceil(rows / ROWS), 1, 1).
    /// EXACT promises that no tile overhangs: columns == BLOCK, rows a multiple of ROWS.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn softmax_packed<
        E: ElementType,
        const ROWS: i32,
        const BLOCK: i32,
        const ALIGN: i32,
        const EXACT: bool,
    >(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
    ) {
        let tile: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let rows: i32 = get_shape_dim(x.shape(), 0i32);
        let columns: i32 = get_shape_dim(x.shape(), 1i32);
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0 * ROWS;
        let start: Tile<i64, { [] }> = offset_of(row, columns);
        let offsets: Tile<i32, { [ROWS, BLOCK] }> = tile_offsets::<ROWS, BLOCK>(columns);
        let from: PointerTile<*mut E, { [ROWS, BLOCK] }> = pointers(get_tensor_base(x), start, offsets);
        let to: PointerTile<*mut E, { [ROWS, BLOCK] }> = pointers(get_tensor_base(out), start, offsets);
        if EXACT {
            let t: Tile<E, { [ROWS, BLOCK] }> = load(from);
            let f: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(t);
            let y: Tile<f32, { [ROWS, BLOCK] }> = normalize(f);
            let y: Tile<E, { [ROWS, BLOCK] }> = convert_tile(y);
            store(to, y);
        } else {
            let in_row: Tile<bool, { [ROWS, BLOCK] }> =
                lt_tile(column_indices::<ROWS, BLOCK>(), columns.broadcast(tile));
            let exists: Tile<bool, { [ROWS, BLOCK] }> =
                lt_tile(row_indices::<ROWS, BLOCK>(), (rows - row).broadcast(tile));
            let mask: Tile<bool, { [ROWS, BLOCK] }> = in_row & exists;
            let t: Tile<E, { [ROWS, BLOCK] }> = load_where(from, mask);
            let f: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(t);
            // Rows that do not exist are computed from whatever was read; nothing of them is written.
            let nothing: Tile<f32, { [ROWS, BLOCK] }> = constant(f32::NEG_INFINITY, tile);
            let f: Tile<f32, { [ROWS, BLOCK] }> = select(in_row, f, nothing);
            let y: Tile<f32, { [ROWS, BLOCK] }> = normalize(f);
            let y: Tile<E, { [ROWS, BLOCK] }> = convert_tile(y);
            store_where(to, y, mask);
        }
    }

    /// Whole rows in one tile, any strides: BLOCK >= columns, ROWS rows a tile, tiles strided by the grid.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn softmax_rows<E: ElementType, const ROWS: i32, const BLOCK: i32, const TMA: bool>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
    ) {
        let tile: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let src: Partition<E, { [ROWS, BLOCK] }> =
            unsafe { make_partition_view(x, tile, padding::NegInf, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [ROWS, BLOCK] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let tiles: i32 = num_tiles(&src, 0i32);
        for row in (pid.0..tiles).step_by(step.0 as usize) {
            let t: Tile<E, { [ROWS, BLOCK] }> = if TMA {
                let t: Tile<E, { [ROWS, BLOCK] }> = src.load([row, 0i32]);
                t
            } else {
                let t: Tile<E, { [ROWS, BLOCK] }> =
                    load_view_tko(&src, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                t
            };
            let f: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(t);
            let y: Tile<f32, { [ROWS, BLOCK] }> = normalize(f);
            let y: Tile<E, { [ROWS, BLOCK] }> = convert_tile(y);
            if TMA {
                unsafe {
                    store_view_tko_mut(&mut dst, y, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
                };
            } else {
                unsafe {
                    store_view_tko_mut(&mut dst, y, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Disabled)
                };
            }
        }
    }

    /// Rows of any length and any strides: per lane a running maximum and sum over chunks of BLOCK, then a pass that
    /// reads the row again and writes.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn softmax_long<E: ElementType, const BLOCK: i32, const TMA: bool>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
    ) {
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let cell: Shape<{ [1, 1] }> = shape![1, 1];
        let src: Partition<E, { [1, BLOCK] }> =
            unsafe { make_partition_view(x, tile, padding::NegInf, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [1, BLOCK] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let rows: i32 = num_tiles(&src, 0i32);
        let chunks: i32 = num_tiles(&src, 1i32);
        // A lane that has seen nothing but -inf measures from the lowest float, so that its weight is exp2(-inf) = 0.
        let lowest: Tile<f32, { [1, BLOCK] }> = constant(-3.4028234663852886e38f32, tile);
        for row in (pid.0..rows).step_by(step.0 as usize) {
            let mut top: Tile<f32, { [1, BLOCK] }> = constant(f32::NEG_INFINITY, tile);
            let mut sum: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
            for c in 0i32..chunks {
                let t: Tile<E, { [1, BLOCK] }> =
                    load_view_tko(&src, [row, c], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                let f: Tile<f32, { [1, BLOCK] }> = convert_tile(t);
                let new: Tile<f32, { [1, BLOCK] }> = max_tile(top, f);
                let reference: Tile<f32, { [1, BLOCK] }> = max_tile(new, lowest);
                let old: Tile<f32, { [1, BLOCK] }> = exp_below(top, reference);
                let e: Tile<f32, { [1, BLOCK] }> = exp_below(f, reference);
                sum = sum * old + e;
                top = new;
            }
            let row_top: Tile<f32, { [1] }> = reduce_max(top, 1i32);
            let row_top: Tile<f32, { [1, BLOCK] }> = row_top.reshape(cell).broadcast(tile);
            let weight: Tile<f32, { [1, BLOCK] }> = exp_below(top, row_top);
            let row_sum: Tile<f32, { [1] }> = reduce_sum(sum * weight, 1i32);
            let one: Tile<f32, { [1] }> = constant(1.0f32, shape![1]);
            let inverse: Tile<f32, { [1] }> = true_div(one, row_sum);
            let inverse: Tile<f32, { [1, BLOCK] }> = inverse.reshape(cell).broadcast(tile);
            for c in 0i32..chunks {
                let t: Tile<E, { [1, BLOCK] }> =
                    load_view_tko(&src, [row, c], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                let f: Tile<f32, { [1, BLOCK] }> = convert_tile(t);
                let e: Tile<f32, { [1, BLOCK] }> = exp_below(f, row_top);
                let y: Tile<E, { [1, BLOCK] }> = convert_tile(e * inverse);
                if TMA {
                    unsafe {
                        store_view_tko_mut(&mut dst, y, [row, c], ordering::Weak, scope::TileBlock, None, tma::Enabled)
                    };
                } else {
                    unsafe {
                        store_view_tko_mut(&mut dst, y, [row, c], ordering::Weak, scope::TileBlock, None, tma::Disabled)
                    };
                }
            }
        }
    }
}
