// SPDX-License-Identifier: MIT
//! (x - mean) / sqrt(variance + eps) * (weight + shift) + bias over the middle axis of (groups, depth, behind),
//! computed in f32, everything without gaps.
//!
//! A block has strips of BLOCK elements of the last axis over the whole depth: read once and kept in registers where
//! that fits, else read twice. With nothing behind the depth the kernels are `layer_norm_legacy`'s.

#[cutile::module]
pub mod layer_norm {
    use crate::device::memory::memory::*;
    use crate::device::moments::moments::*;
    use crate::device::rows::rows::*;
    use cutile::core::*;

    /// DEPTH >= depth; `behind` is a multiple of ALIGN elements, which are at most 16 bytes. EXACT promises that no
    /// tile overhangs: depth == DEPTH, behind a multiple of BLOCK. `share` is 1 / depth. The grid is (groups *
    /// ceil(behind / BLOCK), 1, 1).
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn layer_norm_strips<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const DEPTH: i32,
        const BLOCK: i32,
        const ALIGN: i32,
        const EXACT: bool,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        depth: i32,
        behind: i32,
        share: f32,
        eps: f32,
        shift: f32,
    ) {
        let tile: Shape<{ [DEPTH, BLOCK] }> = shape![DEPTH, BLOCK];
        let behind: i32 = unsafe { assume_div_by::<_, ALIGN>(behind) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let strips: i32 = ceil_div(behind, BLOCK);
        let group: i32 = pid.0 / strips;
        let first: i32 = (pid.0 - group * strips) * BLOCK;
        let left: i32 = behind - first;
        let start: Tile<i64, { [] }> = strip_offset(group, depth, behind, first);
        let f: Tile<f32, { [DEPTH, BLOCK] }> =
            load_rows::<E, DEPTH, DEPTH, BLOCK, EXACT>(x, start, behind, depth, left);
        let w: Tile<f32, { [DEPTH, 1] }> =
            load_rows::<W, DEPTH, DEPTH, 1, EXACT>(weight, wide(0i32), 1i32, depth, 1i32);
        let b: Tile<f32, { [DEPTH, 1] }> = load_rows::<B, DEPTH, DEPTH, 1, EXACT>(bias, wide(0i32), 1i32, depth, 1i32);
        let w: Tile<f32, { [DEPTH, 1] }> = w + shift.broadcast(shape![DEPTH, 1]);
        let mean: Tile<f32, { [BLOCK] }> = column_mean(f, depth, share);
        let mean: Tile<f32, { [DEPTH, BLOCK] }> = over_rows::<DEPTH, BLOCK>(mean);
        let there: Tile<bool, { [DEPTH, BLOCK] }> = rows_inside::<DEPTH, DEPTH, BLOCK>(depth, left);
        let off: Tile<f32, { [DEPTH, BLOCK] }> = off_mean::<DEPTH, BLOCK, EXACT>(f, mean, there);
        let square: Tile<f32, { [DEPTH, BLOCK] }> = off * off;
        let variance: Tile<f32, { [BLOCK] }> = column_mean(square, depth, share);
        let r: Tile<f32, { [BLOCK] }> = inverse_root(variance, eps);
        let r: Tile<f32, { [DEPTH, BLOCK] }> = over_rows::<DEPTH, BLOCK>(r);
        let y: Tile<f32, { [DEPTH, BLOCK] }> = scaled(off * r, w.broadcast(tile), b.broadcast(tile));
        store_rows::<E, DEPTH, DEPTH, BLOCK, EXACT>(out, y, start, behind, depth, left);
    }

    /// Any depth, DEPTH of it at a time; the rest is `layer_norm_strips`'.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn layer_norm_deep<
        E: ElementType,
        W: ElementType,
        B: ElementType,
        const DEPTH: i32,
        const BLOCK: i32,
        const ALIGN: i32,
    >(
        out: *mut E,
        x: *mut E,
        weight: *mut W,
        bias: *mut B,
        depth: i32,
        behind: i32,
        share: f32,
        eps: f32,
        shift: f32,
    ) {
        let tile: Shape<{ [DEPTH, BLOCK] }> = shape![DEPTH, BLOCK];
        let behind: i32 = unsafe { assume_div_by::<_, ALIGN>(behind) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let strips: i32 = ceil_div(behind, BLOCK);
        let group: i32 = pid.0 / strips;
        let first: i32 = (pid.0 - group * strips) * BLOCK;
        let left: i32 = behind - first;
        let start: Tile<i64, { [] }> = strip_offset(group, depth, behind, first);
        let mut count: Tile<f32, { [DEPTH, BLOCK] }> = constant(0.0f32, tile);
        let mut mean: Tile<f32, { [DEPTH, BLOCK] }> = constant(0.0f32, tile);
        let mut squares: Tile<f32, { [DEPTH, BLOCK] }> = constant(0.0f32, tile);
        for level in (0i32..depth).step_by(DEPTH as usize) {
            let under: i32 = depth - level;
            let at: Tile<i64, { [] }> = start + offset_of(level, behind);
            let f: Tile<f32, { [DEPTH, BLOCK] }> =
                load_rows::<E, DEPTH, DEPTH, BLOCK, false>(x, at, behind, under, left);
            let there: Tile<bool, { [DEPTH, BLOCK] }> = rows_inside::<DEPTH, DEPTH, BLOCK>(under, left);
            let more: (Tile<f32, { [DEPTH, BLOCK] }>, Tile<f32, { [DEPTH, BLOCK] }>, Tile<f32, { [DEPTH, BLOCK] }>) =
                counted(count, mean, squares, f, there);
            count = more.0;
            mean = more.1;
            squares = more.2;
        }
        let sum: Tile<f32, { [DEPTH, BLOCK] }> = count * mean;
        let center: Tile<f32, { [BLOCK] }> = column_mean(sum, depth, share);
        let center: Tile<f32, { [DEPTH, BLOCK] }> = over_rows::<DEPTH, BLOCK>(center);
        let square: Tile<f32, { [DEPTH, BLOCK] }> = squares_around(count, mean, squares, center);
        let variance: Tile<f32, { [BLOCK] }> = column_mean(square, depth, share);
        let r: Tile<f32, { [BLOCK] }> = inverse_root(variance, eps);
        let r: Tile<f32, { [DEPTH, BLOCK] }> = over_rows::<DEPTH, BLOCK>(r);
        for level in (0i32..depth).step_by(DEPTH as usize) {
            let under: i32 = depth - level;
            let at: Tile<i64, { [] }> = start + offset_of(level, behind);
            let f: Tile<f32, { [DEPTH, BLOCK] }> =
                load_rows::<E, DEPTH, DEPTH, BLOCK, false>(x, at, behind, under, left);
            let w: Tile<f32, { [DEPTH, 1] }> =
                load_rows::<W, DEPTH, DEPTH, 1, false>(weight, wide(level), 1i32, under, 1i32);
            let b: Tile<f32, { [DEPTH, 1] }> =
                load_rows::<B, DEPTH, DEPTH, 1, false>(bias, wide(level), 1i32, under, 1i32);
            let w: Tile<f32, { [DEPTH, 1] }> = w + shift.broadcast(shape![DEPTH, 1]);
            let y: Tile<f32, { [DEPTH, BLOCK] }> = scaled((f - center) * r, w.broadcast(tile), b.broadcast(tile));
            store_rows::<E, DEPTH, DEPTH, BLOCK, false>(out, y, at, behind, under, left);
        }
    }

    /// (group * depth) * behind + first, where a strip begins, in 64 bits.
    fn strip_offset(group: i32, depth: i32, behind: i32, first: i32) -> Tile<i64, { [] }> {
        let above: Tile<i64, { [] }> = offset_of(group, depth);
        let behind: Tile<i64, { [] }> = wide(behind);
        let first: Tile<i64, { [] }> = wide(first);
        above * behind + first
    }
}
