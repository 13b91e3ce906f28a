// SPDX-License-Identifier: MIT
//! What the two layer norms over rows share: (x - mean) * rstd * weight + bias of rows that do not take one tile of a
//! power of two. SHIFTED: `shift` is added to the weight.

#[cutile::module]
pub mod layer_norms {
    use crate::device::memory::memory::*;
    use crate::device::moments::moments::*;
    use crate::device::rows::rows::*;
    use cutile::core::*;

    /// weight + shift.
    pub fn shifted<const ROWS: i32, const COLS: i32, const SHIFTED: bool>(
        weight: Tile<f32, { [ROWS, COLS] }>,
        shift: f32,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        if SHIFTED {
            let sum: Tile<f32, { [ROWS, COLS] }> = weight + shift.broadcast(shape![ROWS, COLS]);
            sum
        } else {
            weight
        }
    }

    /// A row's two tiles less its mean; of the second one 0 where nothing is `there`.
    pub fn pair_off_mean<const MAIN: i32, const TAIL: i32>(
        f: Tile<f32, { [1, MAIN] }>,
        g: Tile<f32, { [1, TAIL] }>,
        there: Tile<bool, { [1, TAIL] }>,
        mean: Tile<f32, { [1] }>,
    ) -> (Tile<f32, { [1, MAIN] }>, Tile<f32, { [1, TAIL] }>) {
        let mean_over: Tile<f32, { [1, MAIN] }> = over_columns::<1, 1, 1, MAIN>(mean);
        let f: Tile<f32, { [1, MAIN] }> = f - mean_over;
        let mean_over: Tile<f32, { [1, TAIL] }> = over_columns::<1, 1, 1, TAIL>(mean);
        let g: Tile<f32, { [1, TAIL] }> = off_mean::<1, TAIL, false>(g, mean_over, there);
        (f, g)
    }

    /// 1 / sqrt(variance + eps) of a row whose two tiles less its mean are `f` and `g`.
    pub fn pair_rstd<const MAIN: i32, const TAIL: i32>(
        f: Tile<f32, { [1, MAIN] }>,
        g: Tile<f32, { [1, TAIL] }>,
        columns: i32,
        share: f32,
        eps: f32,
    ) -> Tile<f32, { [1] }> {
        let square: Tile<f32, { [1, MAIN] }> = f * f;
        let tail: Tile<f32, { [1, TAIL] }> = g * g;
        let variance: Tile<f32, { [1] }> = pair_mean(square, tail, columns, share);
        inverse_root(variance, eps)
    }

    /// Stores a row of two tiles; `f` and `g` are off its mean, the second tile begins in column MAIN.
    pub fn store_pair<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const MAIN: i32,
        const TAIL: i32,
        const SHIFTED: bool,
    >(
        out: *mut E,
        weight: *mut W,
        bias: *mut B,
        f: Tile<f32, { [1, MAIN] }>,
        g: Tile<f32, { [1, TAIL] }>,
        rstd: Tile<f32, { [1] }>,
        row: i32,
        columns: i32,
        shift: f32,
    ) {
        let left: i32 = columns - MAIN;
        let none: Tile<i64, { [] }> = wide(0i32);
        let r: Tile<f32, { [1, MAIN] }> = over_columns::<1, 1, 1, MAIN>(rstd);
        let w: Tile<f32, { [1, MAIN] }> = load_rows::<W, 1, 1, MAIN, true>(weight, none, 0i32, 1i32, columns);
        let b: Tile<f32, { [1, MAIN] }> = load_rows::<B, 1, 1, MAIN, true>(bias, none, 0i32, 1i32, columns);
        let w: Tile<f32, { [1, MAIN] }> = shifted::<1, MAIN, SHIFTED>(w, shift);
        let y: Tile<f32, { [1, MAIN] }> = scaled(f * r, w, b);
        store_rows::<E, 1, 1, MAIN, true>(out, y, offset_of(row, columns), 0i32, 1i32, columns);
        let r: Tile<f32, { [1, TAIL] }> = over_columns::<1, 1, 1, TAIL>(rstd);
        let w: Tile<f32, { [1, TAIL] }> = load_piece::<W, TAIL>(weight, MAIN, left);
        let b: Tile<f32, { [1, TAIL] }> = load_piece::<B, TAIL>(bias, MAIN, left);
        let w: Tile<f32, { [1, TAIL] }> = shifted::<1, TAIL, SHIFTED>(w, shift);
        let y: Tile<f32, { [1, TAIL] }> = scaled(g * r, w, b);
        store_rows::<E, 1, 1, TAIL, false>(out, y, matrix_offset(row, columns, MAIN), 0i32, 1i32, left);
    }

    /// Reads a row again, in pieces of BLOCK columns, and stores the result.
    pub fn store_long<E: ElementType, W: ElementType, B: ElementType, const BLOCK: i32, const SHIFTED: bool>(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        mean: Tile<f32, { [1] }>,
        rstd: Tile<f32, { [1] }>,
        row: i32,
        columns: i32,
        pitch: i32,
        shift: f32,
    ) {
        let center: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(mean);
        let r: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(rstd);
        for first in (0i32..columns).step_by(BLOCK as usize) {
            let left: i32 = columns - first;
            let f: Tile<f32, { [1, BLOCK] }> =
                load_rows::<E, 1, 1, BLOCK, false>(x, matrix_offset(row, pitch, first), 0i32, 1i32, left);
            let w: Tile<f32, { [1, BLOCK] }> = load_piece::<W, BLOCK>(weight, first, left);
            let b: Tile<f32, { [1, BLOCK] }> = load_piece::<B, BLOCK>(bias, first, left);
            let w: Tile<f32, { [1, BLOCK] }> = shifted::<1, BLOCK, SHIFTED>(w, shift);
            let y: Tile<f32, { [1, BLOCK] }> = scaled((f - center) * r, w, b);
            store_rows::<E, 1, 1, BLOCK, false>(out, y, matrix_offset(row, columns, first), 0i32, 1i32, left);
        }
    }
}
