# SPDX-License-Identifier: MIT
"""What can be chosen of geglu and its backward: tiles and warps. Kernels in `rust/src/ops/geglu.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from . import _gated
from ._gated import Config
from ._gated import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    return _gated.launch_of(kernels.geglu_forward, problem, config)


def backward_launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _gated.launch_of(kernels.geglu_backward, problem, config)


SPACE = _gated.space("geglu", launch)
BACKWARD = _gated.space("geglu_backward", backward_launch)
