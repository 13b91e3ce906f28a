// SPDX-License-Identifier: MIT
//! Row softmax: out = exp(x - max(x)) / sum(exp(x - max(x))) over the last axis, computed in f32.

#[cutile::module]
pub mod softmax {
    use cutile::core::*;

    /// exp through exp2: one multiplication instead of the library call. A row of -inf alone gives -inf - -inf = NaN,
    /// as in torch.
    fn normalize<const ROWS: i32, const BLOCK: i32>(x: Tile<f32, { [ROWS, BLOCK] }>) -> Tile<f32, { [ROWS, BLOCK] }> {
        let full: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let column: Shape<{ [ROWS, 1] }> = shape![ROWS, 1];
        let top: Tile<f32, { [ROWS] }> = reduce_max(x, 1i32);
        let top: Tile<f32, { [ROWS, BLOCK] }> = top.reshape(column).broadcast(full);
        let log2e: Tile<f32, { [ROWS, BLOCK] }> = constant(1.4426950408889634f32, full);
        let scaled: Tile<f32, { [ROWS, BLOCK] }> = mulf(x - top, log2e, rounding::NearestEven, ftz::Enabled);
        let e: Tile<f32, { [ROWS, BLOCK] }> = exp2(scaled, ftz::Enabled);
        let sum: Tile<f32, { [ROWS] }> = reduce_sum(e, 1i32);
        let one: Tile<f32, { [ROWS] }> = constant(1.0f32, shape![ROWS]);
        let inverse: Tile<f32, { [ROWS] }> = true_div(one, sum);
        let inverse: Tile<f32, { [ROWS, BLOCK] }> = inverse.reshape(column).broadcast(full);
        e * inverse
    }

    /// Whole rows in one tile: BLOCK >= columns, ROWS rows a tile, tiles strided by the grid.
    #[cutile::entry(unchecked_accesses = true)]
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
                let loaded: Tile<E, { [ROWS, BLOCK] }> =
                    load_view_tko(&src, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled);
                loaded
            } else {
                let loaded: Tile<E, { [ROWS, BLOCK] }> =
                    load_view_tko(&src, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                loaded
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

    /// Rows of any length: a running maximum and sum over chunks of BLOCK, then a pass that writes.
    #[cutile::entry(unchecked_accesses = true)]
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
        let log2e: Tile<f32, { [1, BLOCK] }> = constant(1.4426950408889634f32, tile);
        // A lane that has seen nothing but -inf keeps a finite reference, so that its weight is exp2(-inf) = 0.
        let floor: Tile<f32, { [1, BLOCK] }> = constant(-3.0e38f32, tile);
        for row in (pid.0..rows).step_by(step.0 as usize) {
            let mut top: Tile<f32, { [1, BLOCK] }> = constant(f32::NEG_INFINITY, tile);
            let mut sum: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
            for c in 0i32..chunks {
                let t: Tile<E, { [1, BLOCK] }> = src.load([row, c]);
                let f: Tile<f32, { [1, BLOCK] }> = convert_tile(t);
                let new: Tile<f32, { [1, BLOCK] }> = max_tile(top, f);
                let reference: Tile<f32, { [1, BLOCK] }> = max_tile(new, floor);
                let old: Tile<f32, { [1, BLOCK] }> = mulf(top - reference, log2e, rounding::NearestEven, ftz::Enabled);
                let old: Tile<f32, { [1, BLOCK] }> = exp2(old, ftz::Enabled);
                let e: Tile<f32, { [1, BLOCK] }> = mulf(f - reference, log2e, rounding::NearestEven, ftz::Enabled);
                let e: Tile<f32, { [1, BLOCK] }> = exp2(e, ftz::Enabled);
                sum = sum * old + e;
                top = new;
            }
            let row_top: Tile<f32, { [1] }> = reduce_max(top, 1i32);
            let row_top: Tile<f32, { [1, BLOCK] }> = row_top.reshape(cell).broadcast(tile);
            let weight: Tile<f32, { [1, BLOCK] }> = mulf(top - row_top, log2e, rounding::NearestEven, ftz::Enabled);
            let weight: Tile<f32, { [1, BLOCK] }> = exp2(weight, ftz::Enabled);
            let row_sum: Tile<f32, { [1] }> = reduce_sum(sum * weight, 1i32);
            let one: Tile<f32, { [1] }> = constant(1.0f32, shape![1]);
            let inverse: Tile<f32, { [1] }> = true_div(one, row_sum);
            let inverse: Tile<f32, { [1, BLOCK] }> = inverse.reshape(cell).broadcast(tile);
            for c in 0i32..chunks {
                let t: Tile<E, { [1, BLOCK] }> = src.load([row, c]);
                let f: Tile<f32, { [1, BLOCK] }> = convert_tile(t);
                let e: Tile<f32, { [1, BLOCK] }> = mulf(f - row_top, log2e, rounding::NearestEven, ftz::Enabled);
                let e: Tile<f32, { [1, BLOCK] }> = exp2(e, ftz::Enabled);
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
