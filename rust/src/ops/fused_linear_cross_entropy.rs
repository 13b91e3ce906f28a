// SPDX-License-Identifier: MIT
//! Cross entropy of rows of logits against targets, in f32, and its sum or mean.
//!
//! The logits are read once and nothing is written but a loss per row. Each lane keeps a maximum of its own and a sum
//! relative to it: taken anew for every SLICES elements, so that an element costs one exponential and little more.

#[cutile::module]
pub mod fused_linear_cross_entropy {
    use crate::device::exponents::exponents::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// The logit of column `at`, where `there`.
    fn picked<E: ElementType>(
        base: PointerTile<*mut E, { [] }>,
        at: Tile<i64, { [1] }>,
        there: Tile<bool, { [1] }>,
    ) -> Tile<f32, { [1] }> {
        let p: PointerTile<*mut E, { [1] }> = element_pointers(base, at);
        let t: Tile<E, { [1] }> = gather(p, there);
        convert_tile(t)
    }

    /// Targets first .. first + COUNT, `ignored` where there is none.
    fn targets<const COUNT: i32>(
        base: PointerTile<*mut i64, { [] }>,
        first: i32,
        stride: i32,
        rows: i32,
        ignored: i64,
    ) -> Tile<i64, { [COUNT] }> {
        let i: Tile<i32, { [COUNT] }> = iota(shape![COUNT]);
        let i: Tile<i32, { [COUNT] }> = i + first.broadcast(shape![COUNT]);
        let offsets: Tile<i64, { [COUNT] }> = offsets_of(i, stride);
        let at: PointerTile<*mut i64, { [COUNT] }> = element_pointers(base, offsets);
        let there: Tile<bool, { [COUNT] }> = lt_tile(i, rows.broadcast(shape![COUNT]));
        let t: Tile<i64, { [COUNT] }> = gather(at, there);
        let none: Tile<i64, { [COUNT] }> = ignored.broadcast(shape![COUNT]);
        select(there, t, none)
    }

