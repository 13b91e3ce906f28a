# SPDX-License-Identifier: MIT
"""What can be chosen of relu: the tile and its warps. Kernel in `rust/src/ops/relu.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from . import _flat
from ._flat import Config
from ._flat import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    return _flat.launch_of(kernels.relu_forward, ("out", "x"), problem, config)


SPACE = _flat.space("relu", launch, operations=2.0)
