// SPDX-License-Identifier: MIT
//! Rotary position embedding: the first 2 * HALF elements of each head, as two halves, rotated against each other.
//!
//! A block has a tile of positions and heads of q, a row each, and of the same positions as many heads of k as belong to
//! them. All of it is read before anything is written. Blocks of the same positions follow one another, so that tables
//! stay in L2, and heads of a position are neighbours in what a projection writes.

#[cutile::module]
pub mod apply_rope_base {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// The block's batch, its first position, and how many positions there are from there on. Positions lie along the
    /// grid's second axis, batches along the third, or, FAR, both along both, because those axes end at 65535.
    fn placed<const FAR: bool>(batches: i32, positions: i32, tile: i32) -> (i32, i32, i32) {
        let pid: (i32, i32, i32) = get_tile_block_id();
        let blocks: (i32, i32, i32) = get_num_tile_blocks();
        let tiles: i32 = (positions + tile - 1i32) / tile;
        let index: i32 = pid.2 * blocks.1 + pid.1;
        let batch: i32 = if FAR { index / tiles } else { pid.2 };
        let first: i32 = if FAR { (index - batch * tiles) * tile } else { pid.1 * tile };
        let left: i32 = positions - first;
        let left: i32 = if FAR { if batch < batches { left } else { 0i32 } } else { left };
        (batch, first, left)
    }

    /// Position and head of row i of a tile: positions go round fastest, so that all rows of a thread have the same one
    /// and the compiler loads its tables once.
    fn split<const ROWS: i32, const HEADS: i32>() -> (Tile<i32, { [ROWS] }>, Tile<i32, { [ROWS] }>) {
        let i: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        let positions: Tile<i32, { [ROWS] }> = broadcast_scalar(ROWS / HEADS, shape![ROWS]);
        let head: Tile<i32, { [ROWS] }> = i / positions;
        let position: Tile<i32, { [ROWS] }> = i - head * positions;
        (position, head)
    }

    /// Where the rows of a tile begin.
    fn rows<const ROWS: i32, const HEADS: i32>(
        batch: i32,
        batch_stride: i32,
        position: i32,
        position_stride: i32,
        head: i32,
        head_stride: i32,
    ) -> Tile<i64, { [ROWS] }> {
        let i: (Tile<i32, { [ROWS] }>, Tile<i32, { [ROWS] }>) = split::<ROWS, HEADS>();
        let in_batch: Tile<i64, { [] }> = offset_of(batch, batch_stride);
        let at_position: Tile<i64, { [] }> = offset_of(position, position_stride);
        let at_head: Tile<i64, { [] }> = offset_of(head, head_stride);
        let start: Tile<i64, { [] }> = in_batch + at_position + at_head;
        let start: Tile<i64, { [ROWS] }> = start.reshape(shape![1]).broadcast(shape![ROWS]);
        let down: Tile<i64, { [ROWS] }> = offsets_of(i.0, position_stride);
        let across: Tile<i64, { [ROWS] }> = offsets_of(i.1, head_stride);
        start + down + across
    }

    /// Whether positions, heads and columns of a tile exist: so many are left.
    fn exist<const ROWS: i32, const HEADS: i32, const BLOCK: i32>(
        positions: i32,
        heads: i32,
        columns: i32,
    ) -> Tile<bool, { [ROWS, BLOCK] }> {
        let i: (Tile<i32, { [ROWS] }>, Tile<i32, { [ROWS] }>) = split::<ROWS, HEADS>();
        let positions: Tile<i32, { [ROWS] }> = positions.broadcast(shape![ROWS]);
        let heads: Tile<i32, { [ROWS] }> = heads.broadcast(shape![ROWS]);
        let there: Tile<bool, { [ROWS] }> = lt_tile(i.0, positions) & lt_tile(i.1, heads);
        let there: Tile<bool, { [ROWS, BLOCK] }> = there.reshape(shape![ROWS, 1]).broadcast(shape![ROWS, BLOCK]);
        let in_row: Tile<bool, { [ROWS, BLOCK] }> = inside::<ROWS, BLOCK>(ROWS, columns);
        there & in_row
    }

