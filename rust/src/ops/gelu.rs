// SPDX-License-Identifier: MIT
//! gelu of contiguous memory and its gradient, by the normal distribution function or, where TANH, by tanh.

#[cutile::module]
pub mod gelu {
    use crate::device::activations::activations::*;
    use crate::device::elementwise::elementwise::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// A tile of TILE elements per block; the last one has `last`, all of them where EXACT.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn gelu_forward<E: ElementType, const TILE: i32, const EXACT: bool, const TANH: bool>(
        out: *mut E,
        x: *mut E,
        last: i32,
    ) {
        let tile: Shape<{ [1, TILE] }> = shape![1, TILE];
        let block: i32 = get_tile_block_id().0;
        let from: PointerTile<*mut E, { [1, TILE] }> = tile_of(x, block, 0i32, TILE, tile);
        let to: PointerTile<*mut E, { [1, TILE] }> = tile_of(out, block, 0i32, TILE, tile);
        if is_whole(EXACT) {
            let x: Tile<E, { [1, TILE] }> = load(from);
            let x: Tile<f32, { [1, TILE] }> = convert_tile(x);
            let y: (Tile<f32, { [1, TILE] }>, Tile<f32, { [1, TILE] }>) = gelu_of(x, TANH);
            let y: Tile<E, { [1, TILE] }> = convert_tile(y.0);
            store(to, y);
        } else {
            let mask: Tile<bool, { [1, TILE] }> = inside::<1, TILE>(1i32, last);
            let x: Tile<E, { [1, TILE] }> = load_where(from, mask);
            let x: Tile<f32, { [1, TILE] }> = convert_tile(x);
            let y: (Tile<f32, { [1, TILE] }>, Tile<f32, { [1, TILE] }>) = gelu_of(x, TANH);
            let y: Tile<E, { [1, TILE] }> = convert_tile(y.0);
            store_where(to, y, mask);
        }
    }

    /// grad_x = grad * gelu'(x).
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn gelu_backward<E: ElementType, const TILE: i32, const EXACT: bool, const TANH: bool>(
        grad_x: *mut E,
        x: *mut E,
        grad: *mut E,
        last: i32,
    ) {
        let tile: Shape<{ [1, TILE] }> = shape![1, TILE];
        let block: i32 = get_tile_block_id().0;
        let from: PointerTile<*mut E, { [1, TILE] }> = tile_of(x, block, 0i32, TILE, tile);
        let above: PointerTile<*mut E, { [1, TILE] }> = tile_of(grad, block, 0i32, TILE, tile);
        let to: PointerTile<*mut E, { [1, TILE] }> = tile_of(grad_x, block, 0i32, TILE, tile);
        if is_whole(EXACT) {
            let x: Tile<E, { [1, TILE] }> = load(from);
            let x: Tile<f32, { [1, TILE] }> = convert_tile(x);
            let g: Tile<E, { [1, TILE] }> = load(above);
            let g: Tile<f32, { [1, TILE] }> = convert_tile(g);
            let y: (Tile<f32, { [1, TILE] }>, Tile<f32, { [1, TILE] }>) = gelu_of(x, TANH);
            let y: Tile<E, { [1, TILE] }> = convert_tile(g * y.1);
            store(to, y);
        } else {
            let mask: Tile<bool, { [1, TILE] }> = inside::<1, TILE>(1i32, last);
            let x: Tile<E, { [1, TILE] }> = load_where(from, mask);
            let x: Tile<f32, { [1, TILE] }> = convert_tile(x);
            let g: Tile<E, { [1, TILE] }> = load_where(above, mask);
            let g: Tile<f32, { [1, TILE] }> = convert_tile(g);
            let y: (Tile<f32, { [1, TILE] }>, Tile<f32, { [1, TILE] }>) = gelu_of(x, TANH);
            let y: Tile<E, { [1, TILE] }> = convert_tile(g * y.1);
            store_where(to, y, mask);
        }
    }
}
