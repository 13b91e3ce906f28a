# SPDX-License-Identifier: MIT
"""What can be chosen of geglu and its backward: tiles and warps. Kernels in `rust/src/ops/geglu.rs`."""

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
    return _gated.launch_of(kernels.geglu_forward, problem, config)


def backward_launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _gated.launch_of(kernels.geglu_backward, problem, config)


SPACE: Space[Problem, Config] = Space(
    name="geglu",
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
    name="geglu_backward",
    config=Config,
    axes=_gated.AXES,
    rules=_gated.RULES,
    default=_gated.default,
    launch=backward_launch,
    bucket=_gated.bucket,
    work=_gated.work,
    on_first_call=False,
)
