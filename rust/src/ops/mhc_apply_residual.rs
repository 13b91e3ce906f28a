// SPDX-License-Identifier: MIT
//! n residual streams mixed by an n x n matrix, plus one vector times another: out[i] = sum of h[i, j] x[j] + g[i] f.
//!
//! A block has one row's columns of all streams, so that each stream is read once and written once.

#[cutile::module]
pub mod mhc_apply_residual {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// Coefficients first + i * stride, i in 0 .. N, 0 beyond `n` of them.
    fn coefficients<Y: ElementType, const N: i32>(
        base: PointerTile<*mut Y, { [] }>,
        first: i32,
        stride: i32,
        n: i32,
    ) -> Tile<f32, { [N] }> {
        let i: Tile<i32, { [N] }> = iota(shape![N]);
        let there: Tile<bool, { [N] }> = lt_tile(i, n.broadcast(shape![N]));
        let i: Tile<i32, { [N] }> = i * stride.broadcast(shape![N]) + first.broadcast(shape![N]);
        let at: PointerTile<*mut Y, { [N] }> = element_pointers(base, i);
        let t: Tile<Y, { [N] }> = gather(at, there);
        let t: Tile<f32, { [N] }> = convert_tile(t);
        let zero: Tile<f32, { [N] }> = constant(0.0f32, shape![N]);
        select(there, t, zero)
    }

    /// Columns of one row in f32, 0 beyond `left` of them.
    fn columns<E: ElementType, const BLOCK: i32, const EXACT: bool>(
        base: PointerTile<*mut E, { [] }>,
        start: Tile<i64, { [] }>,
        column: i32,
        left: i32,
    ) -> Tile<f32, { [1, BLOCK] }> {
        let start: Tile<i64, { [1] }> = start.reshape(shape![1]);
        let at: PointerTile<*mut E, { [1, BLOCK] }> = row_pointers::<E, 1, BLOCK, true>(base, start, column, 1i32);
        let mask: Tile<bool, { [1, BLOCK] }> = inside::<1, BLOCK>(1i32, left);
        load_padded::<E, 1, BLOCK, EXACT>(at, mask)
    }

    /// Columns of stream j of a row; nothing is read where there is none.
    fn stream<E: ElementType, const BLOCK: i32, const EXACT: bool>(
        base: PointerTile<*mut E, { [] }>,
        start: Tile<i64, { [] }>,
        j: i32,
        stride: i32,
        n: i32,
        column: i32,
        left: i32,
    ) -> Tile<f32, { [1, BLOCK] }> {
        let skipped: Tile<i64, { [] }> = offset_of(j, stride);
        let left: i32 = if EXACT { left } else { if j < n { left } else { 0i32 } };
        columns::<E, BLOCK, EXACT>(base, start + skipped, column, left)
    }

    /// acc and stream j's part in every stream.
    fn mixed<Y: ElementType, const N: i32, const BLOCK: i32>(
        acc: Tile<f32, { [N, BLOCK] }>,
        table: PointerTile<*mut Y, { [] }>,
        j: i32,
        n: i32,
        stream: Tile<f32, { [1, BLOCK] }>,
    ) -> Tile<f32, { [N, BLOCK] }> {
        let tile: Shape<{ [N, BLOCK] }> = shape![N, BLOCK];
        let h: Tile<f32, { [N] }> = coefficients::<Y, N>(table, 2i32 * n + j, n, if j < n { n } else { 0i32 });
        let h: Tile<f32, { [N, BLOCK] }> = h.reshape(shape![N, 1]).broadcast(tile);
        let stream: Tile<f32, { [N, BLOCK] }> = stream.broadcast(tile);
        fma(h, stream, acc, rounding::NearestEven, ftz::Disabled)
    }

