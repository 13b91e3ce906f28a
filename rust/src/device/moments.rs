// SPDX-License-Identifier: MIT
//! Device functions of the normalisations: means along an axis of a tile, and moments of what does not fit one tile.

#[cutile::module]
pub mod moments {
    use crate::device::memory::memory::*;
    use crate::device::rows::rows::*;
    use cutile::core::*;

    /// sum / count: the sum times `share`, 1 / count, and what that leaves over, where it is no infinity, times share.
    /// A division is as exact, in twice as many instructions.
    fn shared<const N: i32>(sum: Tile<f32, { [N] }>, count: i32, share: f32) -> Tile<f32, { [N] }> {
        let count: f32 = convert_scalar(count);
        let count: Tile<f32, { [N] }> = count.broadcast(shape![N]);
        let share: Tile<f32, { [N] }> = share.broadcast(shape![N]);
        let mean: Tile<f32, { [N] }> = sum * share;
        let below: Tile<f32, { [N] }> = negf(mean);
        let rest: Tile<f32, { [N] }> = fma(below, count, sum, rounding::NearestEven, ftz::Disabled);
        let exact: Tile<f32, { [N] }> = fma(rest, share, mean, rounding::NearestEven, ftz::Disabled);
        let finite: Tile<bool, { [N] }> = cmpf(rest, rest, predicate::Equal, cmp_ordering::Ordered);
        select(finite, exact, mean)
    }

    /// The mean of each row, of which `count` elements count and the others are 0; `share` is 1 / count.
    pub fn row_mean<const CHUNKS: i32, const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        x: Tile<f32, { [PARTS, SPAN] }>,
        count: i32,
        share: f32,
    ) -> Tile<f32, { [ROWS] }> {
        let sum: Tile<f32, { [ROWS] }> = row_sum::<CHUNKS, ROWS, PARTS, SPAN>(x);
        shared(sum, count, share)
    }

    /// The mean of a row in two tiles, as `row_mean`.
    pub fn pair_mean<const MAIN: i32, const TAIL: i32>(
        x: Tile<f32, { [1, MAIN] }>,
        y: Tile<f32, { [1, TAIL] }>,
        count: i32,
        share: f32,
    ) -> Tile<f32, { [1] }> {
        let x: Tile<f32, { [1] }> = row_sum::<1, 1, 1, MAIN>(x);
        let y: Tile<f32, { [1] }> = row_sum::<1, 1, 1, TAIL>(y);
        shared(x + y, count, share)
    }

    /// The mean of each column, as `row_mean`.
    pub fn column_mean<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        count: i32,
        share: f32,
    ) -> Tile<f32, { [COLS] }> {
        let sum: Tile<f32, { [COLS] }> = reduce_sum(x, 0i32);
        shared(sum, count, share)
    }

    /// A value for each column, spread over its elements.
    pub fn over_rows<const ROWS: i32, const COLS: i32>(v: Tile<f32, { [COLS] }>) -> Tile<f32, { [ROWS, COLS] }> {
        v.reshape(shape![1, COLS]).broadcast(shape![ROWS, COLS])
    }

    /// x * factor + more, rounded once.
    pub fn scaled<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        factor: Tile<f32, { [ROWS, COLS] }>,
        more: Tile<f32, { [ROWS, COLS] }>,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        fma(x, factor, more, rounding::NearestEven, ftz::Disabled)
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
                load_rows::<E, 1, 1, BLOCK, false>(x, matrix_offset(row, pitch, first), 0i32, 1i32, left);
            let there: Tile<bool, { [1, BLOCK] }> = rows_inside::<1, 1, BLOCK>(1i32, left);
            let more: (Tile<f32, { [1, BLOCK] }>, Tile<f32, { [1, BLOCK] }>, Tile<f32, { [1, BLOCK] }>) =
                counted(count, mean, squares, f, there);
            count = more.0;
            mean = more.1;
            squares = more.2;
        }
        let sum: Tile<f32, { [1, BLOCK] }> = count * mean;
        let center: Tile<f32, { [1] }> = row_mean::<1, 1, 1, BLOCK>(sum, columns, share);
        let wide_center: Tile<f32, { [1, BLOCK] }> = over_columns::<1, 1, 1, BLOCK>(center);
        let square: Tile<f32, { [1, BLOCK] }> = squares_around(count, mean, squares, wide_center);
        let variance: Tile<f32, { [1] }> = row_mean::<1, 1, 1, BLOCK>(square, columns, share);
        (center, inverse_root(variance, eps))
    }
}
