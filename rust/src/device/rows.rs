// SPDX-License-Identifier: MIT
//! Rows of a matrix in f32, without gaps inside: read, written, summed, and values for each of them.
//!
//! A tile is (PARTS, SPAN). With PARTS == ROWS it has ROWS rows of SPAN columns. With PARTS == CHUNKS * ROWS it is
//! folded: chunk 0 of all rows, then chunk 1 of all rows, and so on, each of SPAN columns. The compiler gives a tile's
//! last axis to a warp first; with a SPAN of 32 vectors a warp has whole rows, however many chunks they are, and sums
//! over a row need no barrier.

#[cutile::module]
pub mod rows {
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// The row and the column of each element of a tile.
    fn positions<const ROWS: i32, const PARTS: i32, const SPAN: i32>()
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
        (row, first + column_indices::<PARTS, SPAN>())
    }

    /// Which elements of a tile are in the first `rows` rows and `columns` columns.
    pub fn rows_inside<const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        rows: i32,
        columns: i32,
    ) -> Tile<bool, { [PARTS, SPAN] }> {
        let at: (Tile<i32, { [PARTS, SPAN] }>, Tile<i32, { [PARTS, SPAN] }>) = positions::<ROWS, PARTS, SPAN>();
        below(at.0, at.1, rows, columns)
    }

    /// Pointers to a tile whose first element is `start` elements behind `base` and whose rows are `pitch` apart.
    fn rows_of<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32>(
        base: *mut E,
        start: Tile<i64, { [] }>,
        pitch: i32,
    ) -> PointerTile<*mut E, { [PARTS, SPAN] }> {
        let at: (Tile<i32, { [PARTS, SPAN] }>, Tile<i32, { [PARTS, SPAN] }>) = positions::<ROWS, PARTS, SPAN>();
        let pitch: Tile<i32, { [PARTS, SPAN] }> = pitch.broadcast(shape![PARTS, SPAN]);
        let offsets: Tile<i32, { [PARTS, SPAN] }> = at.0 * pitch + at.1;
        let base: PointerTile<*mut E, { [] }> = pointer_to_tile(base);
        pointers(base, start, offsets)
    }

    /// The tile at `start` of rows `pitch` apart, in f32: `rows` rows and `columns` columns are there to read, the rest
    /// is 0. EXACT promises that all of the tile is there.
    pub fn load_rows<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32, const EXACT: bool>(
        base: *mut E,
        start: Tile<i64, { [] }>,
        pitch: i32,
        rows: i32,
        columns: i32,
    ) -> Tile<f32, { [PARTS, SPAN] }> {
        let from: PointerTile<*mut E, { [PARTS, SPAN] }> = rows_of::<E, ROWS, PARTS, SPAN>(base, start, pitch);
        let there: Tile<bool, { [PARTS, SPAN] }> = rows_inside::<ROWS, PARTS, SPAN>(rows, columns);
        load_padded::<E, PARTS, SPAN, EXACT>(from, there)
    }

    /// Write what of a tile is there, rounded once; the arguments are those of `load_rows`.
    pub fn store_rows<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32, const EXACT: bool>(
        base: *mut E,
        value: Tile<f32, { [PARTS, SPAN] }>,
        start: Tile<i64, { [] }>,
        pitch: i32,
        rows: i32,
        columns: i32,
    ) {
        let to: PointerTile<*mut E, { [PARTS, SPAN] }> = rows_of::<E, ROWS, PARTS, SPAN>(base, start, pitch);
        let value: Tile<E, { [PARTS, SPAN] }> = convert_tile(value);
        let there: Tile<bool, { [PARTS, SPAN] }> = rows_inside::<ROWS, PARTS, SPAN>(rows, columns);
        store_masked::<E, PARTS, SPAN, EXACT>(to, value, there);
    }

    /// A vector of `columns` elements for each row of a tile.
    pub fn load_vector<E: ElementType, const ROWS: i32, const PARTS: i32, const SPAN: i32, const EXACT: bool>(
        base: *mut E,
        columns: i32,
    ) -> Tile<f32, { [PARTS, SPAN] }> {
        let start: Tile<i64, { [] }> = wide(0i32);
        if PARTS == ROWS {
            let v: Tile<f32, { [1, SPAN] }> = load_rows::<E, 1, 1, SPAN, EXACT>(base, start, 0i32, 1i32, columns);
            let v: Tile<f32, { [PARTS, SPAN] }> = v.broadcast(shape![PARTS, SPAN]);
            v
        } else {
            // Each row reads it, which the first-level cache serves: no element changes its warp.
            let v: Tile<f32, { [PARTS, SPAN] }> =
                load_rows::<E, ROWS, PARTS, SPAN, EXACT>(base, start, 0i32, ROWS, columns);
            v
        }
    }

    /// SPAN elements of a vector from element `first` on; `columns` are there.
    pub fn load_piece<E: ElementType, const SPAN: i32>(
        base: *mut E,
        first: i32,
        columns: i32,
    ) -> Tile<f32, { [1, SPAN] }> {
        load_rows::<E, 1, 1, SPAN, false>(base, wide(first), 0i32, 1i32, columns)
    }

    /// One f32 for each row of a tile, from element `first` on; `rows` are there.
    pub fn load_column<const ROWS: i32, const EXACT: bool>(
        base: *mut f32,
        first: i32,
        rows: i32,
    ) -> Tile<f32, { [ROWS] }> {
        let v: Tile<f32, { [ROWS, 1] }> = load_rows::<f32, ROWS, ROWS, 1, EXACT>(base, wide(first), 1i32, rows, 1i32);
        v.reshape(shape![ROWS])
    }

    /// Write one f32 for each row of a tile, from element `first` on; `rows` are there.
    pub fn store_column<const ROWS: i32, const EXACT: bool>(
        base: *mut f32,
        value: Tile<f32, { [ROWS] }>,
        first: i32,
        rows: i32,
    ) {
        let value: Tile<f32, { [ROWS, 1] }> = value.reshape(shape![ROWS, 1]);
        store_rows::<f32, ROWS, ROWS, 1, EXACT>(base, value, wide(first), 1i32, rows, 1i32);
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
