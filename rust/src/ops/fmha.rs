// SPDX-License-Identifier: MIT
//! Attention: out = softmax(scale * q k^T) v for whole sequences, with an online softmax in f32.
//!
//! A block holds a tile of queries and walks over the tiles of its keys. Two things decide the speed on Hopper. What a
//! warpgroup computes has to overlap with what another one exponentiates: two blocks of 64 queries per multiprocessor,
//! or one of 128 with eight worker warps, whose accumulators do not spill. And blocks that run at the same time have to
//! share keys in L2: heads go in groups; inside a group the tile with the most keys goes first, so that a causal launch
//! does not end with its longest blocks. Computing the scores of the next tile beside the softmax of this one was
//! slower (529 TFLOP/s against 571, bf16, 4096 keys).

#[cutile::module]
pub mod fmha {
    use cutile::core::*;

    /// Tile of queries and index of batch and head of block `id`; `group` heads at a time, last tile first.
    fn placed(id: i32, tiles: i32, heads: i32, group: i32) -> (i32, i32) {
        let per_group: i32 = group * tiles;
        let g: i32 = id / per_group;
        let first: i32 = g * group;
        let width: i32 = min(heads - first, group);
        let inner: i32 = id - g * per_group;
        let tile: i32 = inner / width;
        (tiles - 1i32 - tile, first + inner - tile * width)
    }

    /// One tile of keys: scores to probabilities, and what of the sums so far is kept.
    ///
    /// The maximum is that of the scaled scores, for scale >= 0; the scale is folded into the exponent's multiply-add.
    fn weigh<const BM: i32, const BN: i32>(
        s: Tile<f32, { [BM, BN] }>,
        top: Tile<f32, { [BM] }>,
        scale: f32,
    ) -> (Tile<f32, { [BM, BN] }>, Tile<f32, { [BM] }>, Tile<f32, { [BM] }>) {
        let full: Shape<{ [BM, BN] }> = shape![BM, BN];
        let row_scale: Tile<f32, { [BM] }> = scale.broadcast(shape![BM]);
        let tile_scale: Tile<f32, { [BM, BN] }> = scale.broadcast(full);
        let here: Tile<f32, { [BM] }> = reduce_max(s, 1i32);
        let here: Tile<f32, { [BM] }> = mulf(here, row_scale, rounding::NearestEven, ftz::Enabled);
        let new: Tile<f32, { [BM] }> = max_tile(top, here);
        let below: Tile<f32, { [BM] }> = negf(new);
        let below: Tile<f32, { [BM, BN] }> = below.reshape(shape![BM, 1]).broadcast(full);
        let p: Tile<f32, { [BM, BN] }> = fma(s, tile_scale, below, rounding::NearestEven, ftz::Enabled);
        let p: Tile<f32, { [BM, BN] }> = exp2(p, ftz::Enabled);
        let kept: Tile<f32, { [BM] }> = exp2(top - new, ftz::Enabled);
        (p, new, kept)
    }

    /// The rest of one tile of keys: acc and its row's sum take the probabilities' product with the values `z`.
    fn gather<E: ElementType, const BM: i32, const BN: i32, const BD: i32>(
        s: Tile<f32, { [BM, BN] }>,
        z: Tile<E, { [1, 1, BN, BD] }>,
        acc: Tile<f32, { [BM, BD] }>,
        sum: Tile<f32, { [BM] }>,
        top: Tile<f32, { [BM] }>,
        scale: f32,
    ) -> (Tile<f32, { [BM, BD] }>, Tile<f32, { [BM] }>, Tile<f32, { [BM] }>) {
        let w: (Tile<f32, { [BM, BN] }>, Tile<f32, { [BM] }>, Tile<f32, { [BM] }>) = weigh(s, top, scale);
        let here: Tile<f32, { [BM] }> = reduce_sum(w.0, 1i32);
        let sum: Tile<f32, { [BM] }> = sum * w.2 + here;
        let kept: Tile<f32, { [BM, BD] }> = w.2.reshape(shape![BM, 1]).broadcast(shape![BM, BD]);
        let acc: Tile<f32, { [BM, BD] }> = acc * kept;
        let z: Tile<E, { [BN, BD] }> = z.reshape(shape![BN, BD]);
        let p: Tile<E, { [BM, BN] }> = convert_tile(w.0);
        let acc: Tile<f32, { [BM, BD] }> = mma(p, z, acc);
        (acc, sum, w.1)
    }