    /// loss[row] of logits (rows, V), last stride 1; 0 where the target is `ignored`. A target below 0 counts as 0, one
    /// that is no column makes the loss NaN. Chunks of SLICES * BLOCK columns, both powers of two; the grid is
    /// (rows, 1, 1). EXACT promises that V is a multiple of a chunk.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(loss = 1, logits = 2, target = 1)]
    pub unsafe fn cross_entropy_rows<E: ElementType, const SLICES: i32, const BLOCK: i32, const EXACT: bool>(
        loss: *mut f32,
        loss_n0: i32,
        loss_s0: i32,
        logits: *mut E,
        logits_n0: i32,
        logits_n1: i32,
        logits_s0: i32,
        logits_s1: i32,
        target: *mut i64,
        target_n0: i32,
        target_s0: i32,
        ignored: i64,
    ) {
        let full: Shape<{ [SLICES, BLOCK] }> = shape![SLICES, BLOCK];
        let lanes: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let row: i32 = get_tile_block_id().0;
        let aims: PointerTile<*mut i64, { [] }> = pointer_to_tile(target);
        let aim: Tile<i64, { [1] }> = targets::<1>(aims, row, target_s0, target_n0, ignored);
        let none: Tile<i64, { [1] }> = ignored.broadcast(shape![1]);
        let counts: Tile<bool, { [1] }> = cmpi(aim, none, predicate::NotEqual);
        let counts_0d: Tile<bool, { [] }> = counts.reshape(shape![]);
        let counted: bool = tile_to_scalar(counts_0d);
        let mut value: Tile<f32, { [1] }> = constant(0.0f32, shape![1]);
        if counted {
            let start: Tile<i64, { [] }> = offset_of(row, logits_s0);
            let base: PointerTile<*mut E, { [] }> = pointer_to_tile(logits);
            let base: PointerTile<*mut E, { [] }> = base.offset_tile(start);
            let zero: Tile<i64, { [1] }> = constant(0i64, shape![1]);
            let aim: Tile<i64, { [1] }> = maxi(aim, zero);
            let width: Tile<i64, { [] }> = wide(logits_n1);
            let width: Tile<i64, { [1] }> = width.reshape(shape![1]);
            let exists: Tile<bool, { [1] }> = lt_tile(aim, width);
            let logit: Tile<f32, { [1] }> = picked(base, aim, exists);

            let slice: Tile<i32, { [SLICES] }> = iota(shape![SLICES]);
            let rows: Tile<i64, { [SLICES] }> = offsets_of(slice, BLOCK);
            let nothing: Tile<f32, { [SLICES, BLOCK] }> = constant(f32::NEG_INFINITY, full);
            // A lane that has seen nothing but -inf measures from the lowest float: its weight is exp2(-inf) = 0.
            let lowest: Tile<f32, { [1, BLOCK] }> = constant(-3.4028234663852886e38f32, lanes);
            let mut top: Tile<f32, { [1, BLOCK] }> = constant(f32::NEG_INFINITY, lanes);
            let mut sum: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, lanes);
            let chunks: i32 = (logits_n1 + SLICES * BLOCK - 1i32) / (SLICES * BLOCK);
            for c in 0i32..chunks {
                let first: i32 = c * (SLICES * BLOCK);
                let at: PointerTile<*mut E, { [SLICES, BLOCK] }> =
                    row_pointers::<E, SLICES, BLOCK, true>(base, rows, first, 1i32);
                let left: Tile<i32, { [SLICES, BLOCK] }> = (logits_n1 - first).broadcast(full);
                let mask: Tile<bool, { [SLICES, BLOCK] }> = lt_tile(tile_offsets::<SLICES, BLOCK>(BLOCK), left);
                let t: Tile<E, { [SLICES, BLOCK] }> = load_masked::<E, SLICES, BLOCK, EXACT>(at, mask);
                let t: Tile<f32, { [SLICES, BLOCK] }> = convert_tile(t);
                let t: Tile<f32, { [SLICES, BLOCK] }> = if EXACT {
                    t
                } else {
                    let u: Tile<f32, { [SLICES, BLOCK] }> = select(mask, t, nothing);
                    u
                };
                let here: Tile<f32, { [BLOCK] }> = reduce_max(t, 0i32);
                let new: Tile<f32, { [1, BLOCK] }> = max_tile(top, here.reshape(lanes));
                let reference: Tile<f32, { [1, BLOCK] }> = max_tile(new, lowest);
                let kept: Tile<f32, { [1, BLOCK] }> = exp_below(top, reference);
                let e: Tile<f32, { [SLICES, BLOCK] }> = exp_below(t, reference.broadcast(full));
                let here: Tile<f32, { [BLOCK] }> = reduce_sum(e, 0i32);
                sum = sum * kept + here.reshape(lanes);
                top = new;
            }
            let row_top: Tile<f32, { [1] }> = reduce_max(top, 1i32);
            let reference: Tile<f32, { [1, BLOCK] }> = row_top.reshape(shape![1, 1]).broadcast(lanes);
            let weight: Tile<f32, { [1, BLOCK] }> = exp_below(top, reference);
            let total: Tile<f32, { [1] }> = reduce_sum(sum * weight, 1i32);
            let entropy: Tile<f32, { [1] }> = row_top - logit + log(total);
            let nan: Tile<f32, { [1] }> = constant(f32::NEG_INFINITY, shape![1]);
            let nan: Tile<f32, { [1] }> = nan - nan;
            value = select(exists, entropy, nan);
        }
        let to: PointerTile<*mut f32, { [] }> = pointer_to_tile(loss);
        let at: Tile<i64, { [] }> = offset_of(row, loss_s0);
        let to: PointerTile<*mut f32, { [] }> = to.offset_tile(at);
        let to: PointerTile<*mut f32, { [1] }> = to.reshape(shape![1]);
        unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
    }

    /// out[0], the sum of the losses, or with MEAN their mean over the targets that are not `ignored` (0 without any).
    /// The grid is (1, 1, 1): one block adds up all rows, BLOCK at a time, always in the same order.
    #[tile::entry(unchecked_accesses = true)]
    #[tile::flattened(out = 1, loss = 1, target = 1)]
    pub unsafe fn cross_entropy_total<const BLOCK: i32, const MEAN: bool>(
        out: *mut f32,
        out_n0: i32,
        out_s0: i32,
        loss: *mut f32,
        loss_n0: i32,
        loss_s0: i32,
        target: *mut i64,
        target_n0: i32,
        target_s0: i32,
        ignored: i64,
    ) {
        let one_row: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let row: Tile<i64, { [1] }> = constant(0i64, shape![1]);
        let aims: PointerTile<*mut i64, { [] }> = pointer_to_tile(target);
        let losses: PointerTile<*mut f32, { [] }> = pointer_to_tile(loss);
        let zero: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, one_row);
        let one: Tile<f32, { [BLOCK] }> = constant(1.0f32, shape![BLOCK]);
        let no: Tile<f32, { [BLOCK] }> = constant(0.0f32, shape![BLOCK]);
        let none: Tile<i64, { [BLOCK] }> = ignored.broadcast(shape![BLOCK]);
        let mut sum: Tile<f32, { [1, BLOCK] }> = zero;
        let mut count: Tile<f32, { [BLOCK] }> = no;
        for c in 0i32..((loss_n0 + BLOCK - 1i32) / BLOCK) {
            let first: i32 = c * BLOCK;
            let at: PointerTile<*mut f32, { [1, BLOCK] }> =
                row_pointers::<f32, 1, BLOCK, true>(losses, row, first, 1i32);
            let mask: Tile<bool, { [1, BLOCK] }> = inside::<1, BLOCK>(1i32, loss_n0 - first);
            let t: Tile<f32, { [1, BLOCK] }> = load_masked::<f32, 1, BLOCK, false>(at, mask);
            sum = sum + select(mask, t, zero);
            if MEAN {
                let aim: Tile<i64, { [BLOCK] }> = targets::<BLOCK>(aims, first, target_s0, loss_n0, ignored);
                let counts: Tile<bool, { [BLOCK] }> = cmpi(aim, none, predicate::NotEqual);
                count = count + select(counts, one, no);
            }
        }
        let total: Tile<f32, { [1] }> = reduce_sum(sum, 1i32);
        let result: Tile<f32, { [1] }> = if MEAN {
            let count: Tile<f32, { [] }> = reduce_sum(count, 0i32);
            let least: Tile<f32, { [1] }> = constant(1.0f32, shape![1]);
            let count: Tile<f32, { [1] }> = max_tile(count.reshape(shape![1]), least);
            let mean: Tile<f32, { [1] }> = total / count;
            mean
        } else {
            total
        };
        let to: PointerTile<*mut f32, { [] }> = pointer_to_tile(out);
        let to: PointerTile<*mut f32, { [1] }> = to.reshape(shape![1]);
        unsafe { store_ptr_tko(to, result, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
    }
}
