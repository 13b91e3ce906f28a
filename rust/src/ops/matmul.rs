// SPDX-License-Identifier: MIT
//! c = a @ b with f32 accumulation; f32 inputs are multiplied as tf32.

#[cutile::module]
pub mod matmul {
    use cutile::core::*;

    /// f16 and bf16: one [BM, BN] tile per program, grid (ceil(M / BM), ceil(N / BN), 1).
    #[cutile::entry(unchecked_accesses = true)]
    pub unsafe fn matmul_tile<E: ElementType, const BM: i32, const BN: i32, const BK: i32>(
        c: &Tensor<E, { [-1, -1] }>,
        a: &Tensor<E, { [-1, -1] }>,
        b: &Tensor<E, { [-1, -1] }>,
    ) {
        let ta: Shape<{ [BM, BK] }> = shape![BM, BK];
        let tb: Shape<{ [BK, BN] }> = shape![BK, BN];
        let tc: Shape<{ [BM, BN] }> = shape![BM, BN];
        let pa: Partition<E, { [BM, BK] }> =
            unsafe { make_partition_view(a, ta, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let pb: Partition<E, { [BK, BN] }> =
            unsafe { make_partition_view(b, tb, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut pc: PartitionMut<E, { [BM, BN] }> = unsafe { c.partition_full_mut(tc) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, tc);
        let steps: i32 = num_tiles(&pa, 1i32);
        for k in 0i32..steps {
            let x: Tile<E, { [BM, BK] }> = pa.load([pid.0, k]);
            let y: Tile<E, { [BK, BN] }> = pb.load([k, pid.1]);
            acc = mma(x, y, acc);
        }
        let r: Tile<E, { [BM, BN] }> = convert_tile(acc);
        unsafe { store_view_tko_mut(&mut pc, r, [pid.0, pid.1], ordering::Weak, scope::TileBlock, None, tma::Enabled) };
    }

    /// f32 through tf32, otherwise as matmul_tile.
    #[cutile::entry(unchecked_accesses = true)]
    pub unsafe fn matmul_tile_tf32<const BM: i32, const BN: i32, const BK: i32>(
        c: &Tensor<f32, { [-1, -1] }>,
        a: &Tensor<f32, { [-1, -1] }>,
        b: &Tensor<f32, { [-1, -1] }>,
    ) {
        let ta: Shape<{ [BM, BK] }> = shape![BM, BK];
        let tb: Shape<{ [BK, BN] }> = shape![BK, BN];
        let tc: Shape<{ [BM, BN] }> = shape![BM, BN];
        let pa: Partition<f32, { [BM, BK] }> =
            unsafe { make_partition_view(a, ta, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let pb: Partition<f32, { [BK, BN] }> =
            unsafe { make_partition_view(b, tb, padding::Zero, dim_map::Identity, new_token_unordered()) };
        let mut pc: PartitionMut<f32, { [BM, BN] }> = unsafe { c.partition_full_mut(tc) };
        let pid: (i32, i32, i32) = get_tile_block_id();
        let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, tc);
        let steps: i32 = num_tiles(&pa, 1i32);
        for k in 0i32..steps {
            let x: Tile<f32, { [BM, BK] }> = pa.load([pid.0, k]);
            let y: Tile<f32, { [BK, BN] }> = pb.load([k, pid.1]);
            let xt: Tile<tf32, { [BM, BK] }> = convert_tile(x);
            let yt: Tile<tf32, { [BK, BN] }> = convert_tile(y);
            acc = mma(xt, yt, acc);
        }
        unsafe {
            store_view_tko_mut(&mut pc, acc, [pid.0, pid.1], ordering::Weak, scope::TileBlock, None, tma::Enabled)
        };
    }
}
