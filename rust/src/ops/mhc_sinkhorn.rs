// SPDX-License-Identifier: MIT
//! n x n blocks made doubly stochastic, in place: exponentials, then row sums and column sums divided out in turn.
//!
//! Many blocks to a tile. A thread reads 16 bytes of a block, so that neighbouring threads read neighbouring memory and
//! sums take a shuffle or two. (A whole block to a thread needs none, but its loads and stores took longer than that.)

#[cutile::module]
pub mod mhc_sinkhorn {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// y (rows, at least 2 n + n * n), last stride 1: the block of a row begins in column 2 n. N is n, a power of two,
    /// and BLOCK is N * N; ROWS rows a tile; the grid is (ceil(rows / ROWS), 1, 1). EXACT promises that no tile
    /// overhangs.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(y = 2)]
    pub unsafe fn mhc_sinkhorn<
        E: ElementType,
        const N: i32,
        const BLOCK: i32,
        const ROWS: i32,
        const ROUNDS: i32,
        const EXACT: bool,
    >(
        y: *mut E,
        y_n0: i32,
        y_n1: i32,
        y_s0: i32,
        y_s1: i32,
    ) {
        let tile: Shape<{ [ROWS, N, N] }> = shape![ROWS, N, N];
        let row: i32 = get_tile_block_id().0 * ROWS;
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(y);
        let start: Tile<i64, { [] }> = offset_of(row, y_s0);
        let rows: Tile<i64, { [ROWS] }> = row_offsets::<ROWS>(start, y_s0);
        let at: PointerTile<*mut E, { [ROWS, BLOCK] }> =
            row_pointers::<E, ROWS, BLOCK, true>(base, rows, 2i32 * N, 1i32);
        let mask: Tile<bool, { [ROWS, BLOCK] }> = inside::<ROWS, BLOCK>(y_n0 - row, BLOCK);
        let t: Tile<E, { [ROWS, BLOCK] }> = load_masked::<E, ROWS, BLOCK, EXACT>(at, mask);
        let t: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(t);
        let x: Tile<f32, { [ROWS, N, N] }> = t.reshape(tile);
        let log2e: Tile<f32, { [ROWS, N, N] }> = constant(1.4426950408889634f32, tile);
        let scaled: Tile<f32, { [ROWS, N, N] }> = mulf(x, log2e, rounding::NearestEven, ftz::Enabled);
        let mut x: Tile<f32, { [ROWS, N, N] }> = exp2(scaled, ftz::Enabled);
        for _ in 0i32..ROUNDS {
            let sum: Tile<f32, { [ROWS, N] }> = reduce_sum(x, 2i32);
            let sum: Tile<f32, { [ROWS, N, N] }> = sum.reshape(shape![ROWS, N, 1]).broadcast(tile);
            let even: Tile<f32, { [ROWS, N, N] }> = true_div(x, sum);
            let sum: Tile<f32, { [ROWS, N] }> = reduce_sum(even, 1i32);
            let sum: Tile<f32, { [ROWS, N, N] }> = sum.reshape(shape![ROWS, 1, N]).broadcast(tile);
            x = true_div(even, sum);
        }
        let x: Tile<f32, { [ROWS, BLOCK] }> = x.reshape(shape![ROWS, BLOCK]);
        let x: Tile<E, { [ROWS, BLOCK] }> = convert_tile(x);
        store_masked::<E, ROWS, BLOCK, EXACT>(at, x, mask);
    }
}
