// SPDX-License-Identifier: MIT
//! Partial results of an attention whose keys were split, merged by their log-sum-exps (base 2).
//!
//! Next to nothing is computed and little is read: what counts is how few steps wait for one another. Weights and
//! partials are loaded together, and no result is passed through the tensor cores. (One column to a thread, with all of
//! its splits and weights, needs no barrier at all; it was no faster up to 8 splits, and slower beyond.)

#[cutile::module]
pub mod splitk_reduce {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// i * i_stride + j * j_stride.
    fn place(i: i32, i_stride: i32, j: i32, j_stride: i32) -> Tile<i64, { [] }> {
        let i: Tile<i64, { [] }> = offset_of(i, i_stride);
        let j: Tile<i64, { [] }> = offset_of(j, j_stride);
        i + j
    }

    /// Log-sum-exps first .. first + COUNT of those `stride` apart behind `base`, -inf beyond `left` of them.
    fn exponents<L: ElementType, const COUNT: i32>(
        base: PointerTile<*mut L, { [] }>,
        start: Tile<i64, { [] }>,
        stride: i32,
        left: i32,
    ) -> Tile<f32, { [COUNT] }> {
        let i: Tile<i32, { [COUNT] }> = iota(shape![COUNT]);
        let first: PointerTile<*mut L, { [] }> = base.offset_tile(start);
        let offsets: Tile<i64, { [COUNT] }> = offsets_of(i, stride);
        let at: PointerTile<*mut L, { [COUNT] }> = element_pointers(first, offsets);
        let there: Tile<bool, { [COUNT] }> = lt_tile(i, left.broadcast(shape![COUNT]));
        let t: Tile<L, { [COUNT] }> = gather(at, there);
        let t: Tile<f32, { [COUNT] }> = convert_tile(t);
        let nothing: Tile<f32, { [COUNT] }> = constant(f32::NEG_INFINITY, shape![COUNT]);
        select(there, t, nothing)
    }

    /// exp2(exponents - top).
    fn weights<const COUNT: i32>(exponents: Tile<f32, { [COUNT] }>, top: Tile<f32, { [] }>) -> Tile<f32, { [COUNT] }> {
        let top: Tile<f32, { [COUNT] }> = top.reshape(shape![1]).broadcast(shape![COUNT]);
        exp2(exponents - top, ftz::Enabled)
    }

    /// The weighted sum of CHUNK splits from `split` on.
    fn merged<P: ElementType, const CHUNK: i32, const BLOCK: i32, const UNIT: bool, const EXACT: bool>(
        base: PointerTile<*mut P, { [] }>,
        start: Tile<i64, { [] }>,
        split_stride: i32,
        splits_left: i32,
        column: i32,
        column_stride: i32,
        columns_left: i32,
        weights: Tile<f32, { [CHUNK] }>,
    ) -> Tile<f32, { [BLOCK] }> {
        let rows: Tile<i64, { [CHUNK] }> = row_offsets::<CHUNK>(start, split_stride);
        let at: PointerTile<*mut P, { [CHUNK, BLOCK] }> =
            row_pointers::<P, CHUNK, BLOCK, UNIT>(base, rows, column, column_stride);
        let mask: Tile<bool, { [CHUNK, BLOCK] }> = inside::<CHUNK, BLOCK>(splits_left, columns_left);
        let t: Tile<f32, { [CHUNK, BLOCK] }> = load_padded::<P, CHUNK, BLOCK, EXACT>(at, mask);
        let w: Tile<f32, { [CHUNK, BLOCK] }> = weights.reshape(shape![CHUNK, 1]).broadcast(shape![CHUNK, BLOCK]);
        reduce_sum(t * w, 0i32)
    }