    /// q and out are (B, H, S, D), k and v (B, H_kv, S_kv, D), H a multiple of H_kv, BD >= D; D beyond the tensors reads
    /// as zero. `scale` is in units of log2 e and not negative; `group` heads run side by side. The grid is (tiles of
    /// queries * B * H, 1, 1).
    /// With CAUSAL a query sees the keys up to its own position, the last query being at the last key's.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn fmha_forward<
        E: ElementType,
        const BM: i32,
        const BN: i32,
        const BD: i32,
        const K_LATENCY: i32,
        const V_LATENCY: i32,
        const CAUSAL: bool,
    >(
        out: &Tensor<E, { [-1, -1, -1, -1] }>,
        q: &Tensor<E, { [-1, -1, -1, -1] }>,
        k: &Tensor<E, { [-1, -1, -1, -1] }>,
        v: &Tensor<E, { [-1, -1, -1, -1] }>,
        scale: f32,
        group: i32,
    ) {
        let full: Shape<{ [BM, BN] }> = shape![BM, BN];
        let wide: Shape<{ [BM, BD] }> = shape![BM, BD];
        let batches: i32 = get_shape_dim(q.shape(), 0i32);
        let heads: i32 = get_shape_dim(q.shape(), 1i32);
        let queries: i32 = get_shape_dim(q.shape(), 2i32);
        let kv_heads: i32 = get_shape_dim(k.shape(), 1i32);
        let keys: i32 = get_shape_dim(k.shape(), 2i32);
        let pq: Partition<E, { [1, 1, BM, BD] }> = q.partition(shape![1, 1, BM, BD]);
        let pk: Partition<E, { [1, 1, BD, BN] }> = k.partition_permuted(shape![1, 1, BD, BN], const_array![0, 1, 3, 2]);
        let pv: Partition<E, { [1, 1, BN, BD] }> = v.partition(shape![1, 1, BN, BD]);
        let mut po: PartitionMut<E, { [1, 1, BM, BD] }> = unsafe { out.partition_full_mut(shape![1, 1, BM, BD]) };

        let tiles: i32 = num_tiles(&pq, 2i32);
        let pid: (i32, i32, i32) = get_tile_block_id();
        let at: (i32, i32) = placed(pid.0, tiles, batches * heads, group);
        let b: i32 = at.1 / heads;
        let h: i32 = at.1 - b * heads;
        let h_kv: i32 = h / (heads / kv_heads);
        let first: i32 = at.0 * BM + keys - queries;

        let x: Tile<E, { [1, 1, BM, BD] }> = pq.load([b, h, at.0, 0i32]);
        let x: Tile<E, { [BM, BD] }> = x.reshape(wide);
        let mut top: Tile<f32, { [BM] }> = constant(f32::NEG_INFINITY, shape![BM]);
        let mut sum: Tile<f32, { [BM] }> = constant(0.0f32, shape![BM]);
        let mut acc: Tile<f32, { [BM, BD] }> = constant(0.0f32, wide);
        let nothing: Tile<f32, { [BM, BN] }> = constant(0.0f32, full);

        // Tiles of which every row sees every key, then those that need a mask.
        let whole: i32 = keys / BN;
        let whole: i32 = if CAUSAL { max(min(whole, (first + 1i32) / BN), 0i32) } else { whole };
        let all: i32 = ceil_div(keys, BN);
        let all: i32 = if CAUSAL { min(all, ceil_div(first + BM, BN)) } else { all };
        for j in 0i32..whole {
            let y: Tile<E, { [1, 1, BD, BN] }> = pk.load_pipelined::<K_LATENCY>([b, h_kv, 0i32, j]);
            let y: Tile<E, { [BD, BN] }> = y.reshape(shape![BD, BN]);
            let s: Tile<f32, { [BM, BN] }> = mma(x, y, nothing);
            let z: Tile<E, { [1, 1, BN, BD] }> = pv.load_pipelined::<V_LATENCY>([b, h_kv, j, 0i32]);
            let w: (Tile<f32, { [BM, BD] }>, Tile<f32, { [BM] }>, Tile<f32, { [BM] }>) =
                gather(s, z, acc, sum, top, scale);
            acc = w.0;
            sum = w.1;
            top = w.2;
        }
        let rows: Tile<i32, { [BM] }> = iota(shape![BM]);
        let rows: Tile<i32, { [BM] }> = rows + first.broadcast(shape![BM]);
        let rows: Tile<i32, { [BM, BN] }> = rows.reshape(shape![BM, 1]).broadcast(full);
        let columns: Tile<i32, { [BN] }> = iota(shape![BN]);
        let end: Tile<i32, { [BM, BN] }> = keys.broadcast(full);
        let hidden: Tile<f32, { [BM, BN] }> = constant(f32::NEG_INFINITY, full);
        for j in whole..all {
            let y: Tile<E, { [1, 1, BD, BN] }> = pk.load_pipelined::<K_LATENCY>([b, h_kv, 0i32, j]);
            let y: Tile<E, { [BD, BN] }> = y.reshape(shape![BD, BN]);
            let s: Tile<f32, { [BM, BN] }> = mma(x, y, nothing);
            let c: Tile<i32, { [BN] }> = columns + (j * BN).broadcast(shape![BN]);
            let c: Tile<i32, { [BM, BN] }> = c.reshape(shape![1, BN]).broadcast(full);
            let seen: Tile<bool, { [BM, BN] }> = lt_tile(c, end);
            let seen: Tile<bool, { [BM, BN] }> = if CAUSAL { seen & le_tile(c, rows) } else { seen };
            let s: Tile<f32, { [BM, BN] }> = select(seen, s, hidden);
            let z: Tile<E, { [1, 1, BN, BD] }> = pv.load_pipelined::<V_LATENCY>([b, h_kv, j, 0i32]);
            let w: (Tile<f32, { [BM, BD] }>, Tile<f32, { [BM] }>, Tile<f32, { [BM] }>) =
                gather(s, z, acc, sum, top, scale);
            acc = w.0;
            sum = w.1;
            top = w.2;
        }
        let sum: Tile<f32, { [BM, BD] }> = sum.reshape(shape![BM, 1]).broadcast(wide);
        let r: Tile<f32, { [BM, BD] }> = true_div(acc, sum);
        let r: Tile<E, { [BM, BD] }> = convert_tile(r);
        let r: Tile<E, { [1, 1, BM, BD] }> = r.reshape(shape![1, 1, BM, BD]);
        unsafe {
            store_view_tko_mut(&mut po, r, [b, h, at.0, 0i32], ordering::Weak, scope::TileBlock, None, tma::Enabled)
        };
    }
}
