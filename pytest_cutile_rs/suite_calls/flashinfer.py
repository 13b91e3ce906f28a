# SPDX-License-Identifier: MIT
"""Calls of ``tilegym.suites.flashinfer``."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.suite_calls._op import HALF
from pytest_cutile_rs.suite_calls._op import Make
from pytest_cutile_rs.suite_calls._op import Row
from pytest_cutile_rs.suite_calls._op import call

_F8 = ("f8e4m3",)
_PAGES = 4
"""Of a sequence."""


def _row(op: str, tag: str, build: Any, dtypes: tuple[str, ...] = HALF) -> Row:
    return Row(f"flashinfer.{op}", tag, build, dtypes)


def _tables(m: Make) -> Any:
    """Pages of two sequences, out of order."""
    return m.of([[3, 1, 2, 0], [7, 4, 6, 5]])


def _lengths(m: Make, page: int) -> Any:
    return m.of([3 * page + 8, 2 * page + 3])


def _decode(m: Make, heads: int, page: int = 64, **options: Any) -> Call:
    cache = [m(2 * _PAGES, page, 2, 128) for _ in range(2)]
    return call(m(2, heads, 128), *cache, _lengths(m, page), _tables(m), 0.08, 1.0, _PAGES * page, **options)


def _latent(m: Make, heads: int, page: int = 64, **options: Any) -> Call:
    q, cache = (m(2, heads, 128), m(2, heads, 64)), (m(2 * _PAGES, page, 128), m(2 * _PAGES, page, 64))
    return call(*q, *cache, _lengths(m, page), _tables(m), 0.08, 1.0, _PAGES * page, **options)


def _prefill(m: Make, paged: bool, page: int = 64, **options: Any) -> Call:
    lengths = m.of([70, 50])
    shape = (2 * _PAGES, page, 2, 128) if paged else (120, 2, 128)
    cache = [m(*shape) for _ in range(2)]
    tables = _tables(m) if paged else None
    return call(m(120, 4, 128), *cache, lengths, lengths, m.of([0, 70]), tables, 0.08, 1.0, 2, 70, **options)


def _ragged(m: Make, **options: Any) -> Call:
    return call(m(256, 128), m(2, 128, 128), m.of([0, 100, 256]), 156, **options)


def _scaled(m: Make, split: int) -> Call:
    scales = m(256, 2, dtype="f32"), m(2, 2, 2, dtype="f32")
    return call(m(256, 256), m(2, 256, 256), *scales, m.of([0, split, 256]), max(split, 256 - split))


ROWS = (
    _row(
        "gemm.gemm_alpha_beta",
        "256x256x128",
        lambda m: call(m(256, 128), m(256, 128), m(256, 256), alpha=1.5, beta=0.5, num_sms=None),
    ),
    _row(
        "gemm.gemm_alpha_beta",
        "200x136x72-nn",
        lambda m: call(m(200, 72), m(72, 136), m(200, 136), trans_b=False, num_sms=None),
    ),
    _row(
        "gemm.masked_bmm",
        "2x128x128x128",
        lambda m: call(m(2, 128, 128), m(2, 128, 128), m.of([100, 128])),
        ("f16",),
    ),
    _row(
        "gemm.masked_bmm",
        "2x128x128x128-nt",
        lambda m: call(m(2, 128, 128), m(2, 128, 128), m.of([100, 128]), transpose_b=True),
        ("f16",),
    ),
    _row("gemm.ragged_bmm", "256x128x128", _ragged),
    _row("gemm.ragged_bmm", "256x128x128-nn", lambda m: _ragged(m, transpose_b=False)),
    _row("gemm.ragged_block_scaled_bmm", "even", lambda m: _scaled(m, 128), _F8),
    _row("gemm.ragged_block_scaled_bmm", "uneven", lambda m: _scaled(m, 30), _F8),
    _row(
        "rope.rope_quantize_fp8",
        "8x4x64",
        lambda m: call(
            m(8, 4, 64),
            m(8, 64),
            m(8, 4, 128),
            m(8, 128),
            m(64, 64, dtype="f32"),
            m.below(64, 8, dtype="i32"),
            is_neox=False,
        ),
    ),
    _row("quant.per_token_group_quant_8bit", "8x512", lambda m: call(m(8, 512), 128), ("bf16", "f32")),
    _row(
        "quant.per_token_group_quant_8bit",
        "8x512-columns",
        lambda m: call(m(8, 512), 128, column_major_scales=True, scale_ue8m0=True),
        ("bf16", "f32"),
    ),
    _row("attention.decode_attention_kv_paged", "8", lambda m: _decode(m, 8)),
    _row("attention.decode_attention_kv_paged", "8-split", lambda m: _decode(m, 8, force_split_kv=True)),
    _row("attention.decode_attention_kv_paged", "6-split", lambda m: _decode(m, 6, force_split_kv=True)),
    _row("attention.decode_attention_kv_paged", "8-pages-of-32", lambda m: _decode(m, 8, 32), ("bf16",)),
    _row("attention.decode_mla_kv_paged", "16", lambda m: _latent(m, 16)),
    _row("attention.decode_mla_kv_paged", "16-split", lambda m: _latent(m, 16, force_split_kv=True)),
    _row("attention.prefill_attention_kv_paged", "lpt", lambda m: _prefill(m, True)),
    _row("attention.prefill_attention_kv_paged", "lpt-pages-of-32", lambda m: _prefill(m, True, 32), ("bf16",)),
    _row("attention.prefill_attention_kv_paged", "plain", lambda m: _prefill(m, True, use_lpt_scheduler=False)),
    _row("attention.prefill_attention_kv_ragged", "lpt", lambda m: _prefill(m, False)),
    _row("attention.prefill_attention_kv_ragged", "plain", lambda m: _prefill(m, False, use_lpt_scheduler=False)),
)