    /// Both halves of the rows of a tile.
    fn halves<
        E: ElementType,
        const ROWS: i32,
        const BLOCK: i32,
        const HALF: i32,
        const UNIT: bool,
        const EXACT: bool,
    >(
        base: PointerTile<*mut E, { [] }>,
        rows: Tile<i64, { [ROWS] }>,
        stride: i32,
        mask: Tile<bool, { [ROWS, BLOCK] }>,
    ) -> (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>) {
        let a: PointerTile<*mut E, { [ROWS, BLOCK] }> = row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, 0i32, stride);
        let b: PointerTile<*mut E, { [ROWS, BLOCK] }> = row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, HALF, stride);
        let a: Tile<E, { [ROWS, BLOCK] }> = load_masked::<E, ROWS, BLOCK, EXACT>(a, mask);
        let b: Tile<E, { [ROWS, BLOCK] }> = load_masked::<E, ROWS, BLOCK, EXACT>(b, mask);
        (a, b)
    }

    /// A tile's rows of a table (B, S, columns), which all heads share, in f32.
    fn table<
        C: ElementType,
        const ROWS: i32,
        const HEADS: i32,
        const BLOCK: i32,
        const HALF: i32,
        const UNIT: bool,
        const EXACT: bool,
    >(
        base: *mut C,
        strides: (i32, i32, i32),
        at: (i32, i32, i32),
    ) -> Tile<f32, { [ROWS, BLOCK] }> {
        let base: PointerTile<*mut C, { [] }> = pointer_to_tile(base);
        let rows: Tile<i64, { [ROWS] }> = rows::<ROWS, HEADS>(at.0, strides.0, at.1, strides.1, 0i32, 0i32);
        let mask: Tile<bool, { [ROWS, BLOCK] }> = exist::<ROWS, HEADS, BLOCK>(at.2, HEADS, HALF);
        let from: PointerTile<*mut C, { [ROWS, BLOCK] }> =
            row_pointers::<C, ROWS, BLOCK, UNIT>(base, rows, 0i32, strides.2);
        let found: Tile<C, { [ROWS, BLOCK] }> = load_masked::<C, ROWS, BLOCK, EXACT>(from, mask);
        convert_tile(found)
    }

    /// Writes both halves, rotated against each other.
    fn rotate<
        E: ElementType,
        const ROWS: i32,
        const BLOCK: i32,
        const HALF: i32,
        const UNIT: bool,
        const EXACT: bool,
        const BACK: bool,
    >(
        base: PointerTile<*mut E, { [] }>,
        rows: Tile<i64, { [ROWS] }>,
        stride: i32,
        halves: (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>),
        cos: Tile<f32, { [ROWS, BLOCK] }>,
        sin: Tile<f32, { [ROWS, BLOCK] }>,
        mask: Tile<bool, { [ROWS, BLOCK] }>,
    ) {
        let a: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(halves.0);
        let b: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(halves.1);
        let sin: Tile<f32, { [ROWS, BLOCK] }> = if BACK {
            let other: Tile<f32, { [ROWS, BLOCK] }> = negf(sin);
            other
        } else {
            sin
        };
        let to_a: PointerTile<*mut E, { [ROWS, BLOCK] }> =
            row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, 0i32, stride);
        let to_b: PointerTile<*mut E, { [ROWS, BLOCK] }> =
            row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, HALF, stride);
        let y: Tile<f32, { [ROWS, BLOCK] }> = fma(a, cos, negf(b * sin), rounding::NearestEven, ftz::Disabled);
        let z: Tile<f32, { [ROWS, BLOCK] }> = fma(b, cos, a * sin, rounding::NearestEven, ftz::Disabled);
        let y: Tile<E, { [ROWS, BLOCK] }> = convert_tile(y);
        let z: Tile<E, { [ROWS, BLOCK] }> = convert_tile(z);
        store_masked::<E, ROWS, BLOCK, EXACT>(to_a, y, mask);
        store_masked::<E, ROWS, BLOCK, EXACT>(to_b, z, mask);
    }

    /// In place on q (B, H, S, D) and k (B, H_kv, S, D); cos and sin are (B, S, at least HALF). Tiles of ROWS rows, of
    /// them HEADS heads, for k of K_ROWS and K_HEADS, with as many positions; BLOCK >= HALF columns; all powers of two.
    /// Grid: (tiles of heads, of positions, B), FAR: (.., y, z), y * z at least the last two's product. UNIT: last
    /// strides are 1. EXACT: no tile overhangs.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(q = 4, k = 4, cos = 3, sin = 3)]
    pub unsafe fn rope_in_place<
        E: ElementType,
        C: ElementType,
        const ROWS: i32,
        const HEADS: i32,
        const K_ROWS: i32,
        const K_HEADS: i32,
        const BLOCK: i32,
        const HALF: i32,
        const UNIT: bool,
        const EXACT: bool,
        const FAR: bool,
    >(
        q: *mut E,
        q_n0: i32,
        q_n1: i32,
        q_n2: i32,
        q_n3: i32,
        q_s0: i32,
        q_s1: i32,
        q_s2: i32,
        q_s3: i32,
        k: *mut E,
        k_n0: i32,
        k_n1: i32,
        k_n2: i32,
        k_n3: i32,
        k_s0: i32,
        k_s1: i32,
        k_s2: i32,
        k_s3: i32,
        cos: *mut C,
        cos_n0: i32,
        cos_n1: i32,
        cos_n2: i32,
        cos_s0: i32,
        cos_s1: i32,
        cos_s2: i32,
        sin: *mut C,
        sin_n0: i32,
        sin_n1: i32,
        sin_n2: i32,
        sin_s0: i32,
        sin_s1: i32,
        sin_s2: i32,
    ) {
        let pid: (i32, i32, i32) = get_tile_block_id();
        let at: (i32, i32, i32) = placed::<FAR>(q_n0, q_n2, ROWS / HEADS);
        let q_head: i32 = pid.0 * HEADS;
        let q_mask: Tile<bool, { [ROWS, BLOCK] }> = exist::<ROWS, HEADS, BLOCK>(at.2, q_n1 - q_head, HALF);
        let q_base: PointerTile<*mut E, { [] }> = pointer_to_tile(q);
        let q_rows: Tile<i64, { [ROWS] }> = rows::<ROWS, HEADS>(at.0, q_s0, at.1, q_s2, q_head, q_s1);
        let q_halves: (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>) =
            halves::<E, ROWS, BLOCK, HALF, UNIT, EXACT>(q_base, q_rows, q_s3, q_mask);
        let q_cos: Tile<f32, { [ROWS, BLOCK] }> =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let q_sin: Tile<f32, { [ROWS, BLOCK] }> =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let k_head: i32 = pid.0 * K_HEADS;
        let k_mask: Tile<bool, { [K_ROWS, BLOCK] }> = exist::<K_ROWS, K_HEADS, BLOCK>(at.2, k_n1 - k_head, HALF);
        let k_base: PointerTile<*mut E, { [] }> = pointer_to_tile(k);
        let k_rows: Tile<i64, { [K_ROWS] }> = rows::<K_ROWS, K_HEADS>(at.0, k_s0, at.1, k_s2, k_head, k_s1);
        let k_halves: (Tile<E, { [K_ROWS, BLOCK] }>, Tile<E, { [K_ROWS, BLOCK] }>) =
            halves::<E, K_ROWS, BLOCK, HALF, UNIT, EXACT>(k_base, k_rows, k_s3, k_mask);
        let k_cos: Tile<f32, { [K_ROWS, BLOCK] }> =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let k_sin: Tile<f32, { [K_ROWS, BLOCK] }> =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        rotate::<E, ROWS, BLOCK, HALF, UNIT, EXACT, false>(q_base, q_rows, q_s3, q_halves, q_cos, q_sin, q_mask);
        rotate::<E, K_ROWS, BLOCK, HALF, UNIT, EXACT, false>(k_base, k_rows, k_s3, k_halves, k_cos, k_sin, k_mask);
    }

    /// The rotation back, of gradients dq and dk into others: everything else as in `rope_in_place`.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(grad_q = 4, grad_k = 4, dq = 4, dk = 4, cos = 3, sin = 3)]
    pub unsafe fn rope_backward<
        E: ElementType,
        C: ElementType,
        const ROWS: i32,
        const HEADS: i32,
        const K_ROWS: i32,
        const K_HEADS: i32,
        const BLOCK: i32,
        const HALF: i32,
        const UNIT: bool,
        const EXACT: bool,
        const FAR: bool,
    >(
        grad_q: *mut E,
        grad_q_n0: i32,
        grad_q_n1: i32,
        grad_q_n2: i32,
        grad_q_n3: i32,
        grad_q_s0: i32,
        grad_q_s1: i32,
        grad_q_s2: i32,
        grad_q_s3: i32,
        grad_k: *mut E,
        grad_k_n0: i32,
        grad_k_n1: i32,
        grad_k_n2: i32,
        grad_k_n3: i32,
        grad_k_s0: i32,
        grad_k_s1: i32,
        grad_k_s2: i32,
        grad_k_s3: i32,
        dq: *mut E,
        dq_n0: i32,
        dq_n1: i32,
        dq_n2: i32,
        dq_n3: i32,
        dq_s0: i32,
        dq_s1: i32,
        dq_s2: i32,
        dq_s3: i32,
        dk: *mut E,
        dk_n0: i32,
        dk_n1: i32,
        dk_n2: i32,
        dk_n3: i32,
        dk_s0: i32,
        dk_s1: i32,
        dk_s2: i32,
        dk_s3: i32,
        cos: *mut C,
        cos_n0: i32,
        cos_n1: i32,
        cos_n2: i32,
        cos_s0: i32,
        cos_s1: i32,
        cos_s2: i32,
        sin: *mut C,
        sin_n0: i32,
        sin_n1: i32,
        sin_n2: i32,
        sin_s0: i32,
        sin_s1: i32,
        sin_s2: i32,
    ) {
        let pid: (i32, i32, i32) = get_tile_block_id();
        let at: (i32, i32, i32) = placed::<FAR>(dq_n0, dq_n2, ROWS / HEADS);
        let q_head: i32 = pid.0 * HEADS;
        let q_mask: Tile<bool, { [ROWS, BLOCK] }> = exist::<ROWS, HEADS, BLOCK>(at.2, dq_n1 - q_head, HALF);
        let q_base: PointerTile<*mut E, { [] }> = pointer_to_tile(dq);
        let q_rows: Tile<i64, { [ROWS] }> = rows::<ROWS, HEADS>(at.0, dq_s0, at.1, dq_s2, q_head, dq_s1);
        let q_halves: (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>) =
            halves::<E, ROWS, BLOCK, HALF, UNIT, EXACT>(q_base, q_rows, dq_s3, q_mask);
        let q_cos: Tile<f32, { [ROWS, BLOCK] }> =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let q_sin: Tile<f32, { [ROWS, BLOCK] }> =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let k_head: i32 = pid.0 * K_HEADS;
        let k_mask: Tile<bool, { [K_ROWS, BLOCK] }> = exist::<K_ROWS, K_HEADS, BLOCK>(at.2, dk_n1 - k_head, HALF);
        let k_base: PointerTile<*mut E, { [] }> = pointer_to_tile(dk);
        let k_rows: Tile<i64, { [K_ROWS] }> = rows::<K_ROWS, K_HEADS>(at.0, dk_s0, at.1, dk_s2, k_head, dk_s1);
        let k_halves: (Tile<E, { [K_ROWS, BLOCK] }>, Tile<E, { [K_ROWS, BLOCK] }>) =
            halves::<E, K_ROWS, BLOCK, HALF, UNIT, EXACT>(k_base, k_rows, dk_s3, k_mask);
        let k_cos: Tile<f32, { [K_ROWS, BLOCK] }> =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let k_sin: Tile<f32, { [K_ROWS, BLOCK] }> =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let q_base: PointerTile<*mut E, { [] }> = pointer_to_tile(grad_q);
        let q_rows: Tile<i64, { [ROWS] }> = rows::<ROWS, HEADS>(at.0, grad_q_s0, at.1, grad_q_s2, q_head, grad_q_s1);
        rotate::<E, ROWS, BLOCK, HALF, UNIT, EXACT, true>(q_base, q_rows, grad_q_s3, q_halves, q_cos, q_sin, q_mask);
        let k_base: PointerTile<*mut E, { [] }> = pointer_to_tile(grad_k);
        let k_rows: Tile<i64, { [K_ROWS] }> =
            rows::<K_ROWS, K_HEADS>(at.0, grad_k_s0, at.1, grad_k_s2, k_head, grad_k_s1);
        rotate::<E, K_ROWS, BLOCK, HALF, UNIT, EXACT, true>(k_base, k_rows, grad_k_s3, k_halves, k_cos, k_sin, k_mask);
    }
}
