// SPDX-License-Identifier: MIT
//! Tiles of heads of positions: where they lie, both halves of each head read, rotated against each other, written.

#[cutile::module]
pub mod rotary {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// The block's batch, its first position, and how many positions there are from there on. Positions lie along the
    /// grid's second axis, batches along the third, or, FAR, both along both, because those axes end at 65535.
    pub fn placed<const FAR: bool>(batches: i32, positions: i32, tile: i32) -> (i32, i32, i32) {
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
    pub fn rows<const ROWS: i32, const HEADS: i32>(
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
    pub fn exist<const ROWS: i32, const HEADS: i32, const BLOCK: i32>(
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

    /// A tile, and its load's token; undetermined where the mask is false. EXACT promises that it is true throughout.
    fn read<E: ElementType, const ROWS: i32, const BLOCK: i32, const EXACT: bool>(
        from: PointerTile<*mut E, { [ROWS, BLOCK] }>,
        mask: Tile<bool, { [ROWS, BLOCK] }>,
    ) -> (Tile<E, { [ROWS, BLOCK] }>, Token) {
        if EXACT {
            let found: (Tile<E, { [ROWS, BLOCK] }>, Token) =
                unsafe { load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
            found
        } else {
            let found: (Tile<E, { [ROWS, BLOCK] }>, Token) = unsafe {
                load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>)
            };
            found
        }
    }

    /// Both halves of the rows of a tile, and their loads' token.
    pub fn halves<
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
    ) -> (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>, Token) {
        let a: PointerTile<*mut E, { [ROWS, BLOCK] }> = row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, 0i32, stride);
        let b: PointerTile<*mut E, { [ROWS, BLOCK] }> = row_pointers::<E, ROWS, BLOCK, UNIT>(base, rows, HALF, stride);
        let a: (Tile<E, { [ROWS, BLOCK] }>, Token) = read::<E, ROWS, BLOCK, EXACT>(a, mask);
        let b: (Tile<E, { [ROWS, BLOCK] }>, Token) = read::<E, ROWS, BLOCK, EXACT>(b, mask);
        let read: Token = join_tokens(&[a.1, b.1]);
        (a.0, b.0, read)
    }

    /// A tile's rows of a table (B, S, columns), which all heads share, and their load's token.
    pub fn table<
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
    ) -> (Tile<C, { [ROWS, BLOCK] }>, Token) {
        let base: PointerTile<*mut C, { [] }> = pointer_to_tile(base);
        let rows: Tile<i64, { [ROWS] }> = rows::<ROWS, HEADS>(at.0, strides.0, at.1, strides.1, 0i32, 0i32);
        let mask: Tile<bool, { [ROWS, BLOCK] }> = exist::<ROWS, HEADS, BLOCK>(at.2, HEADS, HALF);
        let from: PointerTile<*mut C, { [ROWS, BLOCK] }> =
            row_pointers::<C, ROWS, BLOCK, UNIT>(base, rows, 0i32, strides.2);
        read::<C, ROWS, BLOCK, EXACT>(from, mask)
    }

    /// Writes both halves, rotated against each other, behind what `read` stands for.
    pub fn rotate<
        E: ElementType,
        C: ElementType,
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
        halves: (Tile<E, { [ROWS, BLOCK] }>, Tile<E, { [ROWS, BLOCK] }>, Token),
        cos: (Tile<C, { [ROWS, BLOCK] }>, Token),
        sin: (Tile<C, { [ROWS, BLOCK] }>, Token),
        mask: Tile<bool, { [ROWS, BLOCK] }>,
        read: Token,
    ) {
        let a: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(halves.0);
        let b: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(halves.1);
        let cos: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(cos.0);
        let sin: Tile<f32, { [ROWS, BLOCK] }> = convert_tile(sin.0);
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
        store_behind::<E, ROWS, BLOCK, EXACT>(to_a, y, mask, read);
        store_behind::<E, ROWS, BLOCK, EXACT>(to_b, z, mask, read);
    }
}
