// SPDX-License-Identifier: MIT
//! The transpose of a matrix, copied: one tile per block, read and written along both matrices' last axes.

#[cutile::module]
pub mod transpose {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// A tile of rows `row`.. and columns `column`.. of a matrix at `base`.
    fn tile_at<E: ElementType, const ROWS: i32, const BLOCK: i32, const UNIT: bool>(
        base: PointerTile<*mut E, { [] }>,
        row: i32,
        row_stride: i32,
        column: i32,
        column_stride: i32,
    ) -> PointerTile<*mut E, { [ROWS, BLOCK] }> {
        let start: Tile<i64, { [] }> = offset_of(row, row_stride);
        let rows: Tile<i64, { [ROWS] }> = row_offsets::<ROWS>(start, row_stride);
        row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, column, column_stride)
    }

    /// out (N, M) of x (M, N). Tiles of BM x BN of x; the grid is (ceil(N / BN), ceil(M / BM), 1), or the other way
    /// round with DOWN, because its second axis ends at 65535. UNIT promises that the last strides are 1, STRAIGHT
    /// that x's rows are 1 apart instead, so that memory is copied as it lies; EXACT that no tile overhangs.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(out = 2, x = 2)]
    pub unsafe fn transpose_tiles<
        E: ElementType,
        const BM: i32,
        const BN: i32,
        const DOWN: bool,
        const UNIT: bool,
        const STRAIGHT: bool,
        const EXACT: bool,
    >(
        out: *mut E,
        out_n0: i32,
        out_n1: i32,
        out_s0: i32,
        out_s1: i32,
        x: *mut E,
        x_n0: i32,
        x_n1: i32,
        x_s0: i32,
        x_s1: i32,
    ) {
        let pid: (i32, i32, i32) = get_tile_block_id();
        let m: i32 = if DOWN { pid.0 * BM } else { pid.1 * BM };
        let n: i32 = if DOWN { pid.1 * BN } else { pid.0 * BN };
        let from: PointerTile<*mut E, { [] }> = pointer_to_tile(x);
        let turned: Tile<bool, { [BN, BM] }> = inside::<BN, BM>(x_n1 - n, x_n0 - m);
        let t: Tile<E, { [BN, BM] }> = if STRAIGHT {
            let at: PointerTile<*mut E, { [BN, BM] }> = tile_at::<E, BN, BM, true>(from, n, x_s1, m, x_s0);
            let t: Tile<E, { [BN, BM] }> = load_masked::<E, BN, BM, EXACT>(at, turned);
            t
        } else {
            let at: PointerTile<*mut E, { [BM, BN] }> = tile_at::<E, BM, BN, UNIT>(from, m, x_s0, n, x_s1);
            let mask: Tile<bool, { [BM, BN] }> = inside::<BM, BN>(x_n0 - m, x_n1 - n);
            let t: Tile<E, { [BM, BN] }> = load_masked::<E, BM, BN, EXACT>(at, mask);
            let t: Tile<E, { [BN, BM] }> = permute(t, const_array![1, 0]);
            t
        };
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(out);
        let to: PointerTile<*mut E, { [BN, BM] }> = tile_at::<E, BN, BM, UNIT>(base, n, out_s0, m, out_s1);
        store_masked::<E, BN, BM, EXACT>(to, t, turned);
    }
}
