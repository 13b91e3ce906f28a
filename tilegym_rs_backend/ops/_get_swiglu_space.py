# SPDX-License-Identifier: MIT
"""What can be chosen of get_swiglu and its backward: tiles and warps. Kernels in `rust/src/ops/get_swiglu.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from ..tuning.space import Space
from . import _gated
from ._gated import Config
from ._gated import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    return _gated.launch_of(kernels.swiglu_forward, problem, config)


def backward_launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _gated.launch_of(kernels.swiglu_backward, problem, config)


SPACE: Space[Problem, Config] = Space(
    name="get_swiglu",
    config=Config,
    axes=_gated.AXES,
    rules=_gated.RULES,
    default=_gated.default,
    launch=launch,
    bucket=_gated.bucket,
    work=_gated.work,
    on_first_call=False,
)

BACKWARD: Space[Problem, Config] = Space(
    name="get_swiglu_backward",
    config=Config,
    axes=_gated.AXES,
    rules=_gated.RULES,
    default=_gated.default,
    launch=backward_launch,
    bucket=_gated.bucket,
    work=_gated.work,
    on_first_call=False,
)
