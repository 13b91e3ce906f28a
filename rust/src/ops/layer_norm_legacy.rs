// SPDX-License-Identifier: MIT
//! (x - mean) / sqrt(variance + eps) * (weight + shift) + bias over rows, computed in f32.
//!
//! Rows lie `pitch` apart; the result has no gaps. A row is read once and kept in registers, up to 32768 columns: its
//! variance is the mean square of what is left of the mean. Longer ones are read twice.

#[cutile::module]
pub mod layer_norm_legacy {
    use crate::device::layer_norms::layer_norms::*;
    use crate::device::memory::memory::*;
    use crate::device::moments::moments::*;
    use crate::device::rows::rows::*;
    use cutile::core::*;

    /// One tile of ROWS whole rows per block, the grid is (ceil(rows / ROWS), 1, 1). CHUNKS * SPAN >= columns, PARTS ==
    /// CHUNKS * ROWS; columns and pitch are multiples of ALIGN elements, which are at most 16 bytes: the width of a
    /// load. EXACT promises that no tile overhangs: columns == CHUNKS * SPAN, rows a multiple of ROWS. `share` is 1 /
    /// columns.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn layer_norm_rows<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const CHUNKS: i32,
        const ROWS: i32,
        const PARTS: i32,
        const SPAN: i32,
        const ALIGN: i32,
        const EXACT: bool,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        rows: i32,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
        shift: f32,
    ) {
        let tile: Shape<{ [PARTS, SPAN] }> = shape![PARTS, SPAN];
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0 * ROWS;
        let left: i32 = rows - row;
        let f: Tile<f32, { [PARTS, SPAN] }> =
            load_rows::<E, ROWS, PARTS, SPAN, EXACT>(x, offset_of(row, pitch), pitch, left, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = load_vector::<W, ROWS, PARTS, SPAN, EXACT>(weight, columns);
        let b: Tile<f32, { [PARTS, SPAN] }> = load_vector::<B, ROWS, PARTS, SPAN, EXACT>(bias, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = w + shift.broadcast(shape![PARTS, SPAN]);
        let mean: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(f, columns, share);
        let mean: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(mean);
        let there: Tile<bool, { [PARTS, SPAN] }> = rows_inside::<ROWS, PARTS, SPAN>(left, columns);
        let off: Tile<f32, { [PARTS, SPAN] }> = off_mean::<PARTS, SPAN, EXACT>(f, mean, there);
        let square: Tile<f32, { [PARTS, SPAN] }> = off * off;
        let variance: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(square, columns, share);
        let r: Tile<f32, { [ROWS] }> = inverse_root(variance, eps);
        let r: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(r);
        let y: Tile<f32, { [PARTS, SPAN] }> = scaled(off * r, w, b);
        store_rows::<E, ROWS, PARTS, SPAN, EXACT>(out, y, offset_of(row, columns), columns, left, columns);
    }

    /// Rows in two tiles, one row per block: the first MAIN columns, all there, and TAIL >= columns - MAIN. A power of
    /// two that holds a row of 10000 columns would have registers for 16384. The grid is (rows, 1, 1), the rest
    /// `layer_norm_rows`'.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn layer_norm_pair<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const MAIN: i32,
        const TAIL: i32,
        const ALIGN: i32,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
        shift: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let left: i32 = columns - MAIN;
        let f: Tile<f32, { [1, MAIN] }> =
            load_rows::<E, 1, 1, MAIN, true>(x, offset_of(row, pitch), 0i32, 1i32, columns);
        let g: Tile<f32, { [1, TAIL] }> =
            load_rows::<E, 1, 1, TAIL, false>(x, matrix_offset(row, pitch, MAIN), 0i32, 1i32, left);
        let there: Tile<bool, { [1, TAIL] }> = rows_inside::<1, 1, TAIL>(1i32, left);
        let center: Tile<f32, { [1] }> = pair_mean(f, g, columns, share);
        let off: (Tile<f32, { [1, MAIN] }>, Tile<f32, { [1, TAIL] }>) = pair_off_mean(f, g, there, center);
        let rstd: Tile<f32, { [1] }> = pair_rstd(off.0, off.1, columns, share, eps);
        store_pair::<E, W, B, MAIN, TAIL, true>(out, weight, bias, off.0, off.1, rstd, row, columns, shift);
    }

    /// Rows of any length, one per block: the grid is (rows, 1, 1). The rest is `layer_norm_rows`'.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn layer_norm_long<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const BLOCK: i32,
        const ALIGN: i32,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
        shift: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let found: (Tile<f32, { [1] }>, Tile<f32, { [1] }>) =
            long_row_moments::<E, BLOCK>(x, row, columns, pitch, share, eps);
        store_long::<E, W, B, BLOCK, true>(out, x, weight, bias, found.0, found.1, row, columns, pitch, shift);
    }
}
