# SPDX-License-Identifier: MIT
"""Launches: from a kernel's name and arguments to a plan, and from a plan to the driver.

`bind` fixes everything but the addresses and returns a `Bound`; calling that with the addresses is the hot path: one
call into Rust. Ops keep their bounds in an LRU keyed by the metadata of their arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from .errors import CaptureError
from .errors import LaunchError
from .library import Library
from .library import get_library
from .target import RECORDS
from .target import Recorded
from .target import Target
from .target import record
from .target import target_of
from .tensors import Scalar
from .tensors import TensorMeta
from .tensors import check_extents
from .tensors import check_same_device
from .tensors import check_tensor
from .tensors import checked_grid
from .tensors import descriptor
from .tensors import int32
from .tensors import meta_of
from .tensors import scalar_bits
from .tensors import scalar_packer

if TYPE_CHECKING:
    import torch

PLANS = 4096
"""Plans each cache keeps (least recently used go first)."""

HINTS = ("num_cta_in_cga", "occupancy", "num_worker_warps")
"""What `bind` takes besides constants; 0 leaves it to the compiler."""
_BY_VALUE = 4  # cutile_run_plan takes that many addresses in registers

Grid = tuple[int, int, int]


class _Kernels:
    """`kernels.softmax_row` is the name of that entry; a name that does not exist fails at bind, listing all."""

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


kernels = _Kernels()


class Bound:
    """A launch with everything fixed but the addresses; immutable, safe to call from many threads.

    Attributes:
        token: the specialization's number.
    """

    __slots__ = ("_array", "_device", "_library", "_pack", "_plan", "_run", "_stream", "_what", "token")

    def __init__(self, library: Library, target: Target, plan: Any, token: int, what: str, n_pointers: int) -> None:
        import torch

        self._library = library
        self._pack = scalar_packer(what, library.kernel(what)["params"])
        self._device = target.index
        self._plan = library.ffi.gc(plan, library.lib.cutile_plan_free)
        self._run = library.lib.cutile_run_plan
        self._array = n_pointers > _BY_VALUE
        self._stream: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        self._what = what
        self.token = token

    def __call__(self, *pointers: int, scalars: Sequence[Scalar] | None = None) -> None:
        """Launch on the device's current stream; `pointers` are addresses in the order of the kernel's tensors.

        `scalars` are values for this launch in place of those it was bound with, all of them in the kernel's order.
        """
        if self._array or scalars is not None:
            rc = self._run_array(pointers, scalars)
        else:
            padded = pointers + (0,) * (_BY_VALUE - len(pointers))
            rc = self._run(self._plan, self._stream(self._device), *padded)
        if rc:
            self._library.fail(rc, self._what)

    def _run_array(self, pointers: tuple[int, ...], scalars: Sequence[Scalar] | None) -> int:
        ffi = self._library.ffi
        block = ffi.new("uint64_t[]", pointers)
        stream = self._stream(self._device)
        values = ffi.NULL if scalars is None else ffi.from_buffer("uint64_t[]", self._pack(scalars))
        count = 0 if scalars is None else len(scalars)
        return int(self._library.lib.cutile_run_plan_array(self._plan, stream, block, len(pointers), values, count))


class _RecordingBound:
    """What `bind` returns under `record`: a call notes the launch."""

    def __init__(self, target: Target, launch: Recorded) -> None:
        self._target = target
        self._launch = launch
        self.token = launch.token

    def __call__(self, *pointers: int, scalars: Sequence[Scalar] | None = None) -> None:
        self._target.recorded.append(self._launch)


def bind(
    library: Library,
    target: Target,
    kernel: str,
    grid: Grid,
    *args: TensorMeta | int | float | bool,
    **options: int,
) -> Callable[..., None]:
    """Specialize, load and plan one launch.

    Args:
        library: the library the kernel is in.
        target: the device, or a recorder.
        kernel: the entry's name.
        grid: tile blocks per axis; a zero axis launches nothing.
        args: the entry's parameters in order, tensors as `TensorMeta`.
        options: its const generics by name, ``<E>_dtype`` codes of free type generics, and the hints
            ``num_cta_in_cga``, ``occupancy``, ``num_worker_warps`` (absent or <= 0: the compiler's choice).

    Raises:
        LaunchError: arguments that do not fit the entry.
        CompileError: the front end or tileiras refused the specialization.
        CaptureError: it is not loaded and the current stream captures a CUDA graph.
    """
    entry = library.kernel(kernel)
    grid = checked_grid(kernel, grid)
    hints = {name: int32(kernel, name, options.pop(name, 0)) for name in HINTS}
    constants = _constants(entry, options)
    metas, scalars = _split(entry, args)
    call = _Call(library, entry, metas, scalars, constants, hints)
    token = call.spec()
    if target.index < 0:
        asked = Recorded(kernel, token, grid, constants, hints, spec_text(library, token), library)
        if target.index == RECORDS:
            return _RecordingBound(target, asked)
        from .cpu import executing_bound

        return executing_bound(library, target, asked, metas, scalars)
    rc, plan = call.plan(grid, target.index)
    if rc == 1:
        load(library, token, target)
        rc, plan = call.plan(grid, target.index)
    if rc:
        library.fail(rc, kernel)
    return Bound(library, target, plan[0], token, kernel, len(metas))


def launch(
    kernel: str,
    grid: Grid,
    *args: torch.Tensor | int | float | bool,
    library: Library | None = None,
    **options: int,
) -> None:
    """Launch `kernel` on the tensors' device and torch's current stream there; see `bind` for the arguments.

    `library` is this package's own unless it is given: what ``library.open(crate_dir)`` returns, for a kernel there.
    """
    import torch

    tensors = {f"argument {i}": arg for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)}
    if not tensors:
        raise LaunchError(f"{kernel}: a launch needs a tensor, to know its device", rc=-6)
    for name, tensor in tensors.items():
        check_tensor(tensor, name, kernel)
    check_same_device(kernel, **tensors)
    name, first = next(iter(tensors.items()))
    flat = tuple(meta_of(arg) if isinstance(arg, torch.Tensor) else arg for arg in args)
    bound = _cached_bind(
        library or get_library(),
        target_of(first, kernel, name),
        kernel,
        checked_grid(kernel, grid),
        flat,
        tuple((name, int32(kernel, name, value)) for name, value in sorted(options.items())),
    )
    bound(*(0 if tensor.is_meta else tensor.data_ptr() for tensor in tensors.values()))


@functools.lru_cache(maxsize=PLANS, typed=True)
def _cached_bind(
    library: Library,
    target: Target,
    kernel: str,
    grid: Grid,
    args: tuple[Any, ...],
    options: tuple[tuple[str, int], ...],
) -> Callable[..., None]:
    return bind(library, target, kernel, grid, *args, **dict(options))


def spec_text(library: Library, token: int) -> str:
    """Return the stable text of a specialization: everything that decides its bytecode besides the architecture."""
    length = int(library.lib.cutile_spec_text(token, library.ffi.NULL, 0))
    if length < 0:
        library.fail(length, f"specialization {token}")
    buffer = library.ffi.new("char[]", length + 1)
    library.lib.cutile_spec_text(token, buffer, length + 1)
    return bytes(library.ffi.string(buffer)).decode()


def load(library: Library, token: int, target: Target) -> None:
    """Make the specialization's machine code present on the target's device, compiling it if no store has it."""
    from . import artifacts

    if library.lib.cutile_loaded(token, target.index) == 1:
        return
    text = spec_text(library, token)
    refuse_under_capture(text)
    image = artifacts.cubin(library, token, target.arch)
    rc = int(library.lib.cutile_load(token, target.index, image, len(image)))
    if rc:
        library.fail(rc, f"loading {text} on cuda:{target.index}")


def refuse_under_capture(text: str) -> None:
    """Raise CaptureError, naming a specialization by its text, if the current stream captures a CUDA graph."""
    import torch

    if torch.cuda.is_current_stream_capturing():
        raise CaptureError(
            f"a CUDA graph is being captured and this kernel is not loaded yet: {text}. Loading is not allowed under "
            "capture. Warm up first: call the op once with these shapes and dtypes before the capture, or "
            "tilegym_rs_backend.warmup(op, shapes, dtypes), or `tilegym-rs warmup OP`",
            rc=1,
        )


class _Call:
    """The C form of one launch's arguments; keeps the descriptors alive."""

    def __init__(
        self,
        library: Library,
        entry: dict[str, Any],
        metas: list[TensorMeta],
        scalars: list[int],
        constants: dict[str, int],
        hints: dict[str, int],
    ) -> None:
        ffi = library.ffi
        self._library = library
        self._kernel = ffi.new("char[]", entry["name"].encode())
        self._name: str = entry["name"]
        self._owned = [descriptor(ffi, meta) for meta in metas]
        self._descs = ffi.new("TensorDesc*[]", self._owned)
        self._scalars = ffi.new("uint64_t[]", scalars)
        self._constants = ffi.new("int32_t[]", list(constants.values()))
        self._hints = [hints[name] for name in HINTS]

    def spec(self) -> int:
        token = int(
            self._library.lib.cutile_spec(
                self._kernel, self._descs, len(self._owned), self._constants, len(self._constants), *self._hints
            )
        )
        if token < 0:
            self._library.fail(token, self._name)
        return token

    def plan(self, grid: Grid, device: int) -> tuple[int, Any]:
        plan = self._library.ffi.new("void**")
        rc = self._library.lib.cutile_plan(
            self._kernel,
            self._descs,
            len(self._owned),
            self._scalars,
            len(self._scalars),
            self._constants,
            len(self._constants),
            *grid,
            *self._hints,
            device,
            plan,
        )
        return int(rc), plan


def _constants(entry: dict[str, Any], options: dict[str, int]) -> dict[str, int]:
    names = [
        f"{generic['name']}_dtype" if generic["kind"] == "type" else generic["name"]
        for generic in entry["generics"]
        if generic["kind"] != "type" or generic.get("argument")
    ]
    if set(names) != set(options):
        raise LaunchError(
            f"{entry['name']} takes the constants {names} and the hints {list(HINTS)}; got {sorted(options)}", rc=-6
        )
    return {name: int32(entry["name"], name, options[name]) for name in names}


def _split(entry: dict[str, Any], args: tuple[Any, ...]) -> tuple[list[TensorMeta], list[int]]:
    params = entry["params"]
    if len(params) != len(args):
        expected = ", ".join(param["name"] for param in params)
        raise LaunchError(f"{entry['name']} takes {len(params)} arguments ({expected}), got {len(args)}", rc=-6)
    metas: list[TensorMeta] = []
    scalars: list[int] = []
    for param, arg in zip(params, args, strict=True):
        if param["kind"] == "scalar":
            scalars.append(scalar_bits(entry["name"], param, arg))
        elif not isinstance(arg, TensorMeta):
            raise LaunchError(f"{entry['name']}: {param['name']} is a tensor, got {type(arg).__name__}", rc=-6)
        else:
            if param["kind"] == "tensor":  # a pointer's launch passes neither extents nor strides
                check_extents(param["name"], entry["name"], arg.shape, arg.strides)
            metas.append(arg)
    return metas, scalars


__all__ = ["PLANS", "Bound", "Recorded", "Target", "bind", "kernels", "launch", "load", "record", "spec_text"]
