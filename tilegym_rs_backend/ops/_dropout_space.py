# SPDX-License-Identifier: MIT
"""What can be chosen of dropout: the tile and its warps. Kernel in `rust/src/ops/dropout.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from . import _flat
from ._flat import Config
from ._flat import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration; its seed, threshold and scale are replaced in every call."""
    scalars = {"seed": 0, "threshold": 1 << 30, "scale": 2.0}
    return _flat.launch_of(kernels.dropout_forward, ("out", "x"), problem, config, scalars)


SPACE = _flat.space("dropout", launch, operations=14.0)
