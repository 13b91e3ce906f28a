// SPDX-License-Identifier: MIT
//! Dropout of contiguous memory. An element's fate is a hash of its number and the seed: what is kept depends on
//! nothing else, and the same seed gives the same mask everywhere.

#[cutile::module]
pub mod dropout {
    use crate::device::elementwise::elementwise::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// Hashes of 32 bits, the highest cleared: a product, then three steps of shift and exclusive or.
    fn hashes<const TILE: i32>(first: i32, seed: i32, tile: Shape<{ [1, TILE] }>) -> Tile<i32, { [1, TILE] }> {
        let first: Tile<i32, { [1, TILE] }> = first.broadcast(tile);
        let seed: Tile<i32, { [1, TILE] }> = seed.broadcast(tile);
        let factor: Tile<i32, { [1, TILE] }> = constant(1103515245i32, tile);
        let bits_16: Tile<i32, { [1, TILE] }> = constant(16i32, tile);
        let bits_8: Tile<i32, { [1, TILE] }> = constant(8i32, tile);
        let bits_4: Tile<i32, { [1, TILE] }> = constant(4i32, tile);
        let positive: Tile<i32, { [1, TILE] }> = constant(2147483647i32, tile);
        let column: Tile<i32, { [1, TILE] }> = column_indices::<1, TILE>();
        let number: Tile<i32, { [1, TILE] }> = first + column;
        let h: Tile<i32, { [1, TILE] }> = number * factor + seed;
        let h: Tile<i32, { [1, TILE] }> = h ^ (h >> bits_16);
        let h: Tile<i32, { [1, TILE] }> = h ^ (h << bits_8);
        let h: Tile<i32, { [1, TILE] }> = h ^ (h >> bits_4);
        h & positive
    }

    /// x times scale where the hash is above the threshold, else 0.
    fn kept<E: ElementType, const TILE: i32>(
        x: Tile<E, { [1, TILE] }>,
        hash: Tile<i32, { [1, TILE] }>,
        threshold: i32,
        scale: f32,
    ) -> Tile<E, { [1, TILE] }> {
        let tile: Shape<{ [1, TILE] }> = shape![1, TILE];
        let x: Tile<f32, { [1, TILE] }> = convert_tile(x);
        let zero: Tile<f32, { [1, TILE] }> = constant(0.0f32, tile);
        let scale: Tile<f32, { [1, TILE] }> = scale.broadcast(tile);
        let threshold: Tile<i32, { [1, TILE] }> = threshold.broadcast(tile);
        let survives: Tile<bool, { [1, TILE] }> = gt_tile(hash, threshold);
        let y: Tile<f32, { [1, TILE] }> = select(survives, x * scale, zero);
        convert_tile(y)
    }

    /// A tile of TILE elements per block; the last one has `last`, all of them where EXACT. out may be x.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn dropout_forward<E: ElementType, const TILE: i32, const EXACT: bool>(
        out: *mut E,
        x: *mut E,
        seed: i32,
        threshold: i32,
        scale: f32,
        last: i32,
    ) {
        let tile: Shape<{ [1, TILE] }> = shape![1, TILE];
        let block: i32 = get_tile_block_id().0;
        let from: PointerTile<*mut E, { [1, TILE] }> = tile_of(x, block, 0i32, TILE, tile);
        let to: PointerTile<*mut E, { [1, TILE] }> = tile_of(out, block, 0i32, TILE, tile);
        let hash: Tile<i32, { [1, TILE] }> = hashes(block * TILE, seed, tile);
        if is_whole(EXACT) {
            let x: Tile<E, { [1, TILE] }> = load(from);
            let y: Tile<E, { [1, TILE] }> = kept(x, hash, threshold, scale);
            store(to, y);
        } else {
            let mask: Tile<bool, { [1, TILE] }> = inside::<1, TILE>(1i32, last);
            let x: Tile<E, { [1, TILE] }> = load_where(from, mask);
            let y: Tile<E, { [1, TILE] }> = kept(x, hash, threshold, scale);
            store_where(to, y, mask);
        }
    }
}
