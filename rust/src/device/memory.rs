// SPDX-License-Identifier: MIT
//! What kernels of several ops share on the device: tiles read and written through addresses.
//!
//! A masked access through addresses is predicated, so that all of a thread's loads are in flight at once; a padded
//! view's is a branch around each vector. `#[tile::flattened]` gives a kernel the strides that addresses need, with the
//! facts about them that make vectors of 16 bytes.

#[cutile::module]
pub mod memory {
    use cutile::core::*;

    /// A scalar in 64 bits.
    pub fn wide(n: i32) -> Tile<i64, { [] }> {
        let t: Tile<i32, { [] }> = scalar_to_tile(n);
        exti(t)
    }

    /// index * stride in 64 bits: a tensor may hold more than 2^31 elements.
    pub fn step(index: i32, stride: i32) -> Tile<i64, { [] }> {
        let index: Tile<i64, { [] }> = wide(index);
        let stride: Tile<i64, { [] }> = wide(stride);
        index * stride
    }

    /// The same of every index.
    pub fn steps<const ROWS: i32>(index: Tile<i32, { [ROWS] }>, stride: i32) -> Tile<i64, { [ROWS] }> {
        let index: Tile<i64, { [ROWS] }> = exti(index);
        let stride: Tile<i64, { [] }> = wide(stride);
        let stride: Tile<i64, { [ROWS] }> = stride.reshape(shape![1]).broadcast(shape![ROWS]);
        index * stride
    }

    /// Addresses of columns first .. first + BLOCK, `stride` apart, of rows that begin `rows` elements behind `base`.
    /// UNIT promises a stride of 1.
    pub fn addresses<E: ElementType, const ROWS: i32, const BLOCK: i32, const UNIT: bool>(
        base: PointerTile<*mut E, { [] }>,
        rows: Tile<i64, { [ROWS] }>,
        first: i32,
        stride: i32,
    ) -> PointerTile<*mut E, { [ROWS, BLOCK] }> {
        let tile: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let p: PointerTile<*mut E, { [1] }> = base.reshape(shape![1]);
        let p: PointerTile<*mut E, { [ROWS] }> = p.broadcast(shape![ROWS]);
        let p: PointerTile<*mut E, { [ROWS] }> = p.offset_tile(rows);
        let p: PointerTile<*mut E, { [ROWS, 1] }> = p.reshape(shape![ROWS, 1]);
        let p: PointerTile<*mut E, { [ROWS, BLOCK] }> = p.broadcast(tile);
        let c: Tile<i32, { [BLOCK] }> = iota(shape![BLOCK]);
        let column: Tile<i32, { [BLOCK] }> = c + first.broadcast(shape![BLOCK]);
        let at: PointerTile<*mut E, { [ROWS, BLOCK] }> = if UNIT {
            let near: Tile<i32, { [ROWS, BLOCK] }> = column.reshape(shape![1, BLOCK]).broadcast(tile);
            let q: PointerTile<*mut E, { [ROWS, BLOCK] }> = p.offset_tile(near);
            q
        } else {
            let apart: Tile<i64, { [BLOCK] }> = steps(column, stride);
            let apart: Tile<i64, { [ROWS, BLOCK] }> = apart.reshape(shape![1, BLOCK]).broadcast(tile);
            let q: PointerTile<*mut E, { [ROWS, BLOCK] }> = p.offset_tile(apart);
            q
        };
        at
    }

    /// Whether a row index is below `rows` and a column index below `columns`.
    pub fn inside<const ROWS: i32, const BLOCK: i32>(rows: i32, columns: i32) -> Tile<bool, { [ROWS, BLOCK] }> {
        let tile: Shape<{ [ROWS, BLOCK] }> = shape![ROWS, BLOCK];
        let r: Tile<i32, { [ROWS] }> = iota(shape![ROWS]);
        let r: Tile<i32, { [ROWS, BLOCK] }> = r.reshape(shape![ROWS, 1]).broadcast(tile);
        let c: Tile<i32, { [BLOCK] }> = iota(shape![BLOCK]);
        let c: Tile<i32, { [ROWS, BLOCK] }> = c.reshape(shape![1, BLOCK]).broadcast(tile);
        let rows: Tile<i32, { [ROWS, BLOCK] }> = rows.broadcast(tile);
        let columns: Tile<i32, { [ROWS, BLOCK] }> = columns.broadcast(tile);
        lt_tile(r, rows) & lt_tile(c, columns)
    }

    /// What lies there; where the mask is false, nothing of meaning. EXACT promises that it is true throughout.
    pub fn read<E: ElementType, const ROWS: i32, const BLOCK: i32, const EXACT: bool>(
        from: PointerTile<*mut E, { [ROWS, BLOCK] }>,
        mask: Tile<bool, { [ROWS, BLOCK] }>,
    ) -> Tile<E, { [ROWS, BLOCK] }> {
        let t: Tile<E, { [ROWS, BLOCK] }> = if EXACT {
            let t: (Tile<E, { [ROWS, BLOCK] }>, Token) =
                unsafe { load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, None, None, None, Latency::<0>) };
            let t: Tile<E, { [ROWS, BLOCK] }> = t.0;
            t
        } else {
            let t: (Tile<E, { [ROWS, BLOCK] }>, Token) = unsafe {
                load_ptr_tko(from, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, None, Latency::<0>)
            };
            let t: Tile<E, { [ROWS, BLOCK] }> = t.0;
            t
        };
        t
    }

    /// Writes where the mask is true; EXACT promises that it is true throughout.
    pub fn write<E: ElementType, const ROWS: i32, const BLOCK: i32, const EXACT: bool>(
        to: PointerTile<*mut E, { [ROWS, BLOCK] }>,
        value: Tile<E, { [ROWS, BLOCK] }>,
        mask: Tile<bool, { [ROWS, BLOCK] }>,
    ) {
        if EXACT {
            unsafe { store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, None, None, Latency::<0>) };
        } else {
            unsafe {
                store_ptr_tko(to, value, ordering::Weak, None::<scope::TileBlock>, Some(mask), None, Latency::<0>)
            };
        }
    }
}
