// SPDX-License-Identifier: MIT
//! What the kernels of elementwise ops share: where a block's tile lies, its loads and its stores.
//!
//! Memory is read and written through pointers: such a load is predicated where a view's is a branch around each
//! vector, so all of a thread's loads are in flight at once. Tiles have two axes; along the second one memory is
//! contiguous.

#[cutile::module]
pub mod elementwise {
    use cutile::core::*;

    /// a * b in 64 bits: a tensor may hold more than 2^31 elements.
    pub fn wide_product(a: i32, b: i32) -> Tile<i64, { [] }> {
        let a: Tile<i32, { [] }> = scalar_to_tile(a);
        let a: Tile<i64, { [] }> = exti(a);
        let b: Tile<i32, { [] }> = scalar_to_tile(b);
        let b: Tile<i64, { [] }> = exti(b);
        a * b
    }

    /// Each element's column in its tile.
    pub fn columns<const ROWS: i32, const COLS: i32>(tile: Shape<{ [ROWS, COLS] }>) -> Tile<i32, { [ROWS, COLS] }> {
        let c: Tile<i32, { [COLS] }> = iota(shape![COLS]);
        c.reshape(shape![1, COLS]).broadcast(tile)
    }

    /// Each element's row in its tile.
    pub fn rows<const ROWS: i32, const COLS: i32>(tile: Shape<{ [ROWS, COLS] }>) -> Tile<i32, { [ROWS, COLS] }> {
        let r: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        r.reshape(shape![ROWS, 1]).broadcast(tile)
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

    /// Pointers to a tile at (row, column) of a matrix whose rows are `stride` elements apart.
    pub fn tile_of<E: ElementType, const ROWS: i32, const COLS: i32>(
        matrix: *mut E,
        row: i32,
        column: i32,
        stride: i32,
        tile: Shape<{ [ROWS, COLS] }>,
    ) -> PointerTile<*mut E, { [ROWS, COLS] }> {
        let column: Tile<i32, { [] }> = scalar_to_tile(column);
        let column: Tile<i64, { [] }> = exti(column);
        let start: Tile<i64, { [] }> = wide_product(row, stride) + column;
        let stride: Tile<i32, { [ROWS, COLS] }> = stride.broadcast(tile);
        let r: Tile<i32, { [ROWS, COLS] }> = rows(tile);
        let skipped: Tile<i32, { [ROWS, COLS] }> = r * stride;
        let offsets: Tile<i32, { [ROWS, COLS] }> = skipped + columns(tile);
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(matrix);
        pointers(base, start, offsets)
    }

    /// Which elements of a tile are among the first `rows_left` rows and `columns_left` columns.
    pub fn inside<const ROWS: i32, const COLS: i32>(
        rows_left: i32,
        columns_left: i32,
        tile: Shape<{ [ROWS, COLS] }>,
    ) -> Tile<bool, { [ROWS, COLS] }> {
        let rows_left: Tile<i32, { [ROWS, COLS] }> = rows_left.broadcast(tile);
        let columns_left: Tile<i32, { [ROWS, COLS] }> = columns_left.broadcast(tile);
        let r: Tile<i32, { [ROWS, COLS] }> = rows(tile);
        let c: Tile<i32, { [ROWS, COLS] }> = columns(tile);
        lt_tile(r, rows_left) & lt_tile(c, columns_left)
    }

    pub fn read<E: ElementType, const ROWS: i32, const COLS: i32>(
        from: PointerTile<*mut E, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        let found: (Tile<E, { [ROWS, COLS] }>, Token) =
            unsafe { load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
        found.0
    }

    /// Undetermined where the mask is false.
    pub fn read_where<E: ElementType, const ROWS: i32, const COLS: i32>(
        from: PointerTile<*mut E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        let found: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
            load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>)
        };
        found.0
    }

    pub fn write<E: ElementType, const ROWS: i32, const COLS: i32>(
        to: PointerTile<*mut E, { [ROWS, COLS] }>,
        value: Tile<E, { [ROWS, COLS] }>,
    ) {
        unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
    }

    pub fn write_where<E: ElementType, const ROWS: i32, const COLS: i32>(
        to: PointerTile<*mut E, { [ROWS, COLS] }>,
        value: Tile<E, { [ROWS, COLS] }>,
        mask: Tile<bool, { [ROWS, COLS] }>,
    ) {
        unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, Latency::<0>) };
    }

    /// Whether this block of a row of them has a whole tile, as all but the last one have.
    pub fn is_whole(exact: bool) -> bool {
        let last: i32 = get_num_tile_blocks().0 - 1i32;
        exact || get_tile_block_id().0 < last
    }

    /// Row and column of this block's tile. Where a tile holds whole rows, the grid has one axis; else columns come
    /// first, so that neighbouring blocks read neighbouring memory, and tiles of rows are numbered by the other two:
    /// an axis but the first ends at 65535. Reading those costs conversions ahead of the first load, which shows when
    /// a whole call takes 1.5 us.
    pub fn place(whole_rows: bool, rows: i32, columns: i32) -> (i32, i32) {
        let block: (i32, i32, i32) = get_tile_block_id();
        let blocks: (i32, i32, i32) = get_num_tile_blocks();
        let row: i32 = if whole_rows { block.0 * rows } else { (block.2 * blocks.1 + block.1) * rows };
        let column: i32 = if whole_rows { 0i32 } else { block.0 * columns };
        (row, column)
    }
}
