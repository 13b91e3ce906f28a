# SPDX-License-Identifier: MIT
"""The five names that wrappers written for TileGym's own Rust bridge use, over this package's library.

A wrapper with its own cdef string runs with one changed import: `from tilegym_rs_backend.compat import ...`. What
differs: the library compiles nothing inside a call, so a cold export answers 1; the callable returned here then
compiles, loads and calls again, and the wrapper never sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from . import launch
from .errors import LaunchError
from .library import Library
from .library import check_rc
from .library import get_library
from .target import target_of
from .target import target_of_device
from .tensors import check_tensor
from .tensors import torch_dtype_codes
from .tuning.closures import TunedResult
from .tuning.closures import autotune_launch

if TYPE_CHECKING:
    import torch

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TAIL = 8  # grid x 3, hints x 3, device_id, raw_stream


def bind_kernel_function_cffi(kernel: str, cdef: str) -> tuple[Any, Any]:
    """Return ``(ffi, lib)``; ``lib.cutile_<entry>(...)`` returns a return code for `check_rc`.

    Args:
        kernel: a name for messages.
        cdef: C declarations of the exports used; each is compared with `cutile_describe()`.

    Raises:
        LaunchError: a declaration disagrees with the library, or names an export it does not have.
    """
    library = get_library()
    declarations = [each for each in _COMMENT.sub(" ", cdef).split(";") if "cutile_" in each]
    if not declarations:
        raise LaunchError(f"{kernel}: the cdef declares no cutile_<kernel> function", rc=-6)
    names = [_compare(library, kernel, declaration) for declaration in declarations]
    return library.ffi, _Exports(library, names)


def make_tensor_desc(ffi: Any, tensor: torch.Tensor) -> Any:
    """Pack a CUDA tensor into a ``TensorDesc*``, to be kept alive by the caller until after the call.

    Raises:
        LaunchError: not on a CUDA device, or a layout, dtype, rank, extent or stride that no kernel takes.
    """
    check_tensor(tensor, "tensor", "make_tensor_desc")
    target_of(tensor, "make_tensor_desc", "tensor", executes=False)
    desc = ffi.new("TensorDesc*")
    desc.ptr = tensor.data_ptr()
    desc.ndim = tensor.dim()
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        desc.shape[axis] = extent
        desc.strides[axis] = stride
    desc.dtype = torch_dtype_codes()[tensor.dtype]
    return desc


def get_num_sm() -> int:
    """Return the multiprocessor count of the current CUDA device."""
    import torch

    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


class _Exports:
    """Stands for cffi's lib: only the declared exports, each compiling on a cold answer."""

    def __init__(self, library: Library, names: Sequence[str]) -> None:
        for name in names:
            setattr(self, name, _export(library, name.removeprefix("cutile_")))


def _export(library: Library, kernel: str) -> Callable[..., int]:
    function = library.export(kernel)
    entry = library.kernel(kernel)
    kinds = [param["kind"] for param in entry["params"]]
    n_descs = sum(kind != "scalar" for kind in kinds)
    name = library.ffi.new("char[]", kernel.encode())

    def call(*args: Any) -> int:
        rc = int(function(*args))
        if rc != 1:
            return rc
        ffi = library.ffi
        descs = ffi.new("TensorDesc*[]", [arg for arg, kind in zip(args, kinds, strict=False) if kind != "scalar"])
        constants = [int(value) for value in args[len(kinds) : -_TAIL]]
        hints = [int(value) for value in args[-5:-2]]
        block = ffi.new("int32_t[]", constants)
        token = int(library.lib.cutile_spec(name, descs, n_descs, block, len(constants), *hints))
        if token < 0:
            return token
        launch.load(library, token, target_of_device(int(args[-2])))
        return int(function(*args))

    return call


def _compare(library: Library, kernel: str, declaration: str) -> str:
    """Return the name of the function declared; raise LaunchError unless the library has it just so."""
    name, theirs = _parse(declaration)
    expected = library.kernel(name.removeprefix("cutile_"))["cdef"]
    _, ours = _parse(expected)
    same_types = [kind for kind, _ in theirs] == [kind for kind, _ in ours]
    places = {param: place for place, (_, param) in enumerate(ours)}
    moved = [param for place, (_, param) in enumerate(theirs) if param in places and places[param] != place]
    if not same_types or moved:
        raise LaunchError(
            f"{kernel}: the cdef of {name} disagrees with the library (cutile_describe): it declares "
            f"`{' '.join(declaration.split())}`, the library has `{expected}`"
            + (f"; moved: {', '.join(moved)}" if moved else ""),
            rc=-6,
        )
    return name


def _parse(declaration: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a function's name, and type and name of its result (unnamed) and of each parameter."""
    match = re.fullmatch(r"\s*(.*?)\b(cutile_\w+)\s*\((.*)\)\s*;?\s*", declaration, re.DOTALL)
    if match is None:
        raise LaunchError(f"cannot read the declaration `{' '.join(declaration.split())}`", rc=-6)
    params = [(" ".join(match.group(1).split()), "")]
    for part in match.group(3).split(","):
        *kind, name = part.replace("*", " * ").split() or [""]
        params.append((" ".join(kind), name))
    return match.group(2), params


__all__ = [
    "TunedResult",
    "autotune_launch",
    "bind_kernel_function_cffi",
    "check_rc",
    "get_num_sm",
    "make_tensor_desc",
]
