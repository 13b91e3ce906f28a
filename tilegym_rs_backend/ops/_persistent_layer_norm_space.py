# SPDX-License-Identifier: MIT
"""What can be chosen of persistent_layer_norm. Kernels in `rust/src/ops/persistent_layer_norm.rs`."""

from __future__ import annotations

from typing import NamedTuple

import torch

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
    """The rows of `x`, normalised by their own moments, or by others: `given` has the alignment classes of those."""

    x: TensorMeta
    weight: TensorMeta
    bias: TensorMeta
    eps: float
    given: tuple[bool, ...]


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    x = problem.x
    columns = [TensorMeta((x.shape[0],), (1,), torch.float32, aligned) for aligned in problem.given or (True, True)]
    args: dict[str, TensorMeta | int | float | bool] = {
        "out": contiguous_meta(x.shape, x.dtype),
        "mean": columns[0],
        "rstd": columns[1],
        "x": x,
        "weight": problem.weight,
        "bias": problem.bias,
        **row_scalars(x, config),
        "eps": problem.eps,
    }
    kernel = row_kernel(
        config,
        kernels.persistent_layer_norm_rows,
        kernels.persistent_layer_norm_long,
        kernels.persistent_layer_norm_pair,
    )
    return Launch(kernel, row_grid(x, config), args, {**row_constants(x, config), "GIVEN": int(bool(problem.given))})


SPACE: Space[Problem, Config] = row_space("persistent_layer_norm", launch, layer_norm_middle, pairs=True)
