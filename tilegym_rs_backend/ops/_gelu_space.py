# SPDX-License-Identifier: MIT
"""What can be chosen of gelu and its backward: the tile and its warps. Kernels in `rust/src/ops/gelu.rs`."""

from __future__ import annotations

from ..launch import kernels
from ..tuning.machine import Machine
from ..tuning.space import Launch
from ..tuning.space import Space
from ..tuning.space import Work
from . import _flat
from ._flat import Config
from ._flat import Problem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    return _flat.launch_of(kernels.gelu_forward, ("out", "x"), problem, config)


def backward_launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _flat.launch_of(kernels.gelu_backward, ("grad_x", "x", "grad"), problem, config)


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch of either does."""
    return _flat.work_of(problem, config, results=1, operations=30.0)


SPACE: Space[Problem, Config] = Space(
    name="gelu",
    config=Config,
    axes=_flat.AXES,
    rules=_flat.RULES,
    default=_flat.default,
    launch=launch,
    bucket=_flat.bucket,
    work=work,
    on_first_call=False,
)

BACKWARD: Space[Problem, Config] = Space(
    name="gelu_backward",
    config=Config,
    axes=_flat.AXES,
    rules=_flat.RULES,
    default=_flat.default,
    launch=backward_launch,
    bucket=_flat.bucket,
    work=work,
    on_first_call=False,
)
