# SPDX-License-Identifier: MIT
"""The training step of tests/backend/test_training_step.py on a device, through TileGym's own dispatcher."""

from __future__ import annotations

import pytest

from tests.block import check_a_training_step

pytestmark = pytest.mark.gpu


def test_it_is_torchs(ops):
    check_a_training_step(ops.get_rms_norm_module(), ops.get_apply_rope_func(), ops.get_swiglu_module(), "cuda")
