# SPDX-License-Identifier: MIT
"""A space small enough to be reckoned by hand, and what stands for library, runner and compiler around it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from tilegym_rs_backend.target import Target
from tilegym_rs_backend.tensors import TensorMeta
from tilegym_rs_backend.tuning.compile import Compiled
from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.resources import Resources
from tilegym_rs_backend.tuning.space import Launch
from tilegym_rs_backend.tuning.space import Rule
from tilegym_rs_backend.tuning.space import Space
from tilegym_rs_backend.tuning.space import Work


@dataclass(frozen=True)
class Config:
    tile: int
    occupancy: int = 0
    num_worker_warps: int = 0
    num_cta_in_cga: int = 0


class Problem(NamedTuple):
    n: int


def launch(problem, config, machine):
    meta = TensorMeta((problem.n,), (1,), torch.float32, True)
    blocks = -(-problem.n // min(config.tile, 256))
    options = {"TILE": min(config.tile, 256), "occupancy": config.occupancy}
    return Launch("scale", (blocks, 1, 1), {"out": meta, "x": meta}, options)


def work(problem, config, machine):
    return Work(
        tiles=-(-problem.n // config.tile),
        steps=1,
        step_bytes=4 * config.tile,
        tile_bytes=4 * config.tile,
        least_bytes=8 * problem.n,
    )


SPACE = Space(
    name="scale",
    config=Config,
    axes={"tile": (64, 128, 256, 512), "occupancy": (1, 2)},
    rules=(Rule("tile: larger than the problem", lambda p, c, _: c.tile <= p.n),),
    default=lambda p, machine: Config(128, 1),
    launch=launch,
    bucket=lambda p: {"dtype": "f32", "n": p.n},
    work=work,
)


class Library:
    """As much of a library as keys need."""

    build_id = "b1"
    path = Path("/nowhere/libcutile_kernels.so")

    def kernel(self, name):
        return {"name": name, "source": "src/ops/scale.rs:7"}


GPU = Target("sm_90", 132, 0)


def resources(registers=64, frame=0, shared=32768, threads=128):
    return Resources(registers, frame, shared, threads, 4096)


class Runner:
    """Candidates take the time that `us` says of their number; one that is a text fails with it."""

    def __init__(self, us, noise=lambda count: 1.0):
        self.us, self.noise = us, noise
        self.samples = []
        self.prepared = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def prepare(self, index):
        self.prepared.append(index)
        if isinstance(self.us[index], str):
            raise Failed(self.us[index])

    def sample(self, index):
        self.samples.append(index)
        value = self.us[index]
        if callable(value):
            value = value(self.samples.count(index))
        return value * self.noise(len(self.samples))


def compiler(by_tile=None, calls=None):
    """Return what stands for `compile_launches`: resources, or the reason there are none, by tile."""

    def compile_launches(library, launches, arch, *, jobs=None, progress=None):
        found = []
        for number, one in enumerate(launches):
            if calls is not None:
                calls.append(one)
            answer = (by_tile or {}).get(one.options["TILE"], resources())
            found.append(Compiled(why=answer) if isinstance(answer, str) else Compiled(number, answer))
            if progress is not None:
                progress(number + 1, len(launches))
        return found

    return compile_launches


def spec_text(library, token):
    return f"scale spec {token}"
