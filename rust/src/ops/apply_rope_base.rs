// SPDX-License-Identifier: MIT
//! Rotary position embedding: the first 2 * HALF elements of each head, as two halves, rotated against each other.
//!
//! A block has a tile of positions and heads of q, a row each, and of the same positions as many heads of k as belong to
//! them. Stores wait for all loads by a token: without it the compiler loads k, or half of q, after q's stores to spare
//! registers, and memory is waited for twice. Blocks of the same positions follow one another, so that tables stay in L2,
//! and heads of a position are neighbours in what a projection writes.

#[cutile::module]
pub mod apply_rope_base {
    use crate::device::rotary::rotary::*;
    use cutile::core::*;

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
        let q_halves: (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>, Token) =
            halves::<E, ROWS, BLOCK, HALF, UNIT, EXACT>(q_base, q_rows, q_s3, q_mask);
        let q_cos: (Tile<C, { [ROWS, BLOCK] }>, Token) =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let q_sin: (Tile<C, { [ROWS, BLOCK] }>, Token) =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let k_head: i32 = pid.0 * K_HEADS;
        let k_mask: Tile<bool, { [K_ROWS, BLOCK] }> = exist::<K_ROWS, K_HEADS, BLOCK>(at.2, k_n1 - k_head, HALF);
        let k_base: PointerTile<*mut E, { [] }> = pointer_to_tile(k);
        let k_rows: Tile<i64, { [K_ROWS] }> = rows::<K_ROWS, K_HEADS>(at.0, k_s0, at.1, k_s2, k_head, k_s1);
        let k_halves: (Tile<E, { [K_ROWS, BLOCK] }>, Tile<E, { [K_ROWS, BLOCK] }>, Token) =
            halves::<E, K_ROWS, BLOCK, HALF, UNIT, EXACT>(k_base, k_rows, k_s3, k_mask);
        let k_cos: (Tile<C, { [K_ROWS, BLOCK] }>, Token) =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let k_sin: (Tile<C, { [K_ROWS, BLOCK] }>, Token) =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let read: Token = join_tokens(&[q_halves.2, k_halves.2, q_cos.1, q_sin.1, k_cos.1, k_sin.1]);
        rotate::<E, C, ROWS, BLOCK, HALF, UNIT, EXACT, false>(
            q_base, q_rows, q_s3, q_halves, q_cos, q_sin, q_mask, read,
        );
        rotate::<E, C, K_ROWS, BLOCK, HALF, UNIT, EXACT, false>(
            k_base, k_rows, k_s3, k_halves, k_cos, k_sin, k_mask, read,
        );
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
        let q_halves: (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>, Token) =
            halves::<E, ROWS, BLOCK, HALF, UNIT, EXACT>(q_base, q_rows, dq_s3, q_mask);
        let q_cos: (Tile<C, { [ROWS, BLOCK] }>, Token) =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let q_sin: (Tile<C, { [ROWS, BLOCK] }>, Token) =
            table::<C, ROWS, HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let k_head: i32 = pid.0 * K_HEADS;
        let k_mask: Tile<bool, { [K_ROWS, BLOCK] }> = exist::<K_ROWS, K_HEADS, BLOCK>(at.2, dk_n1 - k_head, HALF);
        let k_base: PointerTile<*mut E, { [] }> = pointer_to_tile(dk);
        let k_rows: Tile<i64, { [K_ROWS] }> = rows::<K_ROWS, K_HEADS>(at.0, dk_s0, at.1, dk_s2, k_head, dk_s1);
        let k_halves: (Tile<E, { [K_ROWS, BLOCK] }>, Tile<E, { [K_ROWS, BLOCK] }>, Token) =
            halves::<E, K_ROWS, BLOCK, HALF, UNIT, EXACT>(k_base, k_rows, dk_s3, k_mask);
        let k_cos: (Tile<C, { [K_ROWS, BLOCK] }>, Token) =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(cos, (cos_s0, cos_s1, cos_s2), at);
        let k_sin: (Tile<C, { [K_ROWS, BLOCK] }>, Token) =
            table::<C, K_ROWS, K_HEADS, BLOCK, HALF, UNIT, EXACT>(sin, (sin_s0, sin_s1, sin_s2), at);
        let read: Token = join_tokens(&[q_halves.2, k_halves.2, q_cos.1, q_sin.1, k_cos.1, k_sin.1]);
        let q_base: PointerTile<*mut E, { [] }> = pointer_to_tile(grad_q);
        let q_rows: Tile<i64, { [ROWS] }> = rows::<ROWS, HEADS>(at.0, grad_q_s0, at.1, grad_q_s2, q_head, grad_q_s1);
        rotate::<E, C, ROWS, BLOCK, HALF, UNIT, EXACT, true>(
            q_base, q_rows, grad_q_s3, q_halves, q_cos, q_sin, q_mask, read,
        );
        let k_base: PointerTile<*mut E, { [] }> = pointer_to_tile(grad_k);
        let k_rows: Tile<i64, { [K_ROWS] }> =
            rows::<K_ROWS, K_HEADS>(at.0, grad_k_s0, at.1, grad_k_s2, k_head, grad_k_s1);
        rotate::<E, C, K_ROWS, BLOCK, HALF, UNIT, EXACT, true>(
            k_base, k_rows, grad_k_s3, k_halves, k_cos, k_sin, k_mask, read,
        );
    }
}
