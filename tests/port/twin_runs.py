# SPDX-License-Identifier: MIT
"""Launches by twins through cuTile Python's C++ launcher, over the driver of fake_gpu.py.

Run as a script with the folder of a crate that has the kernels of port_kernels.py and the like, and scenarios; writes
what happened as JSON: scenario -> facts. cuTile Python compiles nothing throughout; after "sealed" our side cannot
translate, build or compile either.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import threading
from pathlib import Path

import torch
from fake_gpu import FakeGpus

WORDS = (
    "scale_rows",
    "scale_rows_odd",
    "scale_rows_one",
    "scale_rows_transposed",
    "scale_rows_unaligned",
    "row_statistics",
    "add_all",
    "sum_of_some",
    "conversions",
    "own_stencil",
    "own_moments",
)
THREADS, ROUNDS = 4, 25


class World:
    def __init__(self, folder: str) -> None:
        sys.path.append(str(Path(__file__).parent / "own"))
        import cuda.tile as ct
        import mutated_kernels
        import own_ported

        from tilegym_rs_backend.port.cached import CachedCrate
        from tilegym_rs_backend.port.ported import PortedKernels
        from tilegym_rs_backend.port.redirect import Redirect

        ct.kernel._compile = never
        self.capturing = False
        torch.cuda.is_current_stream_capturing = lambda: self.capturing
        self.gpus = FakeGpus((9, 0), (9, 0), (10, 0)).install()
        self.redirect = Redirect(PortedKernels(CachedCrate(Path(folder))))
        self.redirect._planned.launch = never
        self.launches = {**mutated_kernels.launches(), **own_ported.launches()}

    def launch(self, name: str, *, kernel: object = None, grid: tuple[int, ...] = (), **options: object) -> tuple:
        """Launch on memory of its own; returns the arguments."""
        one = self.launches[name]
        args = tuple(map(on_cpu, one.args))
        self.redirect.launch(0, grid or one.grid, kernel or one.kernel, args, **options)
        return args

    def error(self, *args: object, **options: object) -> str:
        try:
            self.launch(*args, **options)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""


def never(*_: object, **__: object) -> None:
    raise AssertionError("nobody is to call this")


def on_cpu(value: object) -> object:
    if isinstance(value, list):
        return [on_cpu(item) for item in value]
    if not isinstance(value, torch.Tensor) or not value.is_meta:
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def expected(args: tuple, constants: list[bool]) -> list[object]:
    """The words that a launch passes; of a list's table what it holds."""
    words: list[object] = []
    for value, constant in zip(args, constants, strict=True):
        if constant:
            continue
        if isinstance(value, torch.Tensor):
            words += [value.data_ptr(), *value.shape, *value.stride()]
        elif isinstance(value, list):
            words += [[word for t in value for word in (t.data_ptr(), *t.shape, *t.stride())], len(value)]
        else:
            words.append(struct.unpack("<I", struct.pack("<f" if isinstance(value, float) else "<i", value))[0])
    return words


def words(world: World) -> object:
    from tilegym_rs_backend.port.signature import constant_parameters

    found = {}
    for name in WORDS:
        args = world.launch(name)
        want = expected(args, constant_parameters(world.launches[name].kernel))
        got: list[object] = list(world.gpus.launched[-1].words)
        for at, value in enumerate(want):
            if isinstance(value, list):
                got[at] = list((ctypes.c_int64 * len(value)).from_address(got[at]))
        found[name] = [want, got, world.gpus.launched[-1].grid == world.launches[name].grid]
    return found


def again(world: World) -> object:
    before = len(world.gpus.loaded), len(world.gpus.launched)
    for name in WORDS:
        world.launch(name)
    kernel = world.launches["scale_rows"].kernel
    loaded = []
    for occupancy in (2, 2, 3, 2):
        world.launch("scale_rows", kernel=kernel.replace_hints(occupancy=occupancy))
        loaded.append(len(world.gpus.loaded) - before[0])
    return {"loaded": loaded, "launched": len(world.gpus.launched) - before[1]}


def devices(world: World) -> object:
    from tilegym_rs_backend.tile_ir.cubin import read_cubin

    found = []
    for device in (1, 2, 0, 2):
        before = len(world.gpus.loaded)
        world.gpus.current = device
        world.launch("scale_rows")
        arch = [read_cubin(image).arch for image in world.gpus.loaded[before:]]
        found.append([world.gpus.launched[-1].device, arch])
    world.gpus.current = 0
    return found


def errors(world: World) -> object:
    import refused_kernels
    from port_launches import launch
    from port_launches import meta

    world.launches["waits"] = launch(refused_kernels.waits, meta(64), 64)
    slow = world.launches["scale_rows"].kernel.replace_hints(opt_level=2)
    before = len(world.gpus.launched)
    texts = [world.error(*what) for what in [("waits",)] * 2] + [world.error("scale_rows", kernel=slow)] * 2
    world.gpus.failing = 700  # an illegal address
    texts.append(world.error("scale_rows"))
    world.gpus.failing = 0
    return {"texts": texts, "launched": len(world.gpus.launched) - before, "after": world.error("scale_rows")}


def captured(world: World) -> object:
    kernel = world.launches["scale_rows"].kernel.replace_hints(occupancy=7)
    world.capturing = True
    texts = [world.error("scale_rows"), world.error("scale_rows", kernel=kernel)]
    world.capturing = False
    return [*texts, world.error("scale_rows", kernel=kernel)]


def options(world: World) -> object:
    before = len(world.gpus.launched)
    world.launch("scale_rows", programmatic_dependent_launch=True)
    world.launch("scale_rows", grid=(0,))
    return [each.attributes for each in world.gpus.launched[before:]]


def threads(world: World) -> object:
    """Threads meet an unseen kernel at once, and go on with it and others; each thread's words have to be its own."""
    kernel = world.launches["scale_rows"].kernel.replace_hints(occupancy=5)
    barrier = threading.Barrier(THREADS)
    asked: dict[int, list[list[object]]] = {}
    raised: list[str] = []
    before = len(world.gpus.launched)

    def work() -> None:
        mine = asked.setdefault(threading.get_ident(), [])
        barrier.wait()
        try:
            for turn in range(ROUNDS):
                args = world.launch("scale_rows", kernel=kernel if turn % 2 == 0 else None)
                mine.append([args[0].data_ptr(), args[1].data_ptr()])
        except Exception as error:
            raised.append(repr(error))

    workers = [threading.Thread(target=work) for _ in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seen: dict[int, list[list[int]]] = {}
    for each in world.gpus.launched[before:]:
        seen.setdefault(each.thread, []).append([each.words[0], each.words[5]])
    return {"raised": raised, "same": seen == asked, "launched": sum(map(len, seen.values()))}


def sealed(world: World) -> object:
    from tilegym_rs_backend import artifacts
    from tilegym_rs_backend.port import ported
    from tilegym_rs_backend.port.cached import CachedCrate

    artifacts.emit = artifacts._run_tileiras = ported.translated = CachedCrate.add = never
    return True


def main() -> None:
    folder, *scenarios = sys.argv[1:]
    world = World(folder)
    json.dump({name: globals()[name](world) for name in scenarios}, sys.stdout)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # at an ordinary exit the driver would go before the libraries that the launcher unloads
