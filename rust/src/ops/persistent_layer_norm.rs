// SPDX-License-Identifier: MIT
//! (x - mean) / sqrt(variance + eps) * weight + bias over rows, with each row's mean and 1 / sqrt(variance + eps)
//! written or given, computed in f32.
//!
//! As in `layer_norm_legacy`: a row is read once and kept in registers, up to 32768 columns; longer ones are read
//! twice.

#[cutile::module]
pub mod persistent_layer_norm {
    use crate::device::layer_norms::layer_norms::*;
    use crate::device::memory::memory::*;
    use crate::device::moments::moments::*;
    use crate::device::rows::rows::*;
    use cutile::core::*;

    /// One tile of ROWS whole rows per block; ALIGN, EXACT and share are `layer_norm_rows`'. GIVEN: mean and rstd
    /// (rows) are read, else written.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn persistent_layer_norm_rows<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const CHUNKS: i32,
        const ROWS: i32,
        const PARTS: i32,
        const SPAN: i32,
        const ALIGN: i32,
        const EXACT: bool,
        const GIVEN: bool,
    >(
        out: *mut E,
        mean: *mut f32,
        rstd: *mut f32,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        rows: i32,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0 * ROWS;
        let left: i32 = rows - row;
        let f: Tile<f32, { [PARTS, SPAN] }> =
            load_rows::<E, ROWS, PARTS, SPAN, EXACT>(x, offset_of(row, pitch), pitch, left, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = load_vector::<W, ROWS, PARTS, SPAN, EXACT>(weight, columns);
        let b: Tile<f32, { [PARTS, SPAN] }> = load_vector::<B, ROWS, PARTS, SPAN, EXACT>(bias, columns);
        let center: Tile<f32, { [ROWS] }> = if GIVEN {
            load_column::<ROWS, EXACT>(mean, row, left)
        } else {
            row_mean::<CHUNKS, ROWS, PARTS, SPAN>(f, columns, share)
        };
        let wide_center: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(center);
        let there: Tile<bool, { [PARTS, SPAN] }> = rows_inside::<ROWS, PARTS, SPAN>(left, columns);
        let off: Tile<f32, { [PARTS, SPAN] }> = off_mean::<PARTS, SPAN, EXACT>(f, wide_center, there);
        let r: Tile<f32, { [ROWS] }> = if GIVEN {
            load_column::<ROWS, EXACT>(rstd, row, left)
        } else {
            let square: Tile<f32, { [PARTS, SPAN] }> = off * off;
            let variance: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(square, columns, share);
            let r: Tile<f32, { [ROWS] }> = inverse_root(variance, eps);
            store_column::<ROWS, EXACT>(mean, center, row, left);
            store_column::<ROWS, EXACT>(rstd, r, row, left);
            r
        };
        let r: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(r);
        let y: Tile<f32, { [PARTS, SPAN] }> = scaled(off * r, w, b);
        store_rows::<E, ROWS, PARTS, SPAN, EXACT>(out, y, offset_of(row, columns), columns, left, columns);
    }

    /// Rows in two tiles, one row per block: the first MAIN columns, all there, and TAIL >= columns - MAIN. A power of
    /// two that holds a row of 10000 columns would have registers for 16384. The grid is (rows, 1, 1), the rest
    /// `persistent_layer_norm_rows`'.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn persistent_layer_norm_pair<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const MAIN: i32,
        const TAIL: i32,
        const ALIGN: i32,
        const GIVEN: bool,
    >(
        out: *mut E,
        mean: *mut f32,
        rstd: *mut f32,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
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
        let center: Tile<f32, { [1] }> =
            if GIVEN { load_column::<1, true>(mean, row, 1i32) } else { pair_mean(f, g, columns, share) };
        let off: (Tile<f32, { [1, MAIN] }>, Tile<f32, { [1, TAIL] }>) = pair_off_mean(f, g, there, center);
        let factor: Tile<f32, { [1] }> = if GIVEN {
            load_column::<1, true>(rstd, row, 1i32)
        } else {
            let r: Tile<f32, { [1] }> = pair_rstd(off.0, off.1, columns, share, eps);
            store_column::<1, true>(mean, center, row, 1i32);
            store_column::<1, true>(rstd, r, row, 1i32);
            r
        };
        store_pair::<E, W, B, MAIN, TAIL, false>(out, weight, bias, off.0, off.1, factor, row, columns, 0.0f32);
    }

    /// Rows of any length, one per block: the grid is (rows, 1, 1). The rest is `persistent_layer_norm_rows`'.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn persistent_layer_norm_long<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const BLOCK: i32,
        const ALIGN: i32,
        const GIVEN: bool,
    >(
        out: *mut E,
        mean: *mut f32,
        rstd: *mut f32,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let known: (Tile<f32, { [1] }>, Tile<f32, { [1] }>) = if GIVEN {
            let center: Tile<f32, { [1] }> = load_column::<1, true>(mean, row, 1i32);
            let r: Tile<f32, { [1] }> = load_column::<1, true>(rstd, row, 1i32);
            (center, r)
        } else {
            let found: (Tile<f32, { [1] }>, Tile<f32, { [1] }>) =
                long_row_moments::<E, BLOCK>(x, row, columns, pitch, share, eps);
            store_column::<1, true>(mean, found.0, row, 1i32);
            store_column::<1, true>(rstd, found.1, row, 1i32);
            found
        };
        store_long::<E, W, B, BLOCK, false>(out, x, weight, bias, known.0, known.1, row, columns, pitch, 0.0f32);
    }
}
