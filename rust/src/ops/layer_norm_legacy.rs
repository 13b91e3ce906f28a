// SPDX-License-Identifier: MIT
//! (x - mean) / sqrt(variance + eps) * (weight + shift) + bias over rows, computed in f32.
//!
//! Rows lie `pitch` apart; the result has no gaps. A row is read once and kept in registers, up to 32768 columns: its
//! variance is the mean square of what is left of the mean. Longer ones are read twice.

#[cutile::module]
pub mod layer_norm_legacy {
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
            read::<E, ROWS, PARTS, SPAN, EXACT>(x, ahead(row, pitch, 0i32), pitch, left, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = read_vector::<W, ROWS, PARTS, SPAN, EXACT>(weight, columns);
        let b: Tile<f32, { [PARTS, SPAN] }> = read_vector::<B, ROWS, PARTS, SPAN, EXACT>(bias, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = w + shift.broadcast(shape![PARTS, SPAN]);
        let mean: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(f, columns, share);
        let mean: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(mean);
        let there: Tile<bool, { [PARTS, SPAN] }> = within::<ROWS, PARTS, SPAN>(left, columns);
        let off: Tile<f32, { [PARTS, SPAN] }> = off_mean::<PARTS, SPAN, EXACT>(f, mean, there);
        let square: Tile<f32, { [PARTS, SPAN] }> = off * off;
        let variance: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(square, columns, share);
        let r: Tile<f32, { [ROWS] }> = inverse_root(variance, eps);
        let r: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(r);
        let y: Tile<f32, { [PARTS, SPAN] }> = scaled(off * r, w, b);
        write::<E, ROWS, PARTS, SPAN, EXACT>(out, y, ahead(row, columns, 0i32), columns, left, columns);
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
        let f: Tile<f32, { [1, MAIN] }> = read::<E, 1, 1, MAIN, true>(x, ahead(row, pitch, 0i32), 0i32, 1i32, columns);
        let g: Tile<f32, { [1, TAIL] }> = read::<E, 1, 1, TAIL, false>(x, ahead(row, pitch, MAIN), 0i32, 1i32, left);
        let there: Tile<bool, { [1, TAIL] }> = within::<1, 1, TAIL>(1i32, left);
        let center: Tile<f32, { [1] }> = pair_mean(f, g, columns, share);
        let none: Tile<i64, { [] }> = ahead(0i32, 0i32, 0i32);
        let wide: Tile<f32, { [1, MAIN] }> = over_columns::<1, 1, 1, MAIN>(center);
        let f: Tile<f32, { [1, MAIN] }> = f - wide;
        let wide: Tile<f32, { [1, TAIL] }> = over_columns::<1, 1, 1, TAIL>(center);
        let g: Tile<f32, { [1, TAIL] }> = off_mean::<1, TAIL, false>(g, wide, there);
        let square: Tile<f32, { [1, MAIN] }> = f * f;
        let tail: Tile<f32, { [1, TAIL] }> = g * g;
        let variance: Tile<f32, { [1] }> = pair_mean(square, tail, columns, share);
        let factor: Tile<f32, { [1] }> = inverse_root(variance, eps);
        let r: Tile<f32, { [1, MAIN] }> = over_columns::<1, 1, 1, MAIN>(factor);
        let w: Tile<f32, { [1, MAIN] }> = read::<W, 1, 1, MAIN, true>(weight, none, 0i32, 1i32, columns);
        let b: Tile<f32, { [1, MAIN] }> = read::<B, 1, 1, MAIN, true>(bias, none, 0i32, 1i32, columns);
        let w: Tile<f32, { [1, MAIN] }> = w + shift.broadcast(shape![1, MAIN]);
        let y: Tile<f32, { [1, MAIN] }> = scaled(f * r, w, b);
        write::<E, 1, 1, MAIN, true>(out, y, ahead(row, columns, 0i32), 0i32, 1i32, columns);
        let r: Tile<f32, { [1, TAIL] }> = over_columns::<1, 1, 1, TAIL>(factor);
        let w: Tile<f32, { [1, TAIL] }> = read_piece::<W, TAIL>(weight, MAIN, left);
        let b: Tile<f32, { [1, TAIL] }> = read_piece::<B, TAIL>(bias, MAIN, left);
        let w: Tile<f32, { [1, TAIL] }> = w + shift.broadcast(shape![1, TAIL]);
        let y: Tile<f32, { [1, TAIL] }> = scaled(g * r, w, b);
        write::<E, 1, 1, TAIL, false>(out, y, ahead(row, columns, MAIN), 0i32, 1i32, left);
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
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let found: (Tile<f32, { [1] }>, Tile<f32, { [1] }>) =
            long_row_moments::<E, BLOCK>(x, row, columns, pitch, share, eps);
        let center: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(found.0);
        let r: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(found.1);
        for first in (0i32..columns).step_by(BLOCK as usize) {
            let left: i32 = columns - first;
            let f: Tile<f32, { [1, BLOCK] }> =
                read::<E, 1, 1, BLOCK, false>(x, ahead(row, pitch, first), 0i32, 1i32, left);
            let w: Tile<f32, { [1, BLOCK] }> = read_piece::<W, BLOCK>(weight, first, left);
            let b: Tile<f32, { [1, BLOCK] }> = read_piece::<B, BLOCK>(bias, first, left);
            let w: Tile<f32, { [1, BLOCK] }> = w + shift.broadcast(tile);
            let y: Tile<f32, { [1, BLOCK] }> = scaled((f - center) * r, w, b);
            write::<E, 1, 1, BLOCK, false>(out, y, ahead(row, columns, first), 0i32, 1i32, left);
        }
    }
}
