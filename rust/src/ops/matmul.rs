// SPDX-License-Identifier: MIT
//! c = op(a) @ op(b) with f32 accumulation.
//!
//! `matmul_tile` computes one tile of c per block; `matmul_persistent` starts as many blocks as fit on the device and
//! lets each walk over several tiles, so that the loads of the next tile overlap the store of the last one. Both number
//! the tiles in groups of rows, so that blocks running at the same time share rows of a and columns of b in L2.

#[cutile::module]
pub mod matmul {
    use cutile::core::*;

    /// Row and column of tile `id`: groups of `group` rows, inside a group column by column.
    fn grouped(id: i32, tiles_m: i32, tiles_n: i32, group: i32) -> (i32, i32) {
        let per_group: i32 = group * tiles_n;
        let g: i32 = id / per_group;
        let first: i32 = g * group;
        let height: i32 = min(tiles_m - first, group);
        let inner: i32 = id - g * per_group;
        let n: i32 = inner / height;
        (first + inner - n * height, n)
    }

    /// f16, bf16, f8e4m3fn, f8e5m2. a is (M, K) as stored, or (K, M) with TRANS_A; b is (K, N), or (N, K) with TRANS_B.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn matmul_tile<
        E: ElementType,
        const BM: i32,
        const BN: i32,
        const BK: i32,
        const GROUP: i32,
        const TRANS_A: bool,
        const TRANS_B: bool,
    >(
        c: &Tensor<E, { [-1, -1] }>,
        a: &Tensor<E, { [-1, -1] }>,
        b: &Tensor<E, { [-1, -1] }>,
    ) {
        let ta: Shape<{ [BM, BK] }> = shape![BM, BK];
        let tb: Shape<{ [BK, BN] }> = shape![BK, BN];
        let tc: Shape<{ [BM, BN] }> = shape![BM, BN];
        let pa: Partition<E, { [BM, BK] }> =
            if TRANS_A { a.partition_permuted(ta, const_array![1, 0]) } else { a.partition(ta) };
        let pb: Partition<E, { [BK, BN] }> =
            if TRANS_B { b.partition_permuted(tb, const_array![1, 0]) } else { b.partition(tb) };
        let mut pc: PartitionMut<E, { [BM, BN] }> = unsafe { c.partition_full_mut(tc) };
        let tiles_k: i32 = num_tiles(&pa, 1i32);
        let pid: (i32, i32, i32) = get_tile_block_id();
        let at: (i32, i32) = grouped(pid.0, num_tiles(&pc, 0i32), num_tiles(&pc, 1i32), GROUP);
        let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, tc);
        for k in 0i32..tiles_k {
            let x: Tile<E, { [BM, BK] }> = pa.load([at.0, k]);
            let y: Tile<E, { [BK, BN] }> = pb.load([k, at.1]);
            acc = mma(x, y, acc);
        }
        let r: Tile<E, { [BM, BN] }> = convert_tile(acc);
        unsafe { store_view_tko_mut(&mut pc, r, [at.0, at.1], ordering::Weak, scope::TileBlock, None, tma::Enabled) };
    }

    /// As `matmul_tile`, blocks striding over the tiles. Any grid is right; as many blocks as the device holds is fast.
    /// LATENCY (1 to 10) is the cost of a load as the compiler shall assume it; it sets how far ahead loads are issued.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn matmul_persistent<
        E: ElementType,
        const BM: i32,
        const BN: i32,
        const BK: i32,
        const GROUP: i32,
        const LATENCY: i32,
        const TRANS_A: bool,
        const TRANS_B: bool,
    >(
        c: &Tensor<E, { [-1, -1] }>,
        a: &Tensor<E, { [-1, -1] }>,
        b: &Tensor<E, { [-1, -1] }>,
    ) {
        let ta: Shape<{ [BM, BK] }> = shape![BM, BK];
        let tb: Shape<{ [BK, BN] }> = shape![BK, BN];
        let tc: Shape<{ [BM, BN] }> = shape![BM, BN];
        let pa: Partition<E, { [BM, BK] }> =
            if TRANS_A { a.partition_permuted(ta, const_array![1, 0]) } else { a.partition(ta) };
        let pb: Partition<E, { [BK, BN] }> =
            if TRANS_B { b.partition_permuted(tb, const_array![1, 0]) } else { b.partition(tb) };
        let mut pc: PartitionMut<E, { [BM, BN] }> = unsafe { c.partition_full_mut(tc) };
        let tiles_m: i32 = num_tiles(&pc, 0i32);
        let tiles_n: i32 = num_tiles(&pc, 1i32);
        let tiles_k: i32 = num_tiles(&pa, 1i32);
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let total: i32 = tiles_m * tiles_n;
        for id in (pid.0..total).step_by(step.0 as usize) {
            let at: (i32, i32) = grouped(id, tiles_m, tiles_n, GROUP);
            let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, tc);
            for k in 0i32..tiles_k {
                let x: Tile<E, { [BM, BK] }> = pa.load_pipelined::<LATENCY>([at.0, k]);
                let y: Tile<E, { [BK, BN] }> = pb.load_pipelined::<LATENCY>([k, at.1]);
                acc = mma(x, y, acc);
            }
            let r: Tile<E, { [BM, BN] }> = convert_tile(acc);
            unsafe {
                store_view_tko_mut(&mut pc, r, [at.0, at.1], ordering::Weak, scope::TileBlock, None, tma::Enabled)
            };
        }
    }

    /// f32: the operands are rounded to tf32, ten bits of mantissa, and accumulated in f32.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn matmul_tile_tf32<
        const BM: i32,
        const BN: i32,
        const BK: i32,
        const GROUP: i32,
        const TRANS_A: bool,
        const TRANS_B: bool,
    >(
        c: &Tensor<f32, { [-1, -1] }>,
        a: &Tensor<f32, { [-1, -1] }>,
        b: &Tensor<f32, { [-1, -1] }>,
    ) {
        let ta: Shape<{ [BM, BK] }> = shape![BM, BK];
        let tb: Shape<{ [BK, BN] }> = shape![BK, BN];
        let tc: Shape<{ [BM, BN] }> = shape![BM, BN];
        let pa: Partition<f32, { [BM, BK] }> =
            if TRANS_A { a.partition_permuted(ta, const_array![1, 0]) } else { a.partition(ta) };
        let pb: Partition<f32, { [BK, BN] }> =
            if TRANS_B { b.partition_permuted(tb, const_array![1, 0]) } else { b.partition(tb) };
        let mut pc: PartitionMut<f32, { [BM, BN] }> = unsafe { c.partition_full_mut(tc) };
        let tiles_k: i32 = num_tiles(&pa, 1i32);
        let pid: (i32, i32, i32) = get_tile_block_id();
        let at: (i32, i32) = grouped(pid.0, num_tiles(&pc, 0i32), num_tiles(&pc, 1i32), GROUP);
        let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, tc);
        for k in 0i32..tiles_k {
            let x: Tile<f32, { [BM, BK] }> = pa.load([at.0, k]);
            let y: Tile<f32, { [BK, BN] }> = pb.load([k, at.1]);
            let x: Tile<tf32, { [BM, BK] }> = convert_tile(x);
            let y: Tile<tf32, { [BK, BN] }> = convert_tile(y);
            acc = mma(x, y, acc);
        }
        unsafe { store_view_tko_mut(&mut pc, acc, [at.0, at.1], ordering::Weak, scope::TileBlock, None, tma::Enabled) };
    }

    /// As `matmul_persistent`, for f32 as `matmul_tile_tf32` takes it.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn matmul_persistent_tf32<
        const BM: i32,
        const BN: i32,
        const BK: i32,
        const GROUP: i32,
        const LATENCY: i32,
        const TRANS_A: bool,
        const TRANS_B: bool,
    >(
        c: &Tensor<f32, { [-1, -1] }>,
        a: &Tensor<f32, { [-1, -1] }>,
        b: &Tensor<f32, { [-1, -1] }>,
    ) {
        let ta: Shape<{ [BM, BK] }> = shape![BM, BK];
        let tb: Shape<{ [BK, BN] }> = shape![BK, BN];
        let tc: Shape<{ [BM, BN] }> = shape![BM, BN];
        let pa: Partition<f32, { [BM, BK] }> =
            if TRANS_A { a.partition_permuted(ta, const_array![1, 0]) } else { a.partition(ta) };
        let pb: Partition<f32, { [BK, BN] }> =
            if TRANS_B { b.partition_permuted(tb, const_array![1, 0]) } else { b.partition(tb) };
        let mut pc: PartitionMut<f32, { [BM, BN] }> = unsafe { c.partition_full_mut(tc) };
        let tiles_m: i32 = num_tiles(&pc, 0i32);
        let tiles_n: i32 = num_tiles(&pc, 1i32);
        let tiles_k: i32 = num_tiles(&pa, 1i32);
        let pid: (i32, i32, i32) = get_tile_block_id();
        let step: (i32, i32, i32) = get_num_tile_blocks();
        let total: i32 = tiles_m * tiles_n;
        for id in (pid.0..total).step_by(step.0 as usize) {
            let at: (i32, i32) = grouped(id, tiles_m, tiles_n, GROUP);
            let mut acc: Tile<f32, { [BM, BN] }> = constant(0.0f32, tc);
            for k in 0i32..tiles_k {
                let x: Tile<f32, { [BM, BK] }> = pa.load_pipelined::<LATENCY>([at.0, k]);
                let y: Tile<f32, { [BK, BN] }> = pb.load_pipelined::<LATENCY>([k, at.1]);
                let x: Tile<tf32, { [BM, BK] }> = convert_tile(x);
                let y: Tile<tf32, { [BK, BN] }> = convert_tile(y);
                acc = mma(x, y, acc);
            }
            unsafe {
                store_view_tko_mut(&mut pc, acc, [at.0, at.1], ordering::Weak, scope::TileBlock, None, tma::Enabled)
            };
        }
    }
}