    /// out and x (rows, n, C) and f (rows, C), last strides 1; y (rows, at least 2 n + n * n), last stride 1: g in
    /// columns n to 2 n, h row by row from 2 n on. N >= n is a power of two, BLOCK columns a tile; the grid is
    /// (rows, ceil(C / BLOCK), 1). FOUR: four streams are loaded at a time. EXACT promises N == n, and four times
    /// something with FOUR, and that C is a multiple of BLOCK.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(out = 3, x = 3, f = 2, y = 2)]
    pub unsafe fn mhc_apply_residual<
        E: ElementType,
        F: ElementType,
        Y: ElementType,
        const N: i32,
        const BLOCK: i32,
        const FOUR: bool,
        const EXACT: bool,
    >(
        out: *mut E,
        out_n0: i32,
        out_n1: i32,
        out_n2: i32,
        out_s0: i32,
        out_s1: i32,
        out_s2: i32,
        x: *mut E,
        x_n0: i32,
        x_n1: i32,
        x_n2: i32,
        x_s0: i32,
        x_s1: i32,
        x_s2: i32,
        f: *mut F,
        f_n0: i32,
        f_n1: i32,
        f_s0: i32,
        f_s1: i32,
        y: *mut Y,
        y_n0: i32,
        y_n1: i32,
        y_s0: i32,
        y_s1: i32,
    ) {
        let tile: Shape<{ [N, BLOCK] }> = shape![N, BLOCK];
        let pid: (i32, i32, i32) = get_tile_block_id();
        let row: i32 = pid.0;
        let column: i32 = pid.1 * BLOCK;
        let left: i32 = x_n2 - column;
        let n: i32 = if EXACT { N } else { x_n1 };
        let table: PointerTile<*mut Y, { [] }> = pointer_to_tile(y);
        let start: Tile<i64, { [] }> = offset_of(row, y_s0);
        let table: PointerTile<*mut Y, { [] }> = table.offset_tile(start);
        let start: Tile<i64, { [] }> = offset_of(row, f_s0);
        let base: PointerTile<*mut F, { [] }> = pointer_to_tile(f);
        let own: Tile<f32, { [1, BLOCK] }> = columns::<F, BLOCK, EXACT>(base, start, column, left);
        let g: Tile<f32, { [N] }> = coefficients::<Y, N>(table, n, 1i32, n);
        let g: Tile<f32, { [N, BLOCK] }> = g.reshape(shape![N, 1]).broadcast(tile);
        let own: Tile<f32, { [N, BLOCK] }> = own.broadcast(tile);
        let mut acc: Tile<f32, { [N, BLOCK] }> = constant(0.0f32, tile);
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(x);
        let start: Tile<i64, { [] }> = offset_of(row, x_s0);
        if FOUR {
            for q in 0i32..((n + 3i32) / 4i32) {
                let j: i32 = q * 4i32;
                let a: Tile<f32, { [1, BLOCK] }> = stream::<E, BLOCK, EXACT>(base, start, j, x_s1, n, column, left);
                let b: Tile<f32, { [1, BLOCK] }> =
                    stream::<E, BLOCK, EXACT>(base, start, j + 1i32, x_s1, n, column, left);
                let c: Tile<f32, { [1, BLOCK] }> =
                    stream::<E, BLOCK, EXACT>(base, start, j + 2i32, x_s1, n, column, left);
                let d: Tile<f32, { [1, BLOCK] }> =
                    stream::<E, BLOCK, EXACT>(base, start, j + 3i32, x_s1, n, column, left);
                acc = mixed::<Y, N, BLOCK>(acc, table, j, n, a);
                acc = mixed::<Y, N, BLOCK>(acc, table, j + 1i32, n, b);
                acc = mixed::<Y, N, BLOCK>(acc, table, j + 2i32, n, c);
                acc = mixed::<Y, N, BLOCK>(acc, table, j + 3i32, n, d);
            }
        } else {
            for j in 0i32..n {
                let a: Tile<f32, { [1, BLOCK] }> = stream::<E, BLOCK, EXACT>(base, start, j, x_s1, n, column, left);
                acc = mixed::<Y, N, BLOCK>(acc, table, j, n, a);
            }
        }
        let acc: Tile<f32, { [N, BLOCK] }> = fma(g, own, acc, rounding::NearestEven, ftz::Disabled);
        let z: Tile<E, { [N, BLOCK] }> = convert_tile(acc);
        let start: Tile<i64, { [] }> = offset_of(row, out_s0);
        let rows: Tile<i64, { [N] }> = row_offsets::<N>(start, out_s1);
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(out);
        let to: PointerTile<*mut E, { [N, BLOCK] }> = row_pointers::<E, N, BLOCK, true>(base, rows, column, 1i32);
        let mask: Tile<bool, { [N, BLOCK] }> = inside::<N, BLOCK>(n, left);
        store_masked::<E, N, BLOCK, EXACT>(to, z, mask);
    }
}