    /// out (B, H, D) of partials (B, H, splits, D) and lse (B, H, splits). SPLITS, a power of two, is at least the
    /// number of splits; they are taken CHUNK at a time, all at once where CHUNK == SPLITS (ONCE). The grid is
    /// (B, H, ceil(D / BLOCK)). UNIT promises that last strides of out and partials are 1; EXACT that there are SPLITS
    /// splits, ONCE, and D is a multiple of BLOCK.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(out = 3, partials = 4, lse = 3)]
    pub unsafe fn splitk_reduce<
        E: ElementType,
        P: ElementType,
        L: ElementType,
        const SPLITS: i32,
        const CHUNK: i32,
        const BLOCK: i32,
        const ONCE: bool,
        const UNIT: bool,
        const EXACT: bool,
    >(
        out: *mut E,
        out_n0: i32,
        out_n1: i32,
        out_n2: i32,
        out_s0: i32,
        out_s1: i32,
        out_s2: i32,
        partials: *mut P,
        partials_n0: i32,
        partials_n1: i32,
        partials_n2: i32,
        partials_n3: i32,
        partials_s0: i32,
        partials_s1: i32,
        partials_s2: i32,
        partials_s3: i32,
        lse: *mut L,
        lse_n0: i32,
        lse_n1: i32,
        lse_n2: i32,
        lse_s0: i32,
        lse_s1: i32,
        lse_s2: i32,
    ) {
        let pid: (i32, i32, i32) = get_tile_block_id();
        let column: i32 = pid.2 * BLOCK;
        let left: i32 = out_n2 - column;
        let base: PointerTile<*mut P, { [] }> = pointer_to_tile(partials);
        let start: Tile<i64, { [] }> = place(pid.0, partials_s0, pid.1, partials_s1);
        let lse_base: PointerTile<*mut L, { [] }> = pointer_to_tile(lse);
        let lse_start: Tile<i64, { [] }> = place(pid.0, lse_s0, pid.1, lse_s1);
        let all: Tile<f32, { [SPLITS] }> = exponents::<L, SPLITS>(lse_base, lse_start, lse_s2, partials_n2);
        let top: Tile<f32, { [] }> = reduce_max(all, 0i32);
        let w: Tile<f32, { [SPLITS] }> = weights(all, top);
        let total: Tile<f32, { [] }> = reduce_sum(w, 0i32);
        let acc: Tile<f32, { [BLOCK] }> = if ONCE {
            let acc: Tile<f32, { [BLOCK] }> = merged::<P, SPLITS, BLOCK, UNIT, EXACT>(
                base,
                start,
                partials_s2,
                partials_n2,
                column,
                partials_s3,
                left,
                w,
            );
            acc
        } else {
            let mut acc: Tile<f32, { [BLOCK] }> = constant(0.0f32, shape![BLOCK]);
            for c in 0i32..(SPLITS / CHUNK) {
                let split: i32 = c * CHUNK;
                let skipped: Tile<i64, { [] }> = offset_of(split, lse_s2);
                let from: Tile<i64, { [] }> = lse_start + skipped;
                let some: Tile<f32, { [CHUNK] }> = exponents::<L, CHUNK>(lse_base, from, lse_s2, partials_n2 - split);
                let w: Tile<f32, { [CHUNK] }> = weights(some, top);
                let skipped: Tile<i64, { [] }> = offset_of(split, partials_s2);
                let from: Tile<i64, { [] }> = start + skipped;
                let here: Tile<f32, { [BLOCK] }> = merged::<P, CHUNK, BLOCK, UNIT, EXACT>(
                    base,
                    from,
                    partials_s2,
                    partials_n2 - split,
                    column,
                    partials_s3,
                    left,
                    w,
                );
                acc = acc + here;
            }
            acc
        };
        let total: Tile<f32, { [BLOCK] }> = total.reshape(shape![1]).broadcast(shape![BLOCK]);
        let y: Tile<f32, { [BLOCK] }> = true_div(acc, total);
        let y: Tile<E, { [BLOCK] }> = convert_tile(y);
        let y: Tile<E, { [1, BLOCK] }> = y.reshape(shape![1, BLOCK]);
        let row: Tile<i64, { [] }> = place(pid.0, out_s0, pid.1, out_s1);
        let row: Tile<i64, { [1] }> = row.reshape(shape![1]);
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(out);
        let to: PointerTile<*mut E, { [1, BLOCK] }> = row_pointers::<E, 1, BLOCK, UNIT>(base, row, column, out_s2);
        let mask: Tile<bool, { [1, BLOCK] }> = inside::<1, BLOCK>(1i32, left);
        store_masked::<E, 1, BLOCK, EXACT>(to, y, mask);
    }
}
