# SPDX-License-Identifier: MIT
"""Calls of ``tilegym.suites.liger``. Its ``tiled_mlp`` is host code around a module of the caller's: no kernel."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.suite_calls._op import HALF
from pytest_cutile_rs.suite_calls._op import Make
from pytest_cutile_rs.suite_calls._op import Row
from pytest_cutile_rs.suite_calls._op import call

_F32 = ("f32",)


def _row(op: str, tag: str, build: Any, dtypes: tuple[str, ...] = ("f16", "f32")) -> Row:
    return Row(f"liger.{op}", tag, build, dtypes)


def _pair(rows: int, columns: int) -> Any:
    return lambda m: call(m(rows, columns, grad=True), m(rows, columns, grad=True))


def _one(rows: int, columns: int) -> Any:
    return lambda m: call(m(rows, columns, grad=True))


def _grpo(m: Make, **options: Any) -> Call:
    rows, tokens, vocabulary = 2, 4, 256
    return call(
        m(rows, tokens + 1, vocabulary, grad=True),
        m(rows, tokens),
        m(rows, tokens),
        m.below(vocabulary, rows, tokens),
        m(rows),
        beta=0.04,
        **options,
    )


def _fused_add(m: Make, columns: int, **options: Any) -> Call:
    return call(m(8, columns, grad=True), m(8, columns, grad=True), m(columns, grad=True), **options)


def _modulated(m: Make, columns: int, weight: bool, shift: bool, **options: Any) -> Call:
    return call(
        m(8, columns, grad=True),
        m(columns, grad=True) if weight else None,
        m(2, columns, grad=True),
        m(2, columns, grad=True) if shift else None,
        **options,
    )


def _rope(m: Make, heads: int) -> Call:
    return call(m(1, heads, 16, 64, grad=True), m(1, 2, 16, 64, grad=True), m(1, 16, 64), m(1, 16, 64))


def _mrope(m: Make, heads: int, size: int) -> Call:
    tables = m(3, 1, 16, size), m(3, 1, 16, size)
    return call(m(1, heads, 16, size, grad=True), m(1, 2, 16, size, grad=True), *tables, [8, 12])


def _mta(m: Make, padding: int, **options: Any) -> Call:
    side = 1 + 2 * padding
    return call(m(2, 4, 64, 64, grad=True), m(4, 4, side, side, grad=True), padding=padding, **options)


ROWS = (
    _row("cross_entropy", "plain", lambda m: call(m(8, 1000, grad=True), m.below(1000, 8))),
    _row(
        "cross_entropy",
        "weighted",
        lambda m: call(
            m(8, 1000, grad=True),
            m.below(1000, 8),
            label_smoothing=0.1,
            weight=m(1000, dtype="f32", data="positive"),
            lse_square_scale=1e-4,
            softcap=30.0,
            return_z_loss=True,
            return_token_accuracy=True,
            return_predicted_tokens=True,
        ),
    ),
    _row("dyt", "8x512", lambda m: call(m(8, 512, grad=True), m(1, grad=True), m(512, grad=True), m(512, grad=True))),
    _row("dyt", "8x500-plain", lambda m: call(m(8, 500, grad=True), m(1, grad=True), m(500, grad=True))),
    _row("fused_add_rms_norm", "8x1024", lambda m: _fused_add(m, 1024)),
    _row("fused_add_rms_norm", "8x1000-gemma", lambda m: _fused_add(m, 1000, offset=1.0, casting_mode="gemma")),
    _row("fused_add_rms_norm", "8x8192", lambda m: _fused_add(m, 8192), HALF),
    _row("fused_add_rms_norm", "8x16384", lambda m: _fused_add(m, 16384), HALF),
    _row(
        "fused_linear_cross_entropy",
        "8x64x1000",
        lambda m: call(m(8, 64, grad=True), m(1000, 64, grad=True), m.below(1000, 8)),
    ),
    _row(
        "fused_linear_jsd",
        "8x64x1000",
        lambda m: call(m(8, 64, grad=True), m(1000, 64, grad=True), m(8, 64), m(1000, 64)),
    ),
    _row(
        "fused_neighborhood_attention",
        "128x64",
        lambda m: call(*(m(1, 2, 128, 64, grad=True) for _ in range(3)), kernel_size=7),
        HALF,
    ),
    _row(
        "fused_neighborhood_attention",
        "100x32-dilated",
        lambda m: call(*(m(1, 2, 100, 32, grad=True) for _ in range(3)), kernel_size=5, dilation=2),
        HALF,
    ),
    _row("geglu", "8x512", _pair(8, 512)),
    _row("geglu", "8x600", _pair(8, 600)),
    _row("group_norm", "32x256", lambda m: call(m(2, 32, 256, grad=True), 32, 8, m(32, grad=True), m(32, grad=True))),
    _row("group_norm", "24x100", lambda m: call(m(2, 24, 100, grad=True), 24, 4, m(24, grad=True), m(24, grad=True))),
    _row("grpo_loss", "token", _grpo, _F32),
    _row("grpo_loss", "sequence", lambda m: _grpo(m, importance_sampling_level="sequence"), _F32),
    _row("grpo_loss", "cispo", lambda m: _grpo(m, loss_type="cispo"), _F32),
    _row("grpo_loss", "sapo", lambda m: _grpo(m, loss_type="sapo"), _F32),
    _row(
        "grpo_loss",
        "sequence-masked",
        lambda m: _grpo(m, importance_sampling_level="sequence", completion_mask=m.below(2, 2, 4)),
        _F32,
    ),
    _row("jsd", "8x1024", lambda m: call(m(8, 1024, grad=True), m(8, 1024))),
    _row("jsd", "8x1000-labels", lambda m: call(m(8, 1000, grad=True), m(8, 1000), m.below(1000, 8), beta=0.25)),
    _row("kl_div", "8x1000", lambda m: call(m(8, 1000, grad=True), m(8, 1000, data="positive"))),
    _row("kl_div", "8x5000-log", lambda m: call(m(8, 5000, grad=True), m(8, 5000), log_target=True)),
    _row("kl_div", "8x1000-none", lambda m: call(m(8, 1000, grad=True), m(8, 1000, data="positive"), reduction="none")),
    _row(
        "kl_div",
        "8x5000-log-none",
        lambda m: call(m(8, 5000, grad=True), m(8, 5000), reduction="none", log_target=True),
    ),
    _row("layer_norm", "8x1024", lambda m: call(m(8, 1024, grad=True), m(1024, grad=True), m(1024, grad=True))),
    _row("layer_norm", "8x1000", lambda m: call(m(8, 1000, grad=True), m(1000, grad=True), m(1000, grad=True))),
    _row("layer_norm", "8x1024-frozen", lambda m: call(m(8, 1024, grad=True), m(1024), m(1024))),
    _row("layer_norm", "8x1000-frozen", lambda m: call(m(8, 1000, grad=True), m(1000), m(1000))),
    _row(
        "llama4_rope",
        "16x64",
        lambda m: call(m(2, 16, 4, 64, grad=True), m(2, 16, 2, 64, grad=True), m(16, 32, 2, dtype="f32")),
    ),
    _row("modulated_rms_norm", "8x1024", lambda m: _modulated(m, 1024, True, True)),
    _row("modulated_rms_norm", "8x1000-gemma", lambda m: _modulated(m, 1000, True, False, casting_mode="gemma")),
    _row("modulated_rms_norm", "8x1024-plain", lambda m: _modulated(m, 1024, False, True)),
    _row("modulated_rms_norm", "8x1000-plain", lambda m: _modulated(m, 1000, False, False)),
    _row("multi_token_attention", "1x1", lambda m: _mta(m, 0), ("bf16", "f32")),
    _row("multi_token_attention", "3x3", lambda m: _mta(m, 1), ("bf16", "f32")),
    _row("multi_token_attention", "3x3-sparse", lambda m: _mta(m, 1, sparse=True), _F32),
    _row("poly_norm", "8x1024", lambda m: call(m(8, 1024, grad=True), m(3, grad=True), m(1, grad=True))),
    _row("poly_norm", "4x8192", lambda m: call(m(4, 8192, grad=True), m(3, grad=True), m(1, grad=True))),
    _row("qwen2vl_mrope", "4x64", lambda m: _mrope(m, 4, 64)),
    _row("qwen2vl_mrope", "3x96", lambda m: _mrope(m, 3, 96)),
    _row("relu_squared", "8x1024", _one(8, 1024)),
    _row("relu_squared", "8x1000", _one(8, 1000)),
    _row("rms_norm", "8x1024", lambda m: call(m(8, 1024, grad=True), m(1024, grad=True), 1e-6)),
    _row(
        "rms_norm",
        "8x1000-gemma",
        lambda m: call(m(8, 1000, grad=True), m(1000, grad=True), 1e-6, offset=1.0, casting_mode="gemma"),
    ),
    _row("rms_norm", "8x1024-plain", lambda m: call(m(8, 1024, grad=True), None, 1e-6)),
    _row("rms_norm", "8x1000-plain", lambda m: call(m(8, 1000, grad=True), None, 1e-6, casting_mode="gemma")),
    _row("rope", "4x64", lambda m: _rope(m, 4)),
    _row("rope", "3x64", lambda m: _rope(m, 3)),
    _row("softmax", "8x1024", _one(8, 1024)),
    _row("softmax", "8x1000", _one(8, 1000)),
    _row("softmax", "2x40000", _one(2, 40000)),
    _row("sparsemax", "8x128", _one(8, 128), _F32),
    _row("sparsemax", "8x100", _one(8, 100), _F32),
    _row("swiglu", "8x1024", _pair(8, 1024)),
    _row("swiglu", "8x1000", _pair(8, 1000)),
    _row("tvd", "8x1024", lambda m: call(m(8, 1024, grad=True, data="positive"), m(8, 1024, data="positive"))),
    _row("tvd", "8x1000", lambda m: call(m(8, 1000, grad=True, data="positive"), m(8, 1000, data="positive"))),
    _row("tvd", "8x1001", lambda m: call(m(8, 1001, grad=True, data="positive"), m(8, 1001, data="positive"))),
)
