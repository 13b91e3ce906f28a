// SPDX-License-Identifier: MIT
//! x / sqrt(mean(x^2) + eps) * (offset + weight) over rows, and its backward, computed in f32.
//!
//! Rows lie `pitch` apart; results have no gaps. Forward reads a row once and keeps it in registers, up to 32768
//! columns; longer ones are read twice. Backward does the same for rows that fit, and sums the weight's gradient over
//! the rows of each block; a second kernel adds the blocks' sums. Longer rows take a kernel for each row's dot product
//! and one that works on strips of columns.

#[cutile::module]
pub mod rms_norm {
    use crate::device::memory::memory::*;
    use crate::device::moments::moments::*;
    use crate::device::rows::rows::*;
    use cutile::core::*;

    /// One tile of ROWS whole rows per block, the grid is (ceil(rows / ROWS), 1, 1). CHUNKS * SPAN >= columns, PARTS ==
    /// CHUNKS * ROWS; columns and pitch are multiples of ALIGN elements, which are at most 16 bytes: the width of a
    /// load. EXACT promises that no tile overhangs: columns == CHUNKS * SPAN, rows a multiple of ROWS. `share` is 1 /
    /// columns. KEEP: write each row's 1 / sqrt(..) to rstd.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn rms_norm_rows<
        E: ElementType,
        W: ElementType,
        const CHUNKS: i32,
        const ROWS: i32,
        const PARTS: i32,
        const SPAN: i32,
        const ALIGN: i32,
        const EXACT: bool,
        const KEEP: bool,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        rstd: *mut f32,
        rows: i32,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
        offset: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0 * ROWS;
        let left: i32 = rows - row;
        let f: Tile<f32, { [PARTS, SPAN] }> =
            load_rows::<E, ROWS, PARTS, SPAN, EXACT>(x, offset_of(row, pitch), pitch, left, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = load_vector::<W, ROWS, PARTS, SPAN, EXACT>(weight, columns);
        let w: Tile<f32, { [PARTS, SPAN] }> = w + offset.broadcast(shape![PARTS, SPAN]);
        let square: Tile<f32, { [PARTS, SPAN] }> = f * f;
        let square: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(square, columns, share);
        let r: Tile<f32, { [ROWS] }> = inverse_root(square, eps);
        if KEEP {
            store_column::<ROWS, EXACT>(rstd, r, row, left);
        }
        let r: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(r);
        let y: Tile<f32, { [PARTS, SPAN] }> = f * r * w;
        store_rows::<E, ROWS, PARTS, SPAN, EXACT>(out, y, offset_of(row, columns), columns, left, columns);
    }

