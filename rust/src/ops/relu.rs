// SPDX-License-Identifier: MIT
//! max(x, 0) of contiguous memory. The maximum passes a NaN over, so that it becomes 0.

#[cutile::module]
pub mod relu {
    use crate::device::elementwise::elementwise::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    fn positive<E: ElementType, const TILE: i32>(x: Tile<E, { [1, TILE] }>) -> Tile<E, { [1, TILE] }> {
        let x: Tile<f32, { [1, TILE] }> = convert_tile(x);
        let zero: Tile<f32, { [1, TILE] }> = constant(0.0f32, shape![1, TILE]);
        let y: Tile<f32, { [1, TILE] }> = max_tile(x, zero);
        convert_tile(y)
    }

    /// A tile of TILE elements per block; the last one has `last`, all of them where EXACT.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn relu_forward<E: ElementType, const TILE: i32, const EXACT: bool>(out: *mut E, x: *mut E, last: i32) {
        let tile: Shape<{ [1, TILE] }> = shape![1, TILE];
        let block: i32 = get_tile_block_id().0;
        let from: PointerTile<*mut E, { [1, TILE] }> = tile_of(x, block, 0i32, TILE, tile);
        let to: PointerTile<*mut E, { [1, TILE] }> = tile_of(out, block, 0i32, TILE, tile);
        if is_whole(EXACT) {
            let x: Tile<E, { [1, TILE] }> = load(from);
            let y: Tile<E, { [1, TILE] }> = positive(x);
            store(to, y);
        } else {
            let mask: Tile<bool, { [1, TILE] }> = inside::<1, TILE>(1i32, last);
            let x: Tile<E, { [1, TILE] }> = load_where(from, mask);
            let y: Tile<E, { [1, TILE] }> = positive(x);
            store_where(to, y, mask);
        }
    }
}
