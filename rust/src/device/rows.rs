// SPDX-License-Identifier: MIT
//! Device functions of kernels that read and write pieces of a matrix whose rows have no gaps inside.
//!
//! Memory is reached through pointers with a mask: such a load is predicated, so that all of a thread's loads are in
//! flight at once, where a padded view's load is a branch around each vector. How wide a load can be follows from what
//! a kernel promises of its extents (`assume_div_by`).
//!
//! A tile is (PARTS, SPAN). With PARTS == ROWS it has ROWS rows of SPAN columns. With PARTS == CHUNKS * ROWS it is
//! folded: chunk 0 of all rows, then chunk 1 of all rows, and so on, each of SPAN columns. The compiler gives a tile's
//! last axis to a warp first; with a SPAN of 32 vectors a warp has whole rows, however many chunks they are, and sums
//! over a row need no barrier.

#[cutile::module]
pub mod rows {
    use cutile::core::*;

    /// The row and the column of each element of a tile.
    fn numbers<const ROWS: i32, const PARTS: i32, const SPAN: i32>()
    -> (Tile<i32, { [PARTS, SPAN] }>, Tile<i32, { [PARTS, SPAN] }>) {
        let tile: Shape<{ [PARTS, SPAN] }> = shape![PARTS, SPAN];
        let part: Tile<i32, { [PARTS] }> = iota(shape![PARTS]);
        let rows: Tile<i32, { [PARTS] }> = broadcast_scalar(ROWS, shape![PARTS]);
        let span: Tile<i32, { [PARTS] }> = broadcast_scalar(SPAN, shape![PARTS]);
        let chunk: Tile<i32, { [PARTS] }> = part / rows;
        let row: Tile<i32, { [PARTS] }> = part - chunk * rows;
        let row: Tile<i32, { [PARTS, SPAN] }> = row.reshape(shape![PARTS, 1]).broadcast(tile);
        let first: Tile<i32, { [PARTS] }> = chunk * span;
        let first: Tile<i32, { [PARTS, SPAN] }> = first.reshape(shape![PARTS, 1]).broadcast(tile);
        let column: Tile<i32, { [SPAN] }> = iota(shape![SPAN]);
        let column: Tile<i32, { [PARTS, SPAN] }> = column.reshape(shape![1, SPAN]).broadcast(tile);
        (row, first + column)
    }

