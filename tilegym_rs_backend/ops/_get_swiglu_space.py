# SPDX-License-Identifier: MIT
"""What can be chosen of get_swiglu and its backward: tiles and warps. Kernels in `rust/src/ops/get_swiglu.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from . import _gated
from ._gated import Config
from ._gated import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    return _gated.launch_of(kernels.swiglu_forward, problem, config)


def backward_launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _gated.launch_of(kernels.swiglu_backward, problem, config)


SPACE = _gated.space("get_swiglu", launch)
BACKWARD = _gated.space("get_swiglu_backward", backward_launch)
