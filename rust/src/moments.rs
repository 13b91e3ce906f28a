// SPDX-License-Identifier: MIT
//! Device functions of the normalisations: means along an axis of a tile, and moments of what does not fit one tile.

#[cutile::module]
pub mod moments {
    use crate::rows::rows::*;
    use cutile::core::*;

    /// The mean of each row: its sum times `share`, 1 over the number of elements that count; the others are 0. (A
    /// division would be some twenty instructions for each row.)
    pub fn row_mean<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        share: f32,
    ) -> Tile<f32, { [ROWS] }> {
        let share: Tile<f32, { [ROWS] }> = share.broadcast(shape![ROWS]);
        let sum: Tile<f32, { [ROWS] }> = reduce_sum(x, 1i32);
        sum * share
    }

    /// The mean of each column, as `row_mean`.
    pub fn column_mean<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        share: f32,
    ) -> Tile<f32, { [COLS] }> {
        let share: Tile<f32, { [COLS] }> = share.broadcast(shape![COLS]);
        let sum: Tile<f32, { [COLS] }> = reduce_sum(x, 0i32);
        sum * share
    }

    /// 1 / sqrt(v + eps).
    pub fn inverse_root<const N: i32>(v: Tile<f32, { [N] }>, eps: f32) -> Tile<f32, { [N] }> {
        let eps: Tile<f32, { [N] }> = eps.broadcast(shape![N]);
        rsqrt(v + eps, ftz::Disabled)
    }

    /// What each element of a tile keeps of the elements that pass by: their count, their mean, and the sum of their
    /// squared differences from it (Welford), so that nothing cancels. Here after the elements of `x` that are `there`.
    pub fn counted<const ROWS: i32, const COLS: i32>(
        count: Tile<f32, { [ROWS, COLS] }>,
        mean: Tile<f32, { [ROWS, COLS] }>,
        squares: Tile<f32, { [ROWS, COLS] }>,
        x: Tile<f32, { [ROWS, COLS] }>,
        there: Tile<bool, { [ROWS, COLS] }>,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, shape![ROWS, COLS]);
        let n: Tile<f32, { [ROWS, COLS] }> = count + one;
        let off: Tile<f32, { [ROWS, COLS] }> = x - mean;
        let m: Tile<f32, { [ROWS, COLS] }> = mean + true_div(off, n);
        let s: Tile<f32, { [ROWS, COLS] }> = squares + off * (x - m);
        let n: Tile<f32, { [ROWS, COLS] }> = select(there, n, count);
        let m: Tile<f32, { [ROWS, COLS] }> = select(there, m, mean);
        let s: Tile<f32, { [ROWS, COLS] }> = select(there, s, squares);
        (n, m, s)
    }

    /// The sum of squared differences from `center` of what `counted` kept.
    pub fn squares_around<const ROWS: i32, const COLS: i32>(
        count: Tile<f32, { [ROWS, COLS] }>,
        mean: Tile<f32, { [ROWS, COLS] }>,
        squares: Tile<f32, { [ROWS, COLS] }>,
        center: Tile<f32, { [ROWS, COLS] }>,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let off: Tile<f32, { [ROWS, COLS] }> = mean - center;
        squares + count * off * off
    }

    /// x - mean where it is `there`, else 0. EXACT promises that all of it is.
    pub fn off_mean<const ROWS: i32, const COLS: i32, const EXACT: bool>(
        x: Tile<f32, { [ROWS, COLS] }>,
        mean: Tile<f32, { [ROWS, COLS] }>,
        there: Tile<bool, { [ROWS, COLS] }>,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let off: Tile<f32, { [ROWS, COLS] }> = x - mean;
        if EXACT {
            off
        } else {
            let nothing: Tile<f32, { [ROWS, COLS] }> = constant(0.0f32, shape![ROWS, COLS]);
            let off: Tile<f32, { [ROWS, COLS] }> = select(there, off, nothing);
            off
        }
    }

    /// The mean of row `row` and 1 / sqrt(variance + eps), read in pieces of BLOCK columns.
    pub fn long_row_moments<E: ElementType, const BLOCK: i32>(
        x: *mut E,
        row: i32,
        columns: i32,
        pitch: i32,
        share: f32,
        eps: f32,
    ) -> (Tile<f32, { [1] }>, Tile<f32, { [1] }>) {
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let mut count: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
        let mut mean: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
        let mut squares: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
        for first in (0i32..columns).step_by(BLOCK as usize) {
            let left: i32 = columns - first;
            let f: Tile<f32, { [1, BLOCK] }> =
                read::<E, 1, BLOCK, false>(x, ahead(row, pitch, first), 0i32, 1i32, left);
            let there: Tile<bool, { [1, BLOCK] }> = within::<1, BLOCK>(1i32, left);
            let more: (Tile<f32, { [1, BLOCK] }>, Tile<f32, { [1, BLOCK] }>, Tile<f32, { [1, BLOCK] }>) =
                counted(count, mean, squares, f, there);
            count = more.0;
            mean = more.1;
            squares = more.2;
        }
        let sum: Tile<f32, { [1, BLOCK] }> = count * mean;
        let center: Tile<f32, { [1] }> = row_mean(sum, share);
        let wide_center: Tile<f32, { [1, BLOCK] }> = over_columns::<1, BLOCK>(center);
        let square: Tile<f32, { [1, BLOCK] }> = squares_around(count, mean, squares, wide_center);
        let variance: Tile<f32, { [1] }> = row_mean(square, share);
        (center, inverse_root(variance, eps))
    }
}
