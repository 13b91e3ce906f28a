// SPDX-License-Identifier: MIT
//! silu(a) * b, elementwise over rows.

#[cutile::module]
pub mod silu_and_mul {
    use cutile::core::*;

    /// out = silu(a) * b on tiles of one row by BLOCK columns; grid (rows, ceil(columns / BLOCK), 1).
    #[cutile::entry(unchecked_accesses = true)]
    pub unsafe fn silu_and_mul_row<E: ElementType, const BLOCK: i32>(
        out: &Tensor<E, { [-1, -1] }>,
        a: &Tensor<E, { [-1, -1] }>,
        b: &Tensor<E, { [-1, -1] }>,
    ) {
        let tile: Shape<{ [1, BLOCK] }> = shape![1, BLOCK];
        let pa: Partition<E, { [1, BLOCK] }> =
            unsafe { make_partition_view(a, tile, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let pb: Partition<E, { [1, BLOCK] }> =
            unsafe { make_partition_view(b, tile, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut dst: PartitionMut<E, { [1, BLOCK] }> = unsafe { out.partition_full_mut(tile) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let raw_a: Tile<E, { [1, BLOCK] }> = pa.load([pid.0, pid.1]);
        let raw_b: Tile<E, { [1, BLOCK] }> = pb.load([pid.0, pid.1]);
        let va: Tile<f32, { [1, BLOCK] }> = convert_tile(raw_a);
        let vb: Tile<f32, { [1, BLOCK] }> = convert_tile(raw_b);
        let one: Tile<f32, { [1, BLOCK] }> = constant(1.0f32, tile);
        let zero: Tile<f32, { [1, BLOCK] }> = constant(0.0f32, tile);
        let decay: Tile<f32, { [1, BLOCK] }> = exp(zero - va);
        let silu: Tile<f32, { [1, BLOCK] }> = va / (one + decay);
        let y: Tile<E, { [1, BLOCK] }> = convert_tile(silu * vb);
        unsafe {
            store_view_tko_mut(&mut dst, y, [pid.0, pid.1], ordering::Weak, scope::TileBlock, None, tma::Enabled)
        };
    }
}
