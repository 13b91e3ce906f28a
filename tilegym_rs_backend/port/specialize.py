# SPDX-License-Identifier: MIT
"""A captured launch as a launch of its translated kernel: descriptors, scalars, constants, hints."""

from __future__ import annotations

from typing import Any

from tilegym_rs_backend.artifacts import emit
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.library import Library
from tilegym_rs_backend.port.capture import CapturedLaunch
from tilegym_rs_backend.port.translate import Translation
from tilegym_rs_backend.tensors import DTYPE_CODES
from tilegym_rs_backend.tensors import MAX_RANK
from tilegym_rs_backend.tensors import torch_dtype_codes

# A descriptor's address decides the 16-byte class alone while nothing is launched.
_ALIGNED = 4096


def descriptors(library: Library, translation: Translation, launch: CapturedLaunch) -> list[Any]:
    """The launch's tensors as ``TensorDesc``, in the entry's order."""
    return [_descriptor(library, launch.args[p.argument], p.kind == "list") for p in translation.descriptors]


def _descriptor(library: Library, argument: Any, is_list: bool) -> Any:
    desc = library.ffi.new("TensorDesc*")
    if is_list:
        # A device tensor of i64 words: address, extents and strides of each tensor of the list.
        desc.ptr, desc.ndim, desc.dtype = _ALIGNED, 1, DTYPE_CODES["i64"]
        desc.shape[0], desc.strides[0] = len(argument) * (1 + 2 * argument[0].ndim), 1
        return desc
    code = torch_dtype_codes().get(argument.dtype)
    if code is None:
        raise CompileError(f"tensors of {argument.dtype} have no code in the kernels' contract")
    desc.ptr = _ALIGNED + (0 if argument.is_meta else argument.data_ptr() % 16)
    desc.dtype = code
    if argument.ndim > MAX_RANK:
        return desc
    desc.ndim = argument.ndim
    for axis, (extent, stride) in enumerate(zip(argument.shape, argument.stride(), strict=True)):
        desc.shape[axis], desc.strides[axis] = extent, stride
    return desc


def token(library: Library, translation: Translation, launch: CapturedLaunch) -> int:
    """The specialization of the translated kernel for a launch.

    Raises:
        CompileError: the library refuses the launch for this entry.
    """
    ffi = library.ffi
    descs = descriptors(library, translation, launch)
    constants = translation.constants
    hints = [launch.hints.get(name, 0) for name in ("num_ctas", "occupancy", "num_worker_warps")]
    found = int(
        library.lib.cutile_spec(
            ffi.new("char[]", translation.entry.encode()),
            ffi.new("TensorDesc*[]", descs),
            len(descs),
            ffi.new("int32_t[]", constants),
            len(constants),
            *hints,
        )
    )
    if found < 0:
        raise CompileError(f"{translation.entry}: {library.last_error()}")
    return found


def bytecode(library: Library, translation: Translation, launch: CapturedLaunch) -> bytes:
    """The Tile IR that the translated kernel compiles to for a launch."""
    return emit(library, token(library, translation, launch), launch.arch)
