// SPDX-License-Identifier: MIT
//! Device functions of kernels that read and write pieces of a matrix whose rows have no gaps inside.
//!
//! Memory is reached through pointers with a mask: such a load is predicated, so that all of a thread's loads are in
//! flight at once, where a padded view's load is a branch around each vector. How wide a load can be follows from what
//! a kernel promises of its extents (`assume_div_by`).

#[cutile::module]
pub mod rows {
    use cutile::core::*;

    /// The row number of each element of a tile.
    fn row_numbers<const ROWS: i32, const COLS: i32>() -> Tile<i32, { [ROWS, COLS] }> {
        let r: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        r.reshape(shape![ROWS, 1]).broadcast(shape![ROWS, COLS])
    }

    /// The column number of each element of a tile.
    fn column_numbers<const ROWS: i32, const COLS: i32>() -> Tile<i32, { [ROWS, COLS] }> {
        let c: Tile<i32, { [COLS] }> = iota(shape![COLS]);
        c.reshape(shape![1, COLS]).broadcast(shape![ROWS, COLS])
    }

    /// Which elements of a tile are among its first `rows` rows and `columns` columns.
    pub fn within<const ROWS: i32, const COLS: i32>(rows: i32, columns: i32) -> Tile<bool, { [ROWS, COLS] }> {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let r: Tile<i32, { [ROWS, COLS] }> = row_numbers::<ROWS, COLS>();
        let c: Tile<i32, { [ROWS, COLS] }> = column_numbers::<ROWS, COLS>();
        let rows: Tile<i32, { [ROWS, COLS] }> = rows.broadcast(tile);
        let columns: Tile<i32, { [ROWS, COLS] }> = columns.broadcast(tile);
        lt_tile(r, rows) & lt_tile(c, columns)
    }

    /// n * pitch + more, in 64 bits: a tensor may hold more than 2^31 elements.
    pub fn ahead(n: i32, pitch: i32, more: i32) -> Tile<i64, { [] }> {
        let n: Tile<i32, { [] }> = scalar_to_tile(n);
        let n: Tile<i64, { [] }> = exti(n);
        let pitch: Tile<i32, { [] }> = scalar_to_tile(pitch);
        let pitch: Tile<i64, { [] }> = exti(pitch);
        let more: Tile<i32, { [] }> = scalar_to_tile(more);
        let more: Tile<i64, { [] }> = exti(more);
        n * pitch + more
    }

    /// Pointers to a tile whose first element is `start` elements behind `base` and whose rows are `pitch` apart.
    fn pointers<E: ElementType, const ROWS: i32, const COLS: i32>(
        base: *mut E,
        start: Tile<i64, { [] }>,
        pitch: i32,
    ) -> PointerTile<*mut E, { [ROWS, COLS] }> {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let pitch: Tile<i32, { [ROWS, COLS] }> = pitch.broadcast(tile);
        let r: Tile<i32, { [ROWS, COLS] }> = row_numbers::<ROWS, COLS>();
        let c: Tile<i32, { [ROWS, COLS] }> = column_numbers::<ROWS, COLS>();
        let offsets: Tile<i32, { [ROWS, COLS] }> = r * pitch + c;
        let first: PointerTile<*mut E, { [] }> = pointer_to_tile(base);
        let first: PointerTile<*mut E, { [] }> = first.offset_tile(start);
        let first: PointerTile<*mut E, { [1, 1] }> = first.reshape(shape![1, 1]);
        let first: PointerTile<*mut E, { [ROWS, COLS] }> = first.broadcast(tile);
        first.offset_tile(offsets)
    }

