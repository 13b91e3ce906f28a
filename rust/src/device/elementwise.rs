// SPDX-License-Identifier: MIT
//! Where a block of an elementwise op has its tile. Tiles have two axes; along the second one memory is contiguous.

#[cutile::module]
pub mod elementwise {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// Pointers to a tile at (row, column) of a matrix whose rows are `pitch` elements apart.
    pub fn tile_of<E: ElementType, const ROWS: i32, const COLS: i32>(
        matrix: *mut E,
        row: i32,
        column: i32,
        pitch: i32,
        tile: Shape<{ [ROWS, COLS] }>,
    ) -> PointerTile<*mut E, { [ROWS, COLS] }> {
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(matrix);
        let start: Tile<i64, { [] }> = matrix_offset(row, pitch, column);
        let offsets: Tile<i32, { [ROWS, COLS] }> = tile_offsets::<ROWS, COLS>(pitch);
        pointers(base, start, offsets)
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
