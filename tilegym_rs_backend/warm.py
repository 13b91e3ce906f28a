# SPDX-License-Identifier: MIT
"""Warm-up: compile (and, with a GPU, load) what an op will need, before the first call or a graph capture."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import artifacts
from . import tune
from .launch import load
from .registration import implementation
from .registration import native_ops
from .target import Recorded
from .target import Target
from .target import record
from .target import target_of_device
from .tensors import torch_dtype
from .tune import Asked

DEFAULT_DTYPES = ("f16", "bf16", "f32")


@dataclass(frozen=True)
class Warmed:
    """One specialization that is ready: its text, the architecture, and the seconds it took."""

    spec_text: str
    arch: str
    seconds: float


def warmup(
    op: str,
    shapes: Iterable[Sequence[int]],
    dtypes: Iterable[str] = DEFAULT_DTYPES,
    *,
    arch: str | None = None,
    device: int | None = None,
    **params: Any,
) -> list[Warmed]:
    """Compile every kernel `op` launches for these shapes and dtypes; with a CUDA device, load it there too.

    Args:
        op: a native op's name.
        shapes: the op's own notion of shape: softmax (rows, columns), silu_and_mul the input's, matmul (M, N, K),
            fmha (B, H, H_kv, S, S_kv, D).
        dtypes: names like ``"f16"``.
        arch: compile for this architecture only, and load nothing; default: the device's.
        device: CUDA index; default: the current device, if there is one and `arch` is not given.
        params: keyword arguments of the op (``use_tma=True``).

    Returns:
        One entry per distinct specialization, in launch order.
    """
    target = _target(arch, device)
    warmed = {}
    for launch in launches(op, shapes, dtypes, arch=target.arch, sm_count=target.sm_count, **params):
        if launch.spec_text in warmed:
            continue
        start = time.perf_counter()
        if target.index >= 0:
            load(launch.library, launch.token, target)
        else:
            artifacts.cubin(launch.library, launch.token, target.arch)
        warmed[launch.spec_text] = Warmed(launch.spec_text, target.arch, time.perf_counter() - start)
    return list(warmed.values())


def launches(
    op: str,
    shapes: Iterable[Sequence[int]],
    dtypes: Iterable[str],
    *,
    arch: str,
    sm_count: int | None = None,
    **params: Any,
) -> list[Recorded]:
    """Return the launches `op` would make for these shapes and dtypes on `arch`, without making them."""
    module = importlib.import_module(f".ops.{op}", __package__)
    run = getattr(module, "called", None) or implementation(op)
    with record(arch, sm_count) as recorded:
        for shape in shapes:
            for dtype in dtypes:
                run(*module.arguments(tuple(shape), torch_dtype(dtype)), **params)
    return list(recorded)


def questions(
    op: str, shapes: Iterable[Sequence[int]], dtypes: Iterable[str], *, arch: str | None = None, **params: Any
) -> list[Asked]:
    """Return the distinct choices that `op` asks the tuner for, for these shapes and dtypes; nothing is launched.

    Args:
        op, shapes, dtypes, params: see `warmup`.
        arch: the architecture; default: the current device's, if there is one.
    """
    target = _target(arch, None)
    with tune.questions() as asked:
        launches(op, shapes, dtypes, arch=target.arch, sm_count=target.sm_count, **params)
    found = {(each.space.name, str(dict(each.space.bucket(each.problem)))): each for each in asked}
    return list(found.values())


def _target(arch: str | None, device: int | None) -> Target:
    import torch

    from .target import recorder_target

    if arch is None and torch.cuda.is_available():
        return target_of_device(torch.cuda.current_device() if device is None else device)
    return recorder_target(arch)


__all__ = ["DEFAULT_DTYPES", "Warmed", "launches", "native_ops", "questions", "warmup"]
