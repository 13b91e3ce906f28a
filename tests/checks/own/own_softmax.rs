// SPDX-License-Identifier: MIT
//! softmax(scale * x) by rows, the Rust half of a pair; the Python half is own_softmax.py.

#[cutile::module]
pub mod own_softmax {
    use cutile::core::*;

    /// out[r, :] = softmax(scale * x[r, :]); WIDTH >= columns.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn own_softmax<E: ElementType, const WIDTH: i32>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
        n_rows: i32,
        scale: f32,
    ) {
        let tile: Shape<{ [1, WIDTH] }> = shape![1, WIDTH];
        let src: Partition<E, { [1, WIDTH] }> =
            unsafe { make_partition_view(x, tile, padding::NegInf, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [1, WIDTH] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let programs: (i32, i32, i32) = get_num_tile_blocks();
        for row in (pid.0..n_rows).step_by(programs.0 as usize) {
            let raw: Tile<E, { [1, WIDTH] }> = src.load([row, 0i32]);
            let wide: Tile<f32, { [1, WIDTH] }> = convert_tile(raw);
            let factor: Tile<f32, { [1, WIDTH] }> = broadcast_scalar(scale, tile);
            let v: Tile<f32, { [1, WIDTH] }> = wide * factor;
            let top: Tile<f32, { [1] }> = reduce_max(v, 1i32);
            let top: Tile<f32, { [1, WIDTH] }> = top.reshape(shape![1, 1]).broadcast(tile);
            let e: Tile<f32, { [1, WIDTH] }> = exp(v - top);
            let sum: Tile<f32, { [1] }> = reduce_sum(e, 1i32);
            let sum: Tile<f32, { [1, WIDTH] }> = sum.reshape(shape![1, 1]).broadcast(tile);
            let share: Tile<f32, { [1, WIDTH] }> = true_div(e, sum);
            let y: Tile<E, { [1, WIDTH] }> = convert_tile(share);
            unsafe {
                store_view_tko_mut(&mut dst, y, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
            };
        }
    }

    /// The same with one thing changed, the negative control: the maximum is added, not subtracted.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn own_softmax_changed<E: ElementType, const WIDTH: i32>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
        n_rows: i32,
        scale: f32,
    ) {
        let tile: Shape<{ [1, WIDTH] }> = shape![1, WIDTH];
        let src: Partition<E, { [1, WIDTH] }> =
            unsafe { make_partition_view(x, tile, padding::NegInf, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [1, WIDTH] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let programs: (i32, i32, i32) = get_num_tile_blocks();
        for row in (pid.0..n_rows).step_by(programs.0 as usize) {
            let raw: Tile<E, { [1, WIDTH] }> = src.load([row, 0i32]);
            let wide: Tile<f32, { [1, WIDTH] }> = convert_tile(raw);
            let factor: Tile<f32, { [1, WIDTH] }> = broadcast_scalar(scale, tile);
            let v: Tile<f32, { [1, WIDTH] }> = wide * factor;
            let top: Tile<f32, { [1] }> = reduce_max(v, 1i32);
            let top: Tile<f32, { [1, WIDTH] }> = top.reshape(shape![1, 1]).broadcast(tile);
            let e: Tile<f32, { [1, WIDTH] }> = exp(v + top);
            let sum: Tile<f32, { [1] }> = reduce_sum(e, 1i32);
            let sum: Tile<f32, { [1, WIDTH] }> = sum.reshape(shape![1, 1]).broadcast(tile);
            let share: Tile<f32, { [1, WIDTH] }> = true_div(e, sum);
            let y: Tile<E, { [1, WIDTH] }> = convert_tile(share);
            unsafe {
                store_view_tko_mut(&mut dst, y, [row, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
            };
        }
    }
}
