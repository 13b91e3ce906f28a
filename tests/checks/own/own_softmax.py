# SPDX-License-Identifier: MIT
"""softmax(scale * x) by rows, the cuTile Python half of a pair; the Rust half is own_softmax.rs."""

import cuda.tile as ct
import torch


@ct.kernel(occupancy=2)
def own_softmax(out, x, n_rows: int, scale: float, WIDTH: ct.Constant[int]):
    for row in range(ct.bid(0), n_rows, ct.num_blocks(0)):
        raw = ct.load(x, index=(row, 0), shape=(1, WIDTH), padding_mode=ct.PaddingMode.NEG_INF)
        v = ct.astype(raw, ct.float32) * scale
        e = ct.exp(v - ct.max(v, 1, keepdims=True))
        total = ct.sum(e, 1, keepdims=True)
        share = ct.truediv(e, total, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True)
        ct.store(out, index=(row, 0), tile=ct.astype(share, out.dtype))


def run(x, scale=0.5):
    """Host side: (rows, columns) -> (rows, columns), two programs per SM."""
    out = torch.empty_like(x)
    rows, columns = x.shape
    programs = 2 * torch.cuda.get_device_properties(x.device).multi_processor_count
    width = 1 << (columns - 1).bit_length()
    ct.launch(torch.cuda.current_stream(), (min(rows, programs),), own_softmax, (out, x, rows, scale, width))
    return out
