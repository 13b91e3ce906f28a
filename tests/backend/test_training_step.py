# SPDX-License-Identifier: MIT
"""A training step of a block of norm, rotary embedding and SwiGLU; tests/gpu has the same on a device."""

from __future__ import annotations

from tests.block import check_a_training_step
from tilegym_rs_backend.ops.get_apply_rope_func import get_apply_rope_func
from tilegym_rs_backend.ops.get_rms_norm_module import get_rms_norm_module
from tilegym_rs_backend.ops.get_swiglu_module import get_swiglu_module


def test_it_is_torchs(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")
    check_a_training_step(get_rms_norm_module(), get_apply_rope_func(), get_swiglu_module(), "cpu")
