// SPDX-License-Identifier: MIT
//! Row-wise softmax.

#[cutile::module]
pub mod softmax {
    use cutile::core::*;

    /// out[r, :] = softmax(x[r, :]); BLOCK >= columns, programs take rows in steps of the grid.
    #[cutile::entry(unchecked_accesses = true)]
    pub unsafe fn softmax_row<E: ElementType, const BLOCK: i32>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
        n_rows: i32,
    ) {
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let src: Partition<E, { [1, BLOCK] }> =
            unsafe { make_partition_view(x, tile, padding::NegInf, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [1, BLOCK] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let programs: (i32, i32, i32) = get_num_tile_blocks();
        for row in (pid.0..n_rows).step_by(programs.0 as usize) {
            let raw: Tile<E, { [1, BLOCK] }> = src.load([row, 0i32]);
            let v: Tile<f32, { [1, BLOCK] }> = convert_tile(raw);
            let largest: Tile<f32, { [1] }> = reduce_max(v, 1i32);
            let largest: Tile<f32, { [1, BLOCK] }> = largest.reshape(shape![1, 1]).broadcast(tile);
            let e: Tile<f32, { [1, BLOCK] }> = exp(v - largest);
            let sum: Tile<f32, { [1] }> = reduce_sum(e, 1i32);
            let sum: Tile<f32, { [1, BLOCK] }> = sum.reshape(shape![1, 1]).broadcast(tile);
            let y: Tile<E, { [1, BLOCK] }> = convert_tile(e / sum);
            unsafe {
                store_view_tko_mut(&mut dst, y, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
            };
        }
    }
}
