// SPDX-License-Identifier: MIT
//! silu(a) * b for an input [a | b], and its backward, computed in f32.

#[cutile::module]
pub mod silu_and_mul {
    use cutile::core::*;

    /// 1 / (1 + exp(-a)), exp through exp2.
    fn sigmoid<const ROWS: i32, const COLS: i32>(a: Tile<f32, { [ROWS, COLS] }>) -> Tile<f32, { [ROWS, COLS] }> {
        let s: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let minus_log2e: Tile<f32, { [ROWS, COLS] }> = constant(-1.4426950408889634f32, s);
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, s);
        let t: Tile<f32, { [ROWS, COLS] }> = mulf(a, minus_log2e, rounding::NearestEven, ftz::Enabled);
        let e: Tile<f32, { [ROWS, COLS] }> = exp2(t, ftz::Enabled);
        true_div(one, one + e)
    }

    /// x is the input seen as (rows, 2, H). Tiles of ROWS x COLS, numbered row by row, strided by the grid.
    #[cutile::entry(unchecked_accesses = true)]
    pub unsafe fn silu_and_mul_tile<E: ElementType, const ROWS: i32, const COLS: i32, const TMA: bool>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1, -1] }>,
    ) {
        let half: Shape<{ [ROWS, 1, COLS] }> = shape![ROWS, 1, COLS];
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let src: Partition<E, { [ROWS, 1, COLS] }> =
            unsafe { make_partition_view(x, half, padding::Zero, dim_map::Identity, new_token_unordered()) };
        // A view of its own, so that the second load does not wait for the first.
        let src2: Partition<E, { [ROWS, 1, COLS] }> =
            unsafe { make_partition_view(x, half, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [ROWS, COLS] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let rows: i32 = num_tiles(&src, 0i32);
        let cols: i32 = num_tiles(&src, 2i32);
        let total: i32 = rows * cols;
        for i in (pid.0..total).step_by(step.0 as usize) {
            let r: i32 = i / cols;
            let c: i32 = i - r * cols;
            let a: Tile<E, { [ROWS, 1, COLS] }> = if TMA {
                let loaded: Tile<E, { [ROWS, 1, COLS] }> =
                    load_view_tko(&src, [r, 0i32, c], ordering::Weak, scope::TileBlock, None, tma::Enabled);
                loaded
            } else {
                let loaded: Tile<E, { [ROWS, 1, COLS] }> =
                    load_view_tko(&src, [r, 0i32, c], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                loaded
            };
            let b: Tile<E, { [ROWS, 1, COLS] }> = if TMA {
                let loaded: Tile<E, { [ROWS, 1, COLS] }> =
                    load_view_tko(&src2, [r, 1i32, c], ordering::Weak, scope::TileBlock, None, tma::Enabled);
                loaded
            } else {
                let loaded: Tile<E, { [ROWS, 1, COLS] }> =
                    load_view_tko(&src2, [r, 1i32, c], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                loaded
            };
            let a: Tile<E, { [ROWS, COLS] }> = a.reshape(tile);
            let b: Tile<E, { [ROWS, COLS] }> = b.reshape(tile);
            let a: Tile<f32, { [ROWS, COLS] }> = convert_tile(a);
            let b: Tile<f32, { [ROWS, COLS] }> = convert_tile(b);
            let s: Tile<f32, { [ROWS, COLS] }> = sigmoid(a);
            let y: Tile<E, { [ROWS, COLS] }> = convert_tile(a * s * b);
            if TMA {
                unsafe {
                    store_view_tko_mut(&mut dst, y, [r, c], ordering::Weak, scope::TileBlock, None, tma::Enabled)
                };
            } else {
                unsafe {
                    store_view_tko_mut(&mut dst, y, [r, c], ordering::Weak, scope::TileBlock, None, tma::Disabled)
                };
            }
        }
    }

    /// Gradient of the input, written in place of both halves: grad_x and x are seen as (rows, 2, H).
    #[cutile::entry(unchecked_accesses = true)]
    pub unsafe fn silu_and_mul_backward<E: ElementType, const ROWS: i32, const COLS: i32>(
        grad_x: &Tensor<E, { [-1, -1, -1] }>,
        grad: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1, -1] }>,
    ) {
        let half: Shape<{ [ROWS, 1, COLS] }> = shape![ROWS, 1, COLS];
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let src: Partition<E, { [ROWS, 1, COLS] }> =
            unsafe { make_partition_view(x, half, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let above: Partition<E, { [ROWS, COLS] }> =
            unsafe { make_partition_view(grad, tile, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [ROWS, 1, COLS] }> = unsafe { grad_x.partition_full_mut(half) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let rows: i32 = num_tiles(&above, 0i32);
        let cols: i32 = num_tiles(&above, 1i32);
        let total: i32 = rows * cols;
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, tile);
        for i in (pid.0..total).step_by(step.0 as usize) {
            let r: i32 = i / cols;
            let c: i32 = i - r * cols;
            let a: Tile<E, { [ROWS, 1, COLS] }> = src.load([r, 0i32, c]);
            let b: Tile<E, { [ROWS, 1, COLS] }> = src.load([r, 1i32, c]);
            let g: Tile<E, { [ROWS, COLS] }> = above.load([r, c]);
            let a: Tile<E, { [ROWS, COLS] }> = a.reshape(tile);
            let b: Tile<E, { [ROWS, COLS] }> = b.reshape(tile);
            let a: Tile<f32, { [ROWS, COLS] }> = convert_tile(a);
            let b: Tile<f32, { [ROWS, COLS] }> = convert_tile(b);
            let g: Tile<f32, { [ROWS, COLS] }> = convert_tile(g);
            let s: Tile<f32, { [ROWS, COLS] }> = sigmoid(a);
            let silu: Tile<f32, { [ROWS, COLS] }> = a * s;
            let slope: Tile<f32, { [ROWS, COLS] }> = s + silu * (one - s);
            let da: Tile<E, { [ROWS, COLS] }> = convert_tile(g * b * slope);
            let db: Tile<E, { [ROWS, COLS] }> = convert_tile(g * silu);
            let da: Tile<E, { [ROWS, 1, COLS] }> = da.reshape(half);
            let db: Tile<E, { [ROWS, 1, COLS] }> = db.reshape(half);
            unsafe {
                store_view_tko_mut(&mut dst, da, [r, 0i32, c], ordering::Weak, scope::TileBlock, None, tma::Enabled);
                store_view_tko_mut(&mut dst, db, [r, 1i32, c], ordering::Weak, scope::TileBlock, None, tma::Enabled);
            }
        }
    }
}
