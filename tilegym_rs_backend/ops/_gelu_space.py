# SPDX-License-Identifier: MIT
"""What can be chosen of gelu and its backward: the tile and its warps. Kernels in `rust/src/ops/gelu.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from . import _flat
from ._flat import Config
from ._flat import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    return _flat.launch_of(kernels.gelu_forward, ("out", "x"), problem, config)


def backward_launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _flat.launch_of(kernels.gelu_backward, ("grad_x", "x", "grad"), problem, config)


SPACE = _flat.space("gelu", launch, operations=30.0)
BACKWARD = _flat.space("gelu_backward", backward_launch, operations=30.0)
