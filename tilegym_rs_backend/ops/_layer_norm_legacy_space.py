# SPDX-License-Identifier: MIT
"""What can be chosen of a layer norm over rows. Kernels in `rust/src/ops/layer_norm_legacy.rs`."""

from __future__ import annotations

from typing import NamedTuple

from ..launch import kernels
from ..tensors import TensorMeta
from ..tuning.machine import Machine
from ..tuning.space import Launch
from ..tuning.space import Space
from ._common import contiguous_meta
from ._norms import Config
from ._norms import layer_norm_middle
from ._norms import row_constants
from ._norms import row_grid
from ._norms import row_kernel
from ._norms import row_scalars
from ._norms import row_space


class Problem(NamedTuple):
    """The rows of `x`, normalised; `shift` is added to the weight."""

    x: TensorMeta
    weight: TensorMeta
    bias: TensorMeta
    eps: float
    shift: float


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    x = problem.x
    args: dict[str, TensorMeta | int | float | bool] = {
        "out": contiguous_meta(x.shape, x.dtype),
        "x": x,
        "weight": problem.weight,
        "bias": problem.bias,
        **row_scalars(x, config),
        "eps": problem.eps,
        "shift": problem.shift,
    }
    kernel = row_kernel(config, kernels.layer_norm_rows, kernels.layer_norm_long, kernels.layer_norm_pair)
    return Launch(kernel, row_grid(x, config), args, row_constants(x, config))


SPACE: Space[Problem, Config] = row_space("layer_norm_legacy", launch, layer_norm_middle, pairs=True)