    /// Rows of any length, one per block: the grid is (rows, 1, 1). The rest is `rms_norm_rows`'.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn rms_norm_long<
        E: ElementType,
        W: ElementType,
        const BLOCK: i32,
        const ALIGN: i32,
        const KEEP: bool,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        rstd: *mut f32,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
        offset: f32,
    ) {
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let mut squares: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
        for first in (0i32..columns).step_by(BLOCK as usize) {
            let f: Tile<f32, { [1, BLOCK] }> =
                load_rows::<E, 1, 1, BLOCK, false>(x, matrix_offset(row, pitch, first), 0i32, 1i32, columns - first);
            squares = squares + f * f;
        }
        let square: Tile<f32, { [1] }> = row_mean::<1, 1, 1, BLOCK>(squares, columns, share);
        let r: Tile<f32, { [1] }> = inverse_root(square, eps);
        if KEEP {
            store_column::<1, true>(rstd, r, row, 1i32);
        }
        let r: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(r);
        for first in (0i32..columns).step_by(BLOCK as usize) {
            let left: i32 = columns - first;
            let f: Tile<f32, { [1, BLOCK] }> =
                load_rows::<E, 1, 1, BLOCK, false>(x, matrix_offset(row, pitch, first), 0i32, 1i32, left);
            let w: Tile<f32, { [1, BLOCK] }> = load_piece::<W, BLOCK>(weight, first, left);
            let w: Tile<f32, { [1, BLOCK] }> = w + offset.broadcast(tile);
            let y: Tile<f32, { [1, BLOCK] }> = f * r * w;
            store_rows::<E, 1, 1, BLOCK, false>(out, y, matrix_offset(row, columns, first), 0i32, 1i32, left);
        }
    }

    /// dx = rstd * (weight * dy - xn * mean(xn * weight * dy)) with xn = x * rstd, and of each block the sum of dy * xn
    /// over its rows, in `partial` (blocks, columns). Tiles of ROWS whole rows, strided by the grid (blocks, 1, 1). The
    /// rest is `rms_norm_rows`', dy's pitch included.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn rms_norm_backward<
        E: ElementType,
        W: ElementType,
        const CHUNKS: i32,
        const ROWS: i32,
        const PARTS: i32,
        const SPAN: i32,
        const ALIGN: i32,
        const EXACT: bool,
    >(
        dx: *mut E,
        partial: *mut f32,
        dy: *mut E,
        x: *mut E,
        weight: *mut W,
        rstd: *mut f32,
        rows: i32,
        columns: i32,
        dy_pitch: i32,
        x_pitch: i32,
        share: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let dy_pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(dy_pitch) };
        let x_pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(x_pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let blocks: (i32, i32, i32) = get_num_tile_blocks();
        let w: Tile<f32, { [PARTS, SPAN] }> = load_vector::<W, ROWS, PARTS, SPAN, EXACT>(weight, columns);
        let mut dw: Tile<f32, { [PARTS, SPAN] }> = constant(0.0f32, shape![PARTS, SPAN]);
        for i in (pid.0..ceil_div(rows, ROWS)).step_by(blocks.0 as usize) {
            let row: i32 = i * ROWS;
            let left: i32 = rows - row;
            let f: Tile<f32, { [PARTS, SPAN] }> =
                load_rows::<E, ROWS, PARTS, SPAN, EXACT>(x, offset_of(row, x_pitch), x_pitch, left, columns);
            let g: Tile<f32, { [PARTS, SPAN] }> =
                load_rows::<E, ROWS, PARTS, SPAN, EXACT>(dy, offset_of(row, dy_pitch), dy_pitch, left, columns);
            let r: Tile<f32, { [ROWS] }> = load_column::<ROWS, EXACT>(rstd, row, left);
            let r: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(r);
            let xn: Tile<f32, { [PARTS, SPAN] }> = f * r;
            let wg: Tile<f32, { [PARTS, SPAN] }> = w * g;
            let dot: Tile<f32, { [PARTS, SPAN] }> = xn * wg;
            let dot: Tile<f32, { [ROWS] }> = row_mean::<CHUNKS, ROWS, PARTS, SPAN>(dot, columns, share);
            let dot: Tile<f32, { [PARTS, SPAN] }> = over_columns::<CHUNKS, ROWS, PARTS, SPAN>(dot);
            let d: Tile<f32, { [PARTS, SPAN] }> = (wg - xn * dot) * r;
            store_rows::<E, ROWS, PARTS, SPAN, EXACT>(dx, d, offset_of(row, columns), columns, left, columns);
            dw = dw + g * xn;
        }
        let sum: Tile<f32, { [CHUNKS, ROWS, SPAN] }> = dw.reshape(shape![CHUNKS, ROWS, SPAN]);
        let sum: Tile<f32, { [CHUNKS, SPAN] }> = reduce_sum(sum, 1i32);
        store_rows::<f32, 1, CHUNKS, SPAN, EXACT>(partial, sum, offset_of(pid.0, columns), 0i32, 1i32, columns);
    }

    /// The mean of xn * weight * dy of each row, in `dots`, for rows of any length: the grid is (rows, 1, 1).
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn rms_norm_backward_dots<E: ElementType, W: ElementType, const BLOCK: i32, const ALIGN: i32>(
        dots: *mut f32,
        dy: *mut E,
        x: *mut E,
        weight: *mut W,
        rstd: *mut f32,
        columns: i32,
        dy_pitch: i32,
        x_pitch: i32,
        share: f32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let dy_pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(dy_pitch) };
        let x_pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(x_pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let r: Tile<f32, { [1] }> = load_column::<1, true>(rstd, row, 1i32);
        let r: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(r);
        let mut sum: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, shape![1, BLOCK]);
        for first in (0i32..columns).step_by(BLOCK as usize) {
            let left: i32 = columns - first;
            let f: Tile<f32, { [1, BLOCK] }> =
                load_rows::<E, 1, 1, BLOCK, false>(x, matrix_offset(row, x_pitch, first), 0i32, 1i32, left);
            let g: Tile<f32, { [1, BLOCK] }> =
                load_rows::<E, 1, 1, BLOCK, false>(dy, matrix_offset(row, dy_pitch, first), 0i32, 1i32, left);
            let w: Tile<f32, { [1, BLOCK] }> = load_piece::<W, BLOCK>(weight, first, left);
            sum = sum + f * r * (w * g);
        }
        let dot: Tile<f32, { [1] }> = row_mean::<1, 1, 1, BLOCK>(sum, columns, share);
        store_column::<1, true>(dots, dot, row, 1i32);
    }

    /// What `rms_norm_backward` gives, with each row's mean from `dots`: strips of BLOCK columns, tiles of ROWS rows.
    /// The grid is (strips, blocks, 1), partial (blocks, columns).
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn rms_norm_backward_strips<
        E: ElementType,
        W: ElementType,
        const ROWS: i32,
        const BLOCK: i32,
        const ALIGN: i32,
    >(
        dx: *mut E,
        partial: *mut f32,
        dots: *mut f32,
        dy: *mut E,
        x: *mut E,
        weight: *mut W,
        rstd: *mut f32,
        rows: i32,
        columns: i32,
        dy_pitch: i32,
        x_pitch: i32,
    ) {
        let tile: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let dy_pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(dy_pitch) };
        let x_pitch: i32 = unsafe { assume_div_by::<_, ALIGN>(x_pitch) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let blocks: (i32, i32, i32) = get_num_tile_blocks();
        let first: i32 = pid.0 * BLOCK;
        let across: i32 = columns - first;
        let w: Tile<f32, { [1, BLOCK] }> = load_piece::<W, BLOCK>(weight, first, across);
        let w: Tile<f32, { [ROWS, BLOCK] }> = w.broadcast(tile);
        let mut dw: Tile<f32, { [ROWS, BLOCK] }> = constant(0.0f32, tile);
        for i in (pid.1..ceil_div(rows, ROWS)).step_by(blocks.1 as usize) {
            let row: i32 = i * ROWS;
            let left: i32 = rows - row;
            let f: Tile<f32, { [ROWS, BLOCK] }> =
                load_rows::<E, ROWS, ROWS, BLOCK, false>(x, matrix_offset(row, x_pitch, first), x_pitch, left, across);
            let g: Tile<f32, { [ROWS, BLOCK] }> = load_rows::<E, ROWS, ROWS, BLOCK, false>(
                dy,
                matrix_offset(row, dy_pitch, first),
                dy_pitch,
                left,
                across,
            );
            let r: Tile<f32, { [ROWS] }> = load_column::<ROWS, false>(rstd, row, left);
            let dot: Tile<f32, { [ROWS] }> = load_column::<ROWS, false>(dots, row, left);
            let r: Tile<f32, { [ROWS, BLOCK] }> = over_columns::<1, ROWS, ROWS, BLOCK>(r);
            let dot: Tile<f32, { [ROWS, BLOCK] }> = over_columns::<1, ROWS, ROWS, BLOCK>(dot);
            let xn: Tile<f32, { [ROWS, BLOCK] }> = f * r;
            let d: Tile<f32, { [ROWS, BLOCK] }> = (w * g - xn * dot) * r;
            store_rows::<E, ROWS, ROWS, BLOCK, false>(dx, d, matrix_offset(row, columns, first), columns, left, across);
            dw = dw + g * xn;
        }
        let sum: Tile<f32, { [BLOCK] }> = reduce_sum(dw, 0i32);
        let sum: Tile<f32, { [1, BLOCK] }> = sum.reshape(shape![1, BLOCK]);
        store_rows::<f32, 1, 1, BLOCK, false>(partial, sum, matrix_offset(pid.1, columns, first), 0i32, 1i32, across);
    }

    /// dw = the sum of `partial` (blocks, columns) over its rows: BLOCK columns per block, ROWS rows at a time, the
    /// grid is (ceil(columns / BLOCK), 1, 1).
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn rms_norm_weight_gradient<W: ElementType, const ROWS: i32, const BLOCK: i32, const ALIGN: i32>(
        dw: *mut W,
        partial: *mut f32,
        blocks: i32,
        columns: i32,
    ) {
        let columns: i32 = unsafe { assume_div_by::<_, ALIGN>(columns) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let first: i32 = pid.0 * BLOCK;
        let across: i32 = columns - first;
        let mut sum: Tile<f32, { [ROWS, BLOCK] }> = constant(0.0f32, shape![ROWS, BLOCK]);
        for row in (0i32..blocks).step_by(ROWS as usize) {
            let f: Tile<f32, { [ROWS, BLOCK] }> = load_rows::<f32, ROWS, ROWS, BLOCK, false>(
                partial,
                matrix_offset(row, columns, first),
                columns,
                blocks - row,
                across,
            );
            sum = sum + f;
        }
        let total: Tile<f32, { [BLOCK] }> = reduce_sum(sum, 0i32);
        let total: Tile<f32, { [1, BLOCK] }> = total.reshape(shape![1, BLOCK]);
        store_rows::<W, 1, 1, BLOCK, false>(dw, total, wide(first), 0i32, 1i32, across);
    }
}