    /// Which elements of a tile are in the first `rows` rows and `columns` columns.
    pub fn within<const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        rows: i32,
        columns: i32,
    ) -> Tile<bool, { [PARTS, SPAN] }> {
        let tile: Shape<{ [PARTS, SPAN] }> = shape![PARTS, SPAN];
        let at: (Tile<i32, { [PARTS, SPAN] }>, Tile<i32, { [PARTS, SPAN] }>) = numbers::<ROWS, PARTS, SPAN>();
        let rows: Tile<i32, { [PARTS, SPAN] }> = rows.broadcast(tile);
        let columns: Tile<i32, { [PARTS, SPAN] }> = columns.broadcast(tile);
        lt_tile(at.0, rows) & lt_tile(at.1, columns)
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
    fn pointers<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        base: *mut E,
        start: Tile<i64, { [] }>,
        pitch: i32,
    ) -> PointerTile<*mut E, { [PARTS, SPAN] }> {
        let tile: Shape<{ [PARTS, SPAN] }> = shape![PARTS, SPAN];
        let at: (Tile<i32, { [PARTS, SPAN] }>, Tile<i32, { [PARTS, SPAN] }>) = numbers::<ROWS, PARTS, SPAN>();
        let pitch: Tile<i32, { [PARTS, SPAN] }> = pitch.broadcast(tile);
        let offsets: Tile<i32, { [PARTS, SPAN] }> = at.0 * pitch + at.1;
        let first: PointerTile<*mut E, { [] }> = pointer_to_tile(base);
        let first: PointerTile<*mut E, { [] }> = first.offset_tile(start);
        let first: PointerTile<*mut E, { [1, 1] }> = first.reshape(shape![1, 1]);
        let first: PointerTile<*mut E, { [PARTS, SPAN] }> = first.broadcast(tile);
        first.offset_tile(offsets)
    }

    /// The tile at `start` of rows `pitch` apart, in f32: `rows` rows and `columns` columns are there to read, the rest
    /// is 0. EXACT promises that all of the tile is there.
    pub fn read<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32, const EXACT: bool>(
        base: *mut E,
        start: Tile<i64, { [] }>,
        pitch: i32,
        rows: i32,
        columns: i32,
    ) -> Tile<f32, { [PARTS, SPAN] }> {
        let from: PointerTile<*mut E, { [PARTS, SPAN] }> = pointers::<E, ROWS, PARTS, SPAN>(base, start, pitch);
        if EXACT {
            let t: (Tile<E, { [PARTS, SPAN] }>, Token) =
                unsafe { load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
            let f: Tile<f32, { [PARTS, SPAN] }> = convert_tile(t.0);
            f
        } else {
            let there: Tile<bool, { [PARTS, SPAN] }> = within::<ROWS, PARTS, SPAN>(rows, columns);
            let t: (Tile<E, { [PARTS, SPAN] }>, Token) = unsafe {
                load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, Some(there), None, None, Latency::<0>)
            };
            let f: Tile<f32, { [PARTS, SPAN] }> = convert_tile(t.0);
            let nothing: Tile<f32, { [PARTS, SPAN] }> = constant(0.0f32, shape![PARTS, SPAN]);
            let f: Tile<f32, { [PARTS, SPAN] }> = select(there, f, nothing);
            f
        }
    }

    /// Write what of a tile is there, rounded once; the arguments are those of `read`.
    pub fn write<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32, const EXACT: bool>(
        base: *mut E,
        value: Tile<f32, { [PARTS, SPAN] }>,
        start: Tile<i64, { [] }>,
        pitch: i32,
        rows: i32,
        columns: i32,
    ) {
        let to: PointerTile<*mut E, { [PARTS, SPAN] }> = pointers::<E, ROWS, PARTS, SPAN>(base, start, pitch);
        let value: Tile<E, { [PARTS, SPAN] }> = convert_tile(value);
        if EXACT {
            unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
        } else {
            let there: Tile<bool, { [PARTS, SPAN] }> = within::<ROWS, PARTS, SPAN>(rows, columns);
            unsafe {
                store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, Some(there), None, Latency::<0>)
            };
        }
    }

    /// A vector of `columns` elements for each row of a tile.
    pub fn read_vector<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32, const EXACT: bool>(
        base: *mut E,
        columns: i32,
    ) -> Tile<f32, { [PARTS, SPAN] }> {
        let start: Tile<i64, { [] }> = ahead(0i32, 0i32, 0i32);
        if PARTS == ROWS {
            let v: Tile<f32, { [1, SPAN] }> = read::<E, 1, 1, SPAN, EXACT>(base, start, 0i32, 1i32, columns);
            let v: Tile<f32, { [PARTS, SPAN] }> = v.broadcast(shape![PARTS, SPAN]);
            v
        } else {
            // Each row reads it, which the first-level cache serves: no element changes its warp.
            let v: Tile<f32, { [PARTS, SPAN] }> = read::<E, ROWS, PARTS, SPAN, EXACT>(base, start, 0i32, ROWS, columns);
            v
        }
    }

    /// SPAN elements of a vector from element `first` on; `columns` are there.
    pub fn read_piece<E: ElementType, const SPAN: i32>(
        base: *mut E,
        first: i32,
        columns: i32,
    ) -> Tile<f32, { [1, SPAN] }> {
        read::<E, 1, 1, SPAN, false>(base, ahead(0i32, 0i32, first), 0i32, 1i32, columns)
    }

    /// One f32 for each row of a tile, from element `first` on; `rows` are there.
    pub fn read_column<const ROWS: i32, const EXACT: bool>(
        base: *mut f32,
        first: i32,
        rows: i32,
    ) -> Tile<f32, { [ROWS] }> {
        let v: Tile<f32, { [ROWS, 1] }> =
            read::<f32, ROWS, ROWS, 1, EXACT>(base, ahead(0i32, 0i32, first), 1i32, rows, 1i32);
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
        write::<f32, ROWS, ROWS, 1, EXACT>(base, value, ahead(0i32, 0i32, first), 1i32, rows, 1i32);
    }

    /// A value for each row, spread over its elements.
    pub fn over_columns<const CHUNKS: i32, const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        v: Tile<f32, { [ROWS] }>,
    ) -> Tile<f32, { [PARTS, SPAN] }> {
        let v: Tile<f32, { [CHUNKS, ROWS] }> = v.reshape(shape![1, ROWS]).broadcast(shape![CHUNKS, ROWS]);
        v.reshape(shape![PARTS, 1]).broadcast(shape![PARTS, SPAN])
    }

    /// The sum of each row.
    pub fn row_sum<const CHUNKS: i32, const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        x: Tile<f32, { [PARTS, SPAN] }>,
    ) -> Tile<f32, { [ROWS] }> {
        let parts: Tile<f32, { [PARTS] }> = reduce_sum(x, 1i32);
        let parts: Tile<f32, { [CHUNKS, ROWS] }> = parts.reshape(shape![CHUNKS, ROWS]);
        reduce_sum(parts, 0i32)
    }
}
