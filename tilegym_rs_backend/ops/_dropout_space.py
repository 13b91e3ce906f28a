# SPDX-License-Identifier: MIT
"""What can be chosen of dropout: the tile and its warps. Kernel in `rust/src/ops/dropout.rs`."""

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
    """Return the launch of a configuration; its seed, threshold and scale are replaced in every call."""
    scalars = {"seed": 0, "threshold": 1 << 30, "scale": 2.0}
    return _flat.launch_of(kernels.dropout_forward, ("out", "x"), problem, config, scalars)


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does."""
    return _flat.work_of(problem, config, results=1, operations=14.0)


SPACE: Space[Problem, Config] = Space(
    name="dropout",
    config=Config,
    axes=_flat.AXES,
    rules=_flat.RULES,
    default=_flat.default,
    launch=launch,
    bucket=_flat.bucket,
    work=work,
    on_first_call=False,
)
