// SPDX-License-Identifier: MIT
//! silu(a) * b for an input [a | b], and its backward, computed in f32.
//!
//! `silu_and_mul_packed` is the fast one: no gaps between rows, loads through pointers, and the grid says which tile
//! a block has (a division would delay its first load). `silu_and_mul_tile` and the backward take any strides.

#[cutile::module]
pub mod silu_and_mul {
    use crate::device::elementwise::elementwise::*;
    use crate::device::gated::gated::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// 1 + exp(-a), exp through exp2: a / (1 + exp(-a)) is silu(a).
    fn denominator<const ROWS: i32, const COLS: i32>(a: Tile<f32, { [ROWS, COLS] }>) -> Tile<f32, { [ROWS, COLS] }> {
        let s: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let minus_log2e: Tile<f32, { [ROWS, COLS] }> = constant(-1.4426950408889634f32, s);
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, s);
        let t: Tile<f32, { [ROWS, COLS] }> = mulf(a, minus_log2e, rounding::NearestEven, ftz::Enabled);
        one + exp2(t, ftz::Enabled)
    }

    /// silu(a) * b in the element type.
    fn gate<E: ElementType, const ROWS: i32, const COLS: i32>(
        a: Tile<E, { [ROWS, COLS] }>,
        b: Tile<E, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        let a: Tile<f32, { [ROWS, COLS] }> = convert_tile(a);
        let b: Tile<f32, { [ROWS, COLS] }> = convert_tile(b);
        let silu: Tile<f32, { [ROWS, COLS] }> = true_div(a, denominator(a));
        convert_tile(silu * b)
    }

    /// x is the input seen as (rows, 2, H); both tensors contiguous, H a multiple of ALIGN (elements; ALIGN elements
    /// are at most 16 bytes: the width of a load). One tile per block:
    /// - WHOLE: a tile holds whole rows, COLS >= H, and the grid is (ceil(rows / ROWS), 1, 1).
    /// - else columns come first: the grid is (ceil(H / COLS), y, z) with y * z >= ceil(rows / ROWS). See `place`.
    ///
    /// EXACT promises that nothing overhangs: H a multiple of COLS, ROWS times the blocks over the rows == rows.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn silu_and_mul_packed<
        E: ElementType,
        const ROWS: i32,
        const COLS: i32,
        const ALIGN: i32,
        const WHOLE: bool,
        const EXACT: bool,
    >(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1, -1] }>,
    ) {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let rows: i32 = get_shape_dim(x.shape(), 0i32);
        let hidden: i32 = get_shape_dim(x.shape(), 2i32);
        let hidden: i32 = unsafe { assume_div_by::<_, ALIGN>(hidden) };
        let at: (i32, i32) = place(WHOLE, ROWS, COLS);
        let above: Tile<i64, { [] }> = offset_of(at.0, hidden);
        let start: Tile<i64, { [] }> = above + wide(at.1);
        let start_a: Tile<i64, { [] }> = above + start;
        let start_b: Tile<i64, { [] }> = start_a + wide(hidden);
        let r: Tile<i32, { [ROWS, COLS] }> = row_indices::<ROWS, COLS>();
        let c: Tile<i32, { [ROWS, COLS] }> = column_indices::<ROWS, COLS>();
        let width: Tile<i32, { [ROWS, COLS] }> = hidden.broadcast(tile);
        let skipped: Tile<i32, { [ROWS, COLS] }> = r * width;
        let to_offsets: Tile<i32, { [ROWS, COLS] }> = skipped + c;
        let from_offsets: Tile<i32, { [ROWS, COLS] }> = skipped + to_offsets;
        let from_a: PointerTile<*mut E, { [ROWS, COLS] }> = pointers(get_tensor_base(x), start_a, from_offsets);
        let from_b: PointerTile<*mut E, { [ROWS, COLS] }> = pointers(get_tensor_base(x), start_b, from_offsets);
        let to: PointerTile<*mut E, { [ROWS, COLS] }> = pointers(get_tensor_base(out), start, to_offsets);
        let mask: Tile<bool, { [ROWS, COLS] }> = below(r, c, rows - at.0, hidden - at.1);
        let a: Tile<E, { [ROWS, COLS] }> = load_masked::<E, ROWS, COLS, EXACT>(from_a, mask);
        let b: Tile<E, { [ROWS, COLS] }> = load_masked::<E, ROWS, COLS, EXACT>(from_b, mask);
        let y: Tile<E, { [ROWS, COLS] }> = gate(a, b);
        store_masked::<E, ROWS, COLS, EXACT>(to, y, mask);
    }

    /// x is the input seen as (rows, 2, H). Tiles of ROWS x COLS, numbered row by row, strided by the grid.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn silu_and_mul_tile<E: ElementType, const ROWS: i32, const COLS: i32, const TMA: bool>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1, -1] }>,
    ) {
        let half: Shape<{ [ROWS, 1, COLS] }> = shape![ROWS, 1, COLS];
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let src: Partition<E, { [ROWS, 1, COLS] }> =
            unsafe { make_partition_view(x, half, padding::Zero, dim_map::Identity, new_token_unordered()) };
        // A view of its own, so that the second load does not wait for the first.
        let src2: Partition<E, { [ROWS, 1, COLS] }> =
            unsafe { make_partition_view(x, half, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [ROWS, COLS] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let rows: i32 = num_tiles(&src, 0i32);
        let cols: i32 = num_tiles(&src, 2i32);
        let total: i32 = rows * cols;
        for i in (pid.0..total).step_by(step.0 as usize) {
            let r: i32 = i / cols;
            let c: i32 = i - r * cols;
            let a: Tile<E, { [ROWS, 1, COLS] }> = if TMA {
                let a: Tile<E, { [ROWS, 1, COLS] }> = src.load([r, 0i32, c]);
                a
            } else {
                let a: Tile<E, { [ROWS, 1, COLS] }> =
                    load_view_tko(&src, [r, 0i32, c], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                a
            };
            let b: Tile<E, { [ROWS, 1, COLS] }> = if TMA {
                let b: Tile<E, { [ROWS, 1, COLS] }> = src2.load([r, 1i32, c]);
                b
            } else {
                let b: Tile<E, { [ROWS, 1, COLS] }> =
                    load_view_tko(&src2, [r, 1i32, c], ordering::Weak, scope::TileBlock, None, tma::Disabled);
                b
            };
            let a: Tile<E, { [ROWS, COLS] }> = a.reshape(tile);
            let b: Tile<E, { [ROWS, COLS] }> = b.reshape(tile);
            let y: Tile<E, { [ROWS, COLS] }> = gate(a, b);
            if TMA {
                unsafe {
                    store_view_tko_mut(&mut dst, y, [r, c], ordering::Weak, scope::TileBlock, None, tma::Enabled)
                };
            } else {
                unsafe {
                    store_view_tko_mut(&mut dst, y, [r, c], ordering::Weak, scope::TileBlock, None, tma::Disabled)
                };
            }
        }
    }

    /// to_gate = grad * other * silu'(gate), to_other = grad * silu(gate). Tiles of ROWS x COLS, placed as `place` says
    /// (WHOLE: whole rows); EXACT: none overhangs. `cols` and the distances of rows are multiples of ALIGN elements.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn silu_and_mul_backward<
        E: ElementType,
        const ROWS: i32,
        const COLS: i32,
        const ALIGN: i32,
        const WHOLE: bool,
        const EXACT: bool,
    >(
        to_gate: *mut E,
        to_other: *mut E,
        grad: *mut E,
        gate: *mut E,
        other: *mut E,
        rows: i32,
        cols: i32,
        to_row: i32,
        grad_row: i32,
        gate_row: i32,
        other_row: i32,
    ) {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let cols: i32 = unsafe { assume_div_by::<_, ALIGN>(cols) };
        let to_row: i32 = unsafe { assume_div_by::<_, ALIGN>(to_row) };
        let grad_row: i32 = unsafe { assume_div_by::<_, ALIGN>(grad_row) };
        let gate_row: i32 = unsafe { assume_div_by::<_, ALIGN>(gate_row) };
        let other_row: i32 = unsafe { assume_div_by::<_, ALIGN>(other_row) };
        gated_backward(
            0i32, to_gate, to_other, grad, gate, other, rows, cols, to_row, grad_row, gate_row, other_row, WHOLE,
            EXACT, tile,
        );
    }
}
