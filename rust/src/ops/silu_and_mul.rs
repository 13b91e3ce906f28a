// SPDX-License-Identifier: MIT
//! silu(a) * b for an input [a | b], and its backward, computed in f32.
//!
//! `silu_and_mul_packed` is the fast one: no gaps between rows, loads through pointers, and the grid says which tile
//! a block has (a division would delay its first load). `silu_and_mul_tile` and the backward take any strides.

#[cutile::module]
pub mod silu_and_mul {
    use crate::device::gated::gated::*;
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

    /// Pointers to base + start + offsets; start is 64 bits wide, a tensor may hold more than 2^31 elements.
    fn pointers<E: ElementType, const ROWS: i32, const COLS: i32>(
        base: PointerTile<*mut E, { [] }>,
        start: Tile<i64, { [] }>,
        offsets: Tile<i32, { [ROWS, COLS] }>,
    ) -> PointerTile<*mut E, { [ROWS, COLS] }> {
        let first: PointerTile<*mut E, { [] }> = base.offset_tile(start);
        let first: PointerTile<*mut E, { [1, 1] }> = first.reshape(shape![1, 1]);
        let first: PointerTile<*mut E, { [ROWS, COLS] }> = first.broadcast(shape![ROWS, COLS]);
        first.offset_tile(offsets)
    }

    /// x is the input seen as (rows, 2, H); both tensors contiguous, H a multiple of ALIGN (elements; ALIGN elements
    /// are at most 16 bytes: the width of a load). One tile per block:
    /// - WHOLE: a tile holds whole rows, COLS >= H, and the grid is (ceil(rows / ROWS), 1, 1). Reading a block's place
    ///   on the other axes costs conversions ahead of the first load, which shows when the whole call takes 1.5 us.
    /// - else columns come first, so that neighbouring blocks read neighbouring memory: the grid is
    ///   (ceil(H / COLS), y, z) with y * z >= ceil(rows / ROWS); z is there because y ends at 65535.
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
        let pid: (i32, i32, i32) = get_tile_block_id();
        let blocks: (i32, i32, i32) = get_num_tile_blocks();
        let row: i32 = if WHOLE { pid.0 * ROWS } else { (pid.2 * blocks.1 + pid.1) * ROWS };
        let column: i32 = if WHOLE { 0i32 } else { pid.0 * COLS };
        let row_0d: Tile<i32, { [] }> = scalar_to_tile(row);
        let row_wide: Tile<i64, { [] }> = exti(row_0d);
        let column_0d: Tile<i32, { [] }> = scalar_to_tile(column);
        let column_wide: Tile<i64, { [] }> = exti(column_0d);
        let hidden_0d: Tile<i32, { [] }> = scalar_to_tile(hidden);
        let hidden_wide: Tile<i64, { [] }> = exti(hidden_0d);
        let above: Tile<i64, { [] }> = row_wide * hidden_wide;
        let start: Tile<i64, { [] }> = above + column_wide;
        let start_a: Tile<i64, { [] }> = above + start;
        let start_b: Tile<i64, { [] }> = start_a + hidden_wide;
        let r: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        let r: Tile<i32, { [ROWS, COLS] }> = r.reshape(shape![ROWS, 1]).broadcast(tile);
        let c: Tile<i32, { [COLS] }> = iota(shape![COLS]);
        let c: Tile<i32, { [ROWS, COLS] }> = c.reshape(shape![1, COLS]).broadcast(tile);
        let width: Tile<i32, { [ROWS, COLS] }> = hidden.broadcast(tile);
        let skipped: Tile<i32, { [ROWS, COLS] }> = r * width;
        let to_offsets: Tile<i32, { [ROWS, COLS] }> = skipped + c;
        let from_offsets: Tile<i32, { [ROWS, COLS] }> = skipped + to_offsets;
        let from_a: PointerTile<*mut E, { [ROWS, COLS] }> = pointers(get_tensor_base(x), start_a, from_offsets);
        let from_b: PointerTile<*mut E, { [ROWS, COLS] }> = pointers(get_tensor_base(x), start_b, from_offsets);
        let to: PointerTile<*mut E, { [ROWS, COLS] }> = pointers(get_tensor_base(out), start, to_offsets);
        if EXACT {
            let a: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
                load_ptr_tko(from_a, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>)
            };
            let b: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
                load_ptr_tko(from_b, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>)
            };
            let y: Tile<E, { [ROWS, COLS] }> = gate(a.0, b.0);
            unsafe { store_ptr_tko(to, y, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
        } else {
            let rows_left: Tile<i32, { [ROWS, COLS] }> = (rows - row).broadcast(tile);
            let columns_left: Tile<i32, { [ROWS, COLS] }> = (hidden - column).broadcast(tile);
            let mask: Tile<bool, { [ROWS, COLS] }> = lt_tile(r, rows_left) & lt_tile(c, columns_left);
            let a: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
                load_ptr_tko(from_a, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>)
            };
            let b: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
                load_ptr_tko(from_b, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>)
            };
            let y: Tile<E, { [ROWS, COLS] }> = gate(a.0, b.0);
            unsafe { store_ptr_tko(to, y, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, Latency::<0>) };
        }
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
