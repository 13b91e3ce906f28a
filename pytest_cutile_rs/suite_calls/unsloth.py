# SPDX-License-Identifier: MIT
"""Calls of ``tilegym.suites.unsloth``."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.suite_calls._op import HALF
from pytest_cutile_rs.suite_calls._op import Make
from pytest_cutile_rs.suite_calls._op import Row
from pytest_cutile_rs.suite_calls._op import call

_GEGLU = ("exact", "approx")


def _row(op: str, tag: str, build: Any, dtypes: tuple[str, ...] = HALF) -> Row:
    return Row(f"unsloth.{op}", tag, build, dtypes)


def _norm(columns: int, bias: bool, **options: Any) -> Any:
    return lambda m: call(m(8, columns, grad=True), *(m(columns) for _ in range(1 + bias)), **options)


def _cross_entropy(rows: int, vocabulary: int, **options: Any) -> Any:
    return lambda m: call(m(1, rows, vocabulary, grad=True), m.below(vocabulary, 1, rows), **options)


def _experts(m: Make, topk: int, tokens: int, total: int, **options: Any) -> Call:
    sizes = m.of([total // 4 - 6, total // 4 + 6, total // 4, total // 4])
    if options:
        options["gather_indices"] = m.of(list(range(total))[::-1])
    return call(m(tokens, 128, grad=True), m(4, 128, 128, grad=True), sizes, topk, **options)


ROWS = (
    _row("swiglu_fg", "8x512", lambda m: call(m(1, 8, 512), m(1, 8, 512))),
    _row("swiglu_fg", "7x300", lambda m: call(m(1, 7, 300), m(1, 7, 300)), ("f32",)),
    _row("swiglu_bwd", "8x512", lambda m: call(m(8, 512), m(8, 512), m(8, 512))),
    *(_row(f"geglu_{kind}_forward", "8x512", lambda m: call(m(1, 8, 512), m(1, 8, 512))) for kind in _GEGLU),
    *(_row(f"geglu_{kind}_backward", "8x512", lambda m: call(*(m(8, 512) for _ in range(3)))) for kind in _GEGLU),
    _row("rms_layernorm", "8x1024", _norm(1024, False)),
    _row("rms_layernorm", "8x1000-gemma", _norm(1000, False, gemma=True)),
    _row("layernorm", "8x1024", _norm(1024, True)),
    _row("layernorm", "8x1000", _norm(1000, True)),
    _row("weight_dequant", "256x256", lambda m: call(m(256, 256), m(2, 2, dtype="f32")), ("f8e4m3",)),
    _row("weight_dequant", "200x300", lambda m: call(m(200, 300), m(2, 3, dtype="f32")), ("f8e4m3",)),
    _row("act_quant", "4x256", lambda m: call(m(4, 256))),
    _row(
        "w8a8_block_fp8_matmul",
        "64x256x256",
        lambda m: call(m(64, 256), m(256, 256), m(64, 2, dtype="f32"), m(2, 2, dtype="f32"), [128, 128]),
        ("f8e4m3",),
    ),
    _row(
        "w8a8_block_fp8_matmul",
        "200x200x384",
        lambda m: call(m(200, 384), m(200, 384), m(200, 3, dtype="f32"), m(2, 3, dtype="f32"), [128, 128]),
        ("f8e4m3",),
    ),
    _row("rope_embedding", "16x64", lambda m: call(m(1, 16, 4, 64, grad=True), m(16, 32), m(16, 32))),
    _row("rope_embedding", "16x96", lambda m: call(m(1, 16, 4, 96, grad=True), m(16, 48), m(16, 48))),
    _row(
        "rope_embedding_qk",
        "16x64",
        lambda m: call(m(1, 4, 16, 64, grad=True), m(1, 2, 16, 64, grad=True), m(16, 32), m(16, 32)),
    ),
    _row(
        "rope_embedding_qk",
        "16x64-indices",
        lambda m: call(
            m(1, 4, 16, 64, grad=True),
            m(1, 2, 16, 64, grad=True),
            m(16, 32),
            m(16, 32),
            m.below(16, 1, 16, dtype="i32"),
        ),
    ),
    _row("cross_entropy_loss", "8x1000", _cross_entropy(8, 1000)),
    _row("cross_entropy_loss", "8x1000-capped", _cross_entropy(8, 1000, logit_softcapping=30.0, logit_scaling=0.5)),
    _row("cross_entropy_loss", "2x70000", _cross_entropy(2, 70000)),
    _row("grouped_gemm", "64", lambda m: _experts(m, 1, 64, 64)),
    _row("grouped_gemm", "64-permute-x", lambda m: _experts(m, 2, 32, 64, permute_x=True)),
    _row("grouped_gemm", "64-permute-y", lambda m: _experts(m, 2, 64, 64, permute_y=True, is_first_gemm=False)),
)
