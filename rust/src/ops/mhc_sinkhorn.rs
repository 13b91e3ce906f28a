// SPDX-License-Identifier: MIT
//! n x n blocks made doubly stochastic, in place: exponentials, then row sums and column sums divided out in turn.
//!
//! Many blocks to a tile, one to a thread, so that neither sum leaves its registers: where the addresses are not known to
//! be neighbours along any axis, threads lie along the first.

#[cutile::module]
pub mod mhc_sinkhorn {
    use crate::device::memory::*;
    use cutile::core::*;

    /// y (rows, at least 2 n + n * n): the block of a row begins in column 2 n. N is n, a power of two, ROWS rows a
    /// tile; the grid is (ceil(rows / ROWS), 1, 1).
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(y = 2)]
    pub unsafe fn mhc_sinkhorn<E: ElementType, const N: i32, const ROWS: i32, const ROUNDS: i32>(
        y: *mut E,
        y_n0: i32,
        y_n1: i32,
        y_s0: i32,
        y_s1: i32,
    ) {
        let tile: Shape<{ [ROWS, N, N] }> = shape![ROWS, N, N];
        let row: i32 = get_tile_block_id().0 * ROWS;
        let i: Tile<i32, { [N] }> = iota(shape![N]);
        let j: Tile<i32, { [ROWS, N, N] }> = i.reshape(shape![1, 1, N]).broadcast(tile);
        let i: Tile<i32, { [ROWS, N, N] }> = i.reshape(shape![1, N, 1]).broadcast(tile);
        let n: Tile<i32, { [ROWS, N, N] }> = broadcast_scalar(N, tile);
        let r: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        let there: Tile<bool, { [ROWS] }> = lt_tile(r, (y_n0 - row).broadcast(shape![ROWS]));
        let mask: Tile<bool, { [ROWS, N, N] }> = there.reshape(shape![ROWS, 1, 1]).broadcast(tile);
        let down: Tile<i64, { [] }> = step(row, y_s0);
        let across: Tile<i64, { [] }> = step(2i32 * N, y_s1);
        let start: Tile<i64, { [] }> = down + across;
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(y);
        let base: PointerTile<*mut E, { [] }> = base.offset_tile(start);
        let p: PointerTile<*mut E, { [1] }> = base.reshape(shape![1]);
        let p: PointerTile<*mut E, { [ROWS] }> = p.broadcast(shape![ROWS]);
        let down: Tile<i64, { [ROWS] }> = steps(r, y_s0);
        let p: PointerTile<*mut E, { [ROWS] }> = p.offset_tile(down);
        let p: PointerTile<*mut E, { [ROWS, 1, 1] }> = p.reshape(shape![ROWS, 1, 1]);
        let p: PointerTile<*mut E, { [ROWS, N, N] }> = p.broadcast(tile);
        let along: Tile<i32, { [ROWS, N, N] }> = (i * n + j) * y_s1.broadcast(tile);
        let p: PointerTile<*mut E, { [ROWS, N, N] }> = p.offset_tile(along);
        let t: (Tile<E, { [ROWS, N, N] }>, Token) =
            unsafe { load_ptr_tko(p, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>) };
        let x: Tile<f32, { [ROWS, N, N] }> = convert_tile(t.0);
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
        let x: Tile<E, { [ROWS, N, N] }> = convert_tile(x);
        unsafe { store_ptr_tko(p, x, ordering::Weak, None::<scope::TileBlock>, Some(mask), Some(t.1), Latency::<0>) };
    }
}
