# SPDX-License-Identifier: MIT
"""Many processes on few GPUs: which xdist worker runs on which GPU, and whose turn it is there.

A worker gets its GPU through CUDA_VISIBLE_DEVICES, set before CUDA is initialised in it: then device 0 is its GPU for
torch, CUPTI and cuTile Python alike, and nothing allocates on another one. Where something (a conftest, say) has
initialised CUDA already, torch's current device is set instead.

Work on a GPU takes a lock of that GPU, of the host and not of the run: shared for numbers, exclusive for times, and for
numbers again where the memory did not suffice for all who shared it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from collections.abc import MutableMapping
from pathlib import Path

from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.errors import CompileError

VISIBLE = "CUDA_VISIBLE_DEVICES"
KEPT_BYTES = 1 << 30
_OUT_OF_MEMORY = "(?i)out of memory|failed to allocate memory|_ALLOC_FAILED"
_DEVICES = Path("/dev")  # a container has the nodes of its own GPUs there; /proc shows the host's


def visible(environment: MutableMapping[str, str], devices: Path = _DEVICES) -> tuple[str, ...]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them; initialises nothing."""
    given = environment.get(VISIBLE)
    if given is not None:
        entries: list[str] = []
        for entry in (part.strip() for part in given.split(",")):
            if entry in ("", "-1"):  # CUDA ignores what follows an entry that is none
                break
            entries.append(entry)
        return tuple(entries)
    nodes = [node for node in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", node.name)]
    return tuple(str(index) for index in range(len(nodes)))


def assign(worker: str, environment: MutableMapping[str, str] | None = None, devices: Path = _DEVICES) -> str | None:
    """Give xdist worker ``gw3`` the GPU of its number, modulo their count; returns its name, None without a choice."""
    environment = os.environ if environment is None else environment
    number = int("".join(filter(str.isdigit, worker)) or 0)
    gpus = visible(environment, devices)
    if len(gpus) < 2:
        return None
    chosen = number % len(gpus)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.set_device(chosen)
    else:
        environment[VISIBLE] = gpus[chosen]
    return gpus[chosen]


@contextlib.contextmanager
def turn(gpu: str, folder: Path, *, exclusive: bool) -> Iterator[None]:
    """Wait for this process's turn on a GPU; the lock dies with its owner.

    Args:
        gpu: the GPU's uuid, or another name that is the same in every process of the host.
        folder: where locks lie; it is created.
        exclusive: nobody else may use the GPU meanwhile; else only those who ask for it alone have to wait.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = hashlib.sha256(gpu.encode()).hexdigest()[:16]
    handle = os.open(folder / f"gpu-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def out_of_memory(error: BaseException) -> bool:
    """Whether it says that a GPU had not enough memory: torch, its libraries, cuTile Python or a launch of ours.

    A build or a compiler may run out of memory too, of the host's.
    """
    if isinstance(error, (BuildError, CompileError, MemoryError)):
        return False
    return type(error).__name__ == "OutOfMemoryError" or re.search(_OUT_OF_MEMORY, str(error)) is not None


def release_memory() -> None:
    """Give GPU memory that torch keeps for later back, from `KEPT_BYTES` on: other processes may need it now."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized() and torch.cuda.memory_reserved() > KEPT_BYTES:
        gc.collect()  # tensors that only a cycle holds would stay
        torch.cuda.empty_cache()
