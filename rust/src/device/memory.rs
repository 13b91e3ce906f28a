// SPDX-License-Identifier: MIT
//! Tiles read and written through pointers, which all kernels that do so share: 64-bit offsets, the row and the column
//! of each element of a tile, masks, and masked loads and stores.
//!
//! A masked load through pointers is predicated, so that all of a thread's loads are in flight at once; a padded view's
//! is a branch around each vector. How wide a load is follows from what a kernel promises of its extents
//! (`assume_div_by`, or the facts about strides that come with `#[tile::flattened]`).

#[cutile::module]
pub mod memory {
    use cutile::core::*;

    /// A scalar in 64 bits.
    pub fn wide(n: i32) -> Tile<i64, { [] }> {
        let t: Tile<i32, { [] }> = scalar_to_tile(n);
        exti(t)
    }

    /// index * stride in 64 bits: a tensor may hold more than 2^31 elements.
    pub fn offset_of(index: i32, stride: i32) -> Tile<i64, { [] }> {
        let index: Tile<i64, { [] }> = wide(index);
        let stride: Tile<i64, { [] }> = wide(stride);
        index * stride
    }

    /// The same of every index.
    pub fn offsets_of<const N: i32>(indices: Tile<i32, { [N] }>, stride: i32) -> Tile<i64, { [N] }> {
        let indices: Tile<i64, { [N] }> = exti(indices);
        let stride: Tile<i64, { [] }> = wide(stride);
        let stride: Tile<i64, { [N] }> = stride.reshape(shape![1]).broadcast(shape![N]);
        indices * stride
    }

    /// row * pitch + column, the offset of an element of a matrix whose rows are `pitch` apart.
    pub fn matrix_offset(row: i32, pitch: i32, column: i32) -> Tile<i64, { [] }> {
        let start: Tile<i64, { [] }> = offset_of(row, pitch);
        let column: Tile<i64, { [] }> = wide(column);
        start + column
    }

    /// Offsets of rows 0 .. ROWS, `stride` apart, behind `start`.
    pub fn row_offsets<const ROWS: i32>(start: Tile<i64, { [] }>, stride: i32) -> Tile<i64, { [ROWS] }> {
        let start: Tile<i64, { [ROWS] }> = start.reshape(shape![1]).broadcast(shape![ROWS]);
        let row: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        let down: Tile<i64, { [ROWS] }> = offsets_of(row, stride);
        start + down
    }

    /// Each element's row in its tile.
    pub fn row_indices<const ROWS: i32, const COLS: i32>() -> Tile<i32, { [ROWS, COLS] }> {
        let r: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        r.reshape(shape![ROWS, 1]).broadcast(shape![ROWS, COLS])
    }

    /// Each element's column in its tile.
    pub fn column_indices<const ROWS: i32, const COLS: i32>() -> Tile<i32, { [ROWS, COLS] }> {
        let c: Tile<i32, { [COLS] }> = iota(shape![COLS]);
        c.reshape(shape![1, COLS]).broadcast(shape![ROWS, COLS])
    }

    /// Each element's offset from the first one of a tile whose rows are `pitch` apart.
    pub fn tile_offsets<const ROWS: i32, const COLS: i32>(pitch: i32) -> Tile<i32, { [ROWS, COLS] }> {
        let row: Tile<i32, { [ROWS, COLS] }> = row_indices::<ROWS, COLS>();
        let column: Tile<i32, { [ROWS, COLS] }> = column_indices::<ROWS, COLS>();
        let pitch: Tile<i32, { [ROWS, COLS] }> = pitch.broadcast(shape![ROWS, COLS]);
        row * pitch + column
    }

    /// Which elements lie in the first `rows` rows and `columns` columns, given each one's row and column.
    pub fn below<const ROWS: i32, const COLS: i32>(
        row: Tile<i32, { [ROWS, COLS] }>,
        column: Tile<i32, { [ROWS, COLS] }>,
        rows: i32,
        columns: i32,
    ) -> Tile<bool, { [ROWS, COLS] }> {
        let rows: Tile<i32, { [ROWS, COLS] }> = rows.broadcast(shape![ROWS, COLS]);
        let columns: Tile<i32, { [ROWS, COLS] }> = columns.broadcast(shape![ROWS, COLS]);
        lt_tile(row, rows) & lt_tile(column, columns)
    }

    /// Which elements of a tile lie in its first `rows` rows and `columns` columns.
    pub fn inside<const ROWS: i32, const COLS: i32>(rows: i32, columns: i32) -> Tile<bool, { [ROWS, COLS] }> {
        let row: Tile<i32, { [ROWS, COLS] }> = row_indices::<ROWS, COLS>();
        let column: Tile<i32, { [ROWS, COLS] }> = column_indices::<ROWS, COLS>();
        below(row, column, rows, columns)
    }

    /// Pointers to base + start + offsets.
    pub fn pointers<E: ElementType, const ROWS: i32, const COLS: i32>(
        base: PointerTile<*mut E, { [] }>,
        start: Tile<i64, { [] }>,
        offsets: Tile<i32, { [ROWS, COLS] }>,
    ) -> PointerTile<*mut E, { [ROWS, COLS] }> {
        let first: PointerTile<*mut E, { [] }> = base.offset_tile(start);
        let first: PointerTile<*mut E, { [1, 1] }> = first.reshape(shape![1, 1]);
        let first: PointerTile<*mut E, { [ROWS, COLS] }> = first.broadcast(shape![ROWS, COLS]);
        first.offset_tile(offsets)
    }

