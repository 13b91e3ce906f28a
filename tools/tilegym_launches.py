# SPDX-License-Identifier: MIT
"""How to make each of TileGym's cuTile Python ops launch its kernels, on meta tensors: what the Tile IR tools feed on.

``programs(dtype)`` maps a name to a function without arguments; ``capture`` (port/capture.py) runs it. Shapes are small
but take the same paths as real ones; they do not matter to the compiler beyond divisibility and extents of 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Program = Callable[[], Any]


def programs(dtype: str = "float16") -> dict[str, Program]:
    """One program per op and mode, with inputs of ``dtype`` where the op has a choice; one that refuses it raises."""
    import torch

    from tilegym_rs_backend.port.capture import import_tilegym

    import_tilegym()
    import tilegym.ops as ops

    chosen = getattr(torch, dtype)

    def new(*shape: int, of: Any = None, grad: bool = False) -> Any:
        return torch.empty(*shape, dtype=of or chosen, device="meta", requires_grad=grad)

    return {
        **_elementwise(torch, ops, new),
        **_normalization(torch, ops, new),
        **_products(torch, ops, new),
        **_attention(torch, ops, new),
        **_mla(torch, ops, new),
        **_mixture(torch, ops, new),
        **_recurrent(torch, ops, new),
        **_backward(torch, ops, new),
    }


def _elementwise(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    found: dict[str, Program] = {
        "relu": lambda: ops.activation.relu(new(64, 64)),
        "gelu": lambda: ops.activation.gelu(new(64, 512)),
        "gelu_tanh": lambda: ops.activation.gelu(new(64, 512), "tanh"),
        "geglu": lambda: ops.activation.geglu(new(64, 32, 16, 128), 3, "tanh"),
        "silu_and_mul": lambda: ops.silu_and_mul(new(128, 512)),
        "silu_and_mul_odd": lambda: ops.silu_and_mul(new(7, 1000)),
        "swiglu": lambda: ops.get_swiglu()(new(4, 64, 512), new(4, 64, 512)),
        "dropout": lambda: ops.dropout(new(1 << 14), 7, 0.25, True, False),
        "transpose": lambda: ops.transpose(new(256, 512)),
        "rope": lambda: ops.apply_rope_base(
            new(2, 64, 8, 128).transpose(1, 2), new(2, 64, 2, 128).transpose(1, 2), new(2, 64, 128), new(2, 64, 128)
        ),
        "nvfp4_quantize": lambda: ops.nvfp4_quantize(new(256, 256)),
    }
    modes: dict[str, dict[str, bool]] = {"gather": {}, "tma": {"use_tma": True}, "chunked": {"use_chunked": True}}
    modes["multi_wave"] = {"use_multi_wave": True}
    for mode, keywords in modes.items():
        found[f"softmax_{mode}"] = functools.partial(lambda k: ops.softmax(new(64, 1024), **k), keywords)
        found[f"softmax_{mode}_odd"] = functools.partial(lambda k: ops.softmax(new(64, 1009), **k), keywords)
    return found


def _normalization(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    modes = ("static_persistent", "multi_wave_reload", "multi_wave_cached")

    def rms(mode: str, rows: int = 8192, columns: int = 2048) -> Any:
        return ops.rms_norm(new(rows, columns), None, new(columns), 1e-5, mode=mode)

    found: dict[str, Program] = {f"rms_norm_{mode}": functools.partial(rms, mode) for mode in modes}
    f32 = torch.float32
    return {
        **found,
        "rms_norm_wide": lambda: rms("static_persistent", 4096, 16384),
        "rms_norm_backward": lambda: ops.get_rms_norm_module().rms_norm_backward(
            new(512, 1024), new(512, 1024), new(1024), new(512, of=f32)
        ),
        "layer_norm_legacy": lambda: ops.layer_norm_legacy(new(512, 1024), None, new(1024), new(1024), 1e-5),
        "persistent_layer_norm": lambda: ops.persistent_layer_norm(new(4000, 1024), None, new(1024), new(1024), 1e-6),
        "layer_norm_rows": lambda: ops.layer_norm(new(512, 1024), 1, 2, new(1024), new(1024), 1e-5),
        "layer_norm_middle": lambda: ops.layer_norm(new(8, 32, 2048), 1, 2, new(32), new(32), 1e-5),
        "mhc_gemm_rms_scale": lambda: ops.mhc_gemm_rms_scale(
            new(1024, 1024), new(1024, 24, of=f32), 4, 0.7, 1.2, 0.8, new(24, of=f32)
        ),
        "mhc_apply_residual": lambda: ops.mhc_apply_residual(new(512, 4096), new(512, 1024), new(512, 24, of=f32), 4),
        "mhc_sinkhorn": lambda: ops.mhc_sinkhorn(new(1024, 24, of=f32), 4),
    }


def _products(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    f32, fp8 = torch.float32, torch.float8_e4m3fn
    return {
        "matmul": lambda: ops.matmul(new(512, 256), new(256, 1024), static_persistent=False),
        "matmul_persistent": lambda: ops.matmul(new(512, 256), new(256, 1024), static_persistent=True),
        "matmul_odd": lambda: ops.matmul(new(300, 77), new(77, 129), static_persistent=False),
        "matmul_transposed": lambda: ops.matmul(new(512, 256), new(1024, 256), trans_b=True, static_persistent=False),
        "matmul_fp8": lambda: ops.matmul(new(512, 256, of=fp8), new(256, 512, of=fp8), static_persistent=True),
        "bmm": lambda: ops.bmm(new(4, 256, 512), new(4, 512, 256), static_persistent=False),
        "bmm_persistent": lambda: ops.bmm(new(4, 256, 512), new(4, 512, 256)),
        "group_gemm": lambda: ops.group_gemm([new(256, 512)] * 3, [new(512, 256)] * 3),
        "splitk_reduce": lambda: ops.splitk_reduce(new(1, 16, 8, 128), new(1, 16, 8, of=f32), new(1, 16, 128), 2048),
        "w8a8_block_fp8_matmul": lambda: ops.w8a8_block_fp8_matmul(
            new(256, 1024, of=fp8),
            new(512, 1024, of=fp8),
            new(256, 8, of=f32),
            new(4, 8, of=f32),
            block_size=[128, 128],
            output_dtype=torch.bfloat16,
            use_tma=None,
        ),
        "linear_gluact_linear": lambda: ops.linear_gluact_linear(
            new(256, 512), new(1024, 512), new(1024, 512), new(512, 1024)
        ),
    }


def _attention(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    i32, fp8 = torch.int32, torch.float8_e5m2

    def same(count: int, *shape: int, of: Any = None) -> list[Any]:
        return [new(*shape, of=of) for _ in range(count)]

    def backward() -> None:
        from tilegym.ops.cutile import attention

        query, key, value = same(3, 1, 4, 512, 64)
        out, lse = attention.fmha_forward_with_lse(query, key, value, 0.125)
        attention._fmha_backward(query, key, value, out, out, lse, 0.125)

    start = torch.empty(1, dtype=i32, device="meta")
    lengths = torch.empty(2, dtype=i32, device="meta")
    window = {"window_size": 512, "soft_cap": 30.0}
    return {
        "fmha": lambda: ops.fmha(*same(3, 2, 8, 512, 64)),
        "fmha_full": lambda: ops.fmha(*same(3, 2, 8, 512, 64), is_causal=False),
        "fmha_fp8": lambda: ops.fmha(*same(3, 2, 8, 512, 128, of=fp8)),
        "fmha_backward": backward,
        "fmha_decode": lambda: ops.fmha_decode(new(1, 16, 1, 128), new(1, 4, 2048, 128), new(1, 4, 2048, 128), 0.1),
        "fmha_variant": lambda: ops.fmha_variant(*same(3, 2, 8, 1024, 128)),
        "fmha_varlen": lambda: ops.fmha_varlen(*same(3, 2, 8, 512, 128), q_lens=lengths, kv_lens=lengths),
        "attention_sink": lambda: ops.attention_sink(
            new(1, 1024, 8, 4, 64), new(1, 1024, 8, 64), new(1, 1024, 8, 64), new(32), 0.125, None, start
        ),
        "attention_sink_decode": lambda: ops.attention_sink_decode(
            new(1, 1, 8, 4, 64), new(1, 2048, 8, 64), new(1, 2048, 8, 64), new(32), 0.125, None, start
        ),
        "gemma_attention": lambda: ops.gemma_attention(
            new(1, 8, 2048, 128), new(1, 4, 2048, 128), new(1, 4, 2048, 128), **window
        ),
        "gemma_attention_tuned": lambda: ops.gemma_attention(
            new(1, 8, 2048, 256), new(1, 1, 2048, 256), new(1, 1, 2048, 256), soft_cap=30.0, use_autotune=True
        ),
        "gemma_attention_decode": lambda: ops.gemma_attention_decode(
            new(1, 8, 1, 128), new(1, 4, 2048, 128), new(1, 4, 2048, 128), **window
        ),
        "swa_attention": lambda: ops.swa_attention(*same(3, 1, 4, 1024, 128), 512),
    }


def _mla(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    return {
        "mla": lambda: ops.mla(
            new(2, 8, 1024, 128),
            new(2, 8, 1024, 128),
            new(2, 8, 1024, 128),
            new(2, 8, 1024, 64),
            new(2, 1, 1024, 64),
            True,
            None,
        ),
        "mla_decoding": lambda: ops.mla_decoding(
            new(16, 16, 512), new(16, 16, 64), new(16, 1024, 512), new(16, 1024, 64), None
        ),
        "mla_decoding_split_kv": lambda: ops.mla_decoding_split_kv(
            new(1, 16, 512), new(1, 16, 64), new(1, 2048, 512), new(1, 2048, 64)
        ),
        "sparse_mla": lambda: ops.sparse_mla(
            new(1, 64, 256, 128),
            new(1, 1, 512, 128),
            new(1, 1, 512, 128),
            torch.empty(1, 256, 1, 128, dtype=torch.int32, device="meta"),
            new(1, 64, 256, 64),
            new(1, 1, 512, 64),
        ),
    }


def _mixture(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    i32, f32 = torch.int32, torch.float32

    def integers(*shape: int, of: Any = i32) -> Any:
        return torch.empty(*shape, dtype=of, device="meta")

    def fused() -> None:
        tiles = {"TILE_SIZE_M": 128, "TILE_SIZE_N": 128, "TILE_SIZE_K": 64, "GROUP_SIZE_M": 8}
        ops.moe_interface.invoke_fused_moe_kernel(
            new(128, 512),
            new(16, 1024, 512),
            new(128, 4, 1024),
            None,
            None,
            new(128, 4),
            integers(128, 4, of=torch.int64),
            integers(2560),
            integers(20),
            integers(1),
            False,
            4,
            tiles,
            compute_type=new(1).dtype,
            use_fp8_w8a8=False,
        )

    def backward() -> None:
        tokens, hidden, inner, experts = 256, 512, 256, 8
        rows = tokens * 4
        ops.moe_actgrad_bwd(
            new(tokens, hidden),
            new(rows, 2 * inner),
            new(experts, inner, hidden),
            new(rows, 2 * inner),
            new(rows, of=f32),
            None,
            None,
            new(rows, inner),
            new(rows),
            integers(experts + 1),
            integers(rows),
            integers(rows),
            "swiglu",
            max_tokens_per_expert=256,
        )

    def cross_entropy() -> None:
        import cuda.tile as ct
        from tilegym.ops.cutile.experimental import fused_linear_cross_entropy as module

        arguments = (new(512, 4096), new(512, of=f32), new(512, of=f32), 512, 4096, 4096)
        ct.launch(None, (132,), module._ce_online_kernel, arguments)

    return {
        "moe_align_block_size": lambda: ops.moe_interface.moe_align_block_size(
            integers(128, 4, of=torch.int64), 128, 16
        ),
        "fused_moe": fused,
        "moe_actgrad_bwd": backward,
        "fused_linear_cross_entropy": cross_entropy,
    }


def _recurrent(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    f32 = torch.float32

    def rule(function: str, batch: int, length: int, heads: int, **more: Any) -> Any:
        wide = [new(batch, length, heads, 128) for _ in range(3)]
        return getattr(ops, function)(*wide, new(batch, length, heads), new(batch, length, heads), **more)

    def mamba(backward: bool) -> None:
        batch, length, heads, width, groups, state = 1, 512, 8, 64, 1, 128
        x, b, c = new(batch, length, heads, width), new(batch, length, groups, state), new(batch, length, groups, state)
        a, d, dt = new(heads, of=f32), new(heads, of=f32), new(batch, length, heads, of=f32)
        initial = new(batch, heads, width, state, of=f32)
        if backward:
            ops.mamba2_chunk_backward(x, a, b, c, d, dt, initial, x, initial)
        else:
            ops.mamba2_chunk_forward(x, a, b, c, d, dt, initial)

    final = {"use_qk_l2norm_in_kernel": True, "output_final_state": True}
    return {
        "chunk_gated_delta_rule": lambda: rule("chunk_gated_delta_rule", 4, 512, 4),
        "chunk_gated_delta_rule_l2": lambda: rule("chunk_gated_delta_rule", 1, 512, 4, **final),
        "recurrent_gated_delta_rule": lambda: rule("recurrent_gated_delta_rule", 2, 256, 4),
        "recurrent_gated_delta_rule_step": lambda: rule(
            "recurrent_gated_delta_rule", 1, 1, 8, initial_state=new(1, 8, 128, 128, of=f32), **final
        ),
        "mamba2_forward": lambda: mamba(False),
        "mamba2_backward": lambda: mamba(True),
    }


def _backward(torch: Any, ops: Any, new: Any) -> dict[str, Program]:
    def of(forward: Program) -> Program:
        def run() -> None:
            with torch.enable_grad():
                out = forward()
                out = out[0] if isinstance(out, tuple) else out
                out.backward(torch.empty_like(out))

        return run

    return {
        "silu_and_mul_backward": of(lambda: ops.silu_and_mul(new(64, 1024, grad=True))),
        "swiglu_backward": of(lambda: ops.get_swiglu()(new(4, 64, 512, grad=True), new(4, 64, 512, grad=True))),
        "geglu_backward": of(lambda: ops.activation.geglu(new(64, 128, grad=True), -1, "tanh")),
        "gelu_backward": of(lambda: ops.activation.gelu(new(64, 512, grad=True))),
    }