    /// The tile at `start` of rows `pitch` apart, in f32: `rows` rows and `columns` columns are there to read, the rest
    /// is 0. EXACT promises that all of the tile is there.
    pub fn read<E: ElementType, const ROWS: i32, const COLS: i32, const EXACT: bool>(
        base: *mut E,
        start: Tile<i64, { [] }>,
        pitch: i32,
        rows: i32,
        columns: i32,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let from: PointerTile<*mut E, { [ROWS, COLS] }> = pointers::<E, ROWS, COLS>(base, start, pitch);
        if EXACT {
            let t: (Tile<E, { [ROWS, COLS] }>, Token) =
                unsafe { load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
            let f: Tile<f32, { [ROWS, COLS] }> = convert_tile(t.0);
            f
        } else {
            let there: Tile<bool, { [ROWS, COLS] }> = within::<ROWS, COLS>(rows, columns);
            let t: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe {
                load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, Some(there), None, None, Latency::<0>)
            };
            let f: Tile<f32, { [ROWS, COLS] }> = convert_tile(t.0);
            let nothing: Tile<f32, { [ROWS, COLS] }> = constant(0.0f32, shape![ROWS, COLS]);
            let f: Tile<f32, { [ROWS, COLS] }> = select(there, f, nothing);
            f
        }
    }

    /// Write what of a tile is there, rounded once; the arguments are those of `read`.
    pub fn write<E: ElementType, const ROWS: i32, const COLS: i32, const EXACT: bool>(
        base: *mut E,
        value: Tile<f32, { [ROWS, COLS] }>,
        start: Tile<i64, { [] }>,
        pitch: i32,
        rows: i32,
        columns: i32,
    ) {
        let to: PointerTile<*mut E, { [ROWS, COLS] }> = pointers::<E, ROWS, COLS>(base, start, pitch);
        let value: Tile<E, { [ROWS, COLS] }> = convert_tile(value);
        if EXACT {
            unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
        } else {
            let there: Tile<bool, { [ROWS, COLS] }> = within::<ROWS, COLS>(rows, columns);
            unsafe {
                store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, Some(there), None, Latency::<0>)
            };
        }
    }

    /// COLS elements of a vector from element `first` on; `columns` are there.
    pub fn read_vector<E: ElementType, const COLS: i32, const EXACT: bool>(
        base: *mut E,
        first: i32,
        columns: i32,
    ) -> Tile<f32, { [1, COLS] }> {
        read::<E, 1, COLS, EXACT>(base, ahead(0i32, 0i32, first), 0i32, 1i32, columns)
    }

    /// One f32 for each row of a tile, from element `first` on; `rows` are there.
    pub fn read_column<const ROWS: i32, const EXACT: bool>(
        base: *mut f32,
        first: i32,
        rows: i32,
    ) -> Tile<f32, { [ROWS] }> {
        let v: Tile<f32, { [ROWS, 1] }> = read::<f32, ROWS, 1, EXACT>(base, ahead(0i32, 0i32, first), 1i32, rows, 1i32);
        v.reshape(shape![ROWS])
    }

    /// Write one f32 for each row of a tile, from element `first` on; `rows` are there.
    pub fn write_column<const ROWS: i32, const EXACT: bool>(
        base: *mut f32,
        value: Tile<f32, { [ROWS] }>,
        first: i32,
        rows: i32,
    ) {
        let value: Tile<f32, { [ROWS, 1] }> = value.reshape(shape![ROWS, 1]);
        write::<f32, ROWS, 1, EXACT>(base, value, ahead(0i32, 0i32, first), 1i32, rows, 1i32);
    }

    /// A value for each row, spread over its elements.
    pub fn over_columns<const ROWS: i32, const COLS: i32>(v: Tile<f32, { [ROWS] }>) -> Tile<f32, { [ROWS, COLS] }> {
        v.reshape(shape![ROWS, 1]).broadcast(shape![ROWS, COLS])
    }

    /// A value for each column, spread over its elements.
    pub fn over_rows<const ROWS: i32, const COLS: i32>(v: Tile<f32, { [COLS] }>) -> Tile<f32, { [ROWS, COLS] }> {
        v.reshape(shape![1, COLS]).broadcast(shape![ROWS, COLS])
    }
}