    /// Pointers to columns first .. first + COLS, `stride` apart, of rows that begin `rows` elements behind `base`.
    /// UNIT promises a stride of 1.
    pub fn row_pointers<E: ElementType, const ROWS: i32, const COLS: i32, const UNIT: bool>(
        base: PointerTile<*mut E, { [] }>,
        rows: Tile<i64, { [ROWS] }>,
        first: i32,
        stride: i32,
    ) -> PointerTile<*mut E, { [ROWS, COLS] }> {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let p: PointerTile<*mut E, { [1] }> = base.reshape(shape![1]);
        let p: PointerTile<*mut E, { [ROWS] }> = p.broadcast(shape![ROWS]);
        let p: PointerTile<*mut E, { [ROWS] }> = p.offset_tile(rows);
        let p: PointerTile<*mut E, { [ROWS, 1] }> = p.reshape(shape![ROWS, 1]);
        let p: PointerTile<*mut E, { [ROWS, COLS] }> = p.broadcast(tile);
        let c: Tile<i32, { [COLS] }> = iota(shape![COLS]);
        let column: Tile<i32, { [COLS] }> = c + first.broadcast(shape![COLS]);
        let at: PointerTile<*mut E, { [ROWS, COLS] }> = if UNIT {
            let near: Tile<i32, { [ROWS, COLS] }> = column.reshape(shape![1, COLS]).broadcast(tile);
            let q: PointerTile<*mut E, { [ROWS, COLS] }> = p.offset_tile(near);
            q
        } else {
            let apart: Tile<i64, { [COLS] }> = offsets_of(column, stride);
            let apart: Tile<i64, { [ROWS, COLS] }> = apart.reshape(shape![1, COLS]).broadcast(tile);
            let q: PointerTile<*mut E, { [ROWS, COLS] }> = p.offset_tile(apart);
            q
        };
        at
    }

    pub fn load<E: ElementType, const ROWS: i32, const COLS: i32>(
        from: PointerTile<*mut E, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        let t: (Tile<E, { [ROWS, COLS] }>, Token) =
            unsafe { load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
        t.0
    }

    /// Undetermined where the mask is false.
    pub fn load_where<E: ElementType, const ROWS: i32, const COLS: i32>(
        from: PointerTile<*mut E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        let t: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
            load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>)
        };
        t.0
    }

    /// `load_where`, but EXACT promises that the mask is true throughout.
    pub fn load_masked<E: ElementType, const ROWS: i32, const COLS: i32, const EXACT: bool>(
        from: PointerTile<*mut E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        if EXACT { load(from) } else { load_where(from, mask) }
    }

    /// `load_masked` in f32, and 0 where the mask is false.
    pub fn load_padded<E: ElementType, const ROWS: i32, const COLS: i32, const EXACT: bool>(
        from: PointerTile<*mut E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let t: Tile<E, { [ROWS, COLS] }> = load_masked::<E, ROWS, COLS, EXACT>(from, mask);
        let t: Tile<f32, { [ROWS, COLS] }> = convert_tile(t);
        if EXACT {
            t
        } else {
            let zero: Tile<f32, { [ROWS, COLS] }> = constant(0.0f32, shape![ROWS, COLS]);
            let padded: Tile<f32, { [ROWS, COLS] }> = select(mask, t, zero);
            padded
        }
    }

    /// Pointers to base + offsets.
    pub fn element_pointers<E: ElementType, I: ElementType, const N: i32>(
        base: PointerTile<*mut E, { [] }>,
        offsets: Tile<I, { [N] }>,
    ) -> PointerTile<*mut E, { [N] }> {
        let p: PointerTile<*mut E, { [1] }> = base.reshape(shape![1]);
        let p: PointerTile<*mut E, { [N] }> = p.broadcast(shape![N]);
        p.offset_tile(offsets)
    }

    /// The elements there, undetermined where the mask is false.
    pub fn gather<E: ElementType, const N: i32>(
        at: PointerTile<*mut E, { [N] }>,
        mask: Tile<bool, { [N] }>,
    ) -> Tile<E, { [N] }> {
        let t: (Tile<E, { [N] }>, Token) =
            unsafe { load_ptr_tko(at, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>) };
        t.0
    }

    pub fn store<E: ElementType, const ROWS: i32, const COLS: i32>(
        to: PointerTile<*mut E, { [ROWS, COLS] }>,
        value: Tile<E, { [ROWS, COLS] }>,
    ) {
        unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
    }

    pub fn store_where<E: ElementType, const ROWS: i32, const COLS: i32>(
        to: PointerTile<*mut E, { [ROWS, COLS] }>,
        value: Tile<E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) {
        unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, Latency::<0>) };
    }

    /// `store_masked` behind what `token` stands for.
    pub fn store_behind<E: ElementType, const ROWS: i32, const COLS: i32, const EXACT: bool>(
        to: PointerTile<*mut E, { [ROWS, COLS] }>,
        value: Tile<E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
        token: Token,
    ) {
        if EXACT {
            unsafe {
                store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, Some(token), Latency::<0>)
            };
        } else {
            unsafe {
                store_ptr_tko(
                    to,
                    value,
                    ordering::Weak,
                    None::<scope::TileBlock>,
                    Some(mask),
                    Some(token),
                    Latency::<0>,
                )
            };
        }
    }

    /// `store_where`, but EXACT promises that the mask is true throughout.
    pub fn store_masked<E: ElementType, const ROWS: i32, const COLS: i32, const EXACT: bool>(
        to: PointerTile<*mut E, { [ROWS, COLS] }>,
        value: Tile<E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) {
        if EXACT {
            store(to, value);
        } else {
            store_where(to, value, mask);
        }
    }
}
