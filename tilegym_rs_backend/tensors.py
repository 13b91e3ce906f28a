# SPDX-License-Identifier: MIT
"""Tensors at the boundary: dtype codes, validation, and the metadata a plan is made from.

A plan depends on a tensor's shape, strides, dtype and the 16-byte class of its address, never on the address itself.
`TensorMeta` is exactly that, hashable, so that plans can be cached by it.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

from .errors import LaunchError

if TYPE_CHECKING:
    import torch

Scalar = int | float | bool
"""A scalar argument of a kernel."""

MAX_RANK = 5
_I32_MAX = 2**31 - 1
_GRID_LIMITS = (_I32_MAX, 65535, 65535)

# C contract, ABI 1. The names are the Rust side's; `torch_dtype_codes` maps torch's to them.
DTYPE_CODES: dict[str, int] = {
    "f32": 0,
    "f16": 1,
    "bf16": 2,
    "i32": 3,
    "i64": 4,
    "f8e5m2": 5,
    "f4e2m1x2": 6,
    "f8e4m3fn": 7,
    "u8": 8,
    "i8": 9,
    "i16": 10,
    "f64": 11,
    "bool": 12,
    "f8e8m0": 13,
}

SCALAR_FORMATS = {"i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f32": "f", "f64": "d", "bool": "?"}
"""Types of scalar parameters, and `struct`'s letters for them."""

_TORCH_NAMES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "i32",
    "int64": "i64",
    "float8_e5m2": "f8e5m2",
    "float4_e2m1fn_x2": "f4e2m1x2",
    "float8_e4m3fn": "f8e4m3fn",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "float64": "f64",
    "bool": "bool",
    "float8_e8m0fnu": "f8e8m0",
}


class TensorMeta(NamedTuple):
    """What a plan knows of one tensor: shape and strides in elements, dtype, and whether its address divides by 16."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    aligned: bool


@functools.cache
def torch_dtype_codes() -> dict[torch.dtype, int]:
    """Return the dtype code of each torch dtype the contract knows (older torch releases lack some)."""
    import torch

    return {getattr(torch, name): DTYPE_CODES[code] for name, code in _TORCH_NAMES.items() if hasattr(torch, name)}


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a name of the contract, ``torch.float16`` for ``"f16"``.

    Raises:
        ValueError: there is no such dtype, or none in this torch.
    """
    wanted = DTYPE_CODES.get("f8e4m3fn" if name == "f8e4m3" else name)  # the parity cases leave the letters out
    for dtype, code in torch_dtype_codes().items():
        if code == wanted:
            return dtype
    raise ValueError(f"unknown dtype {name!r}; one of {', '.join(DTYPE_CODES)}")


def dtype_name(dtype: torch.dtype) -> str:
    """Return the contract's name of a torch dtype, ``"f16"`` for ``torch.float16``."""
    code = torch_dtype_codes().get(dtype)
    if code is None:
        raise LaunchError(f"dtype {dtype} has no code in the kernels' contract; convert the tensor first", rc=-2)
    return next(name for name, value in DTYPE_CODES.items() if value == code)


def meta_of(tensor: torch.Tensor) -> TensorMeta:
    """Return the metadata of a tensor; a meta tensor counts as aligned, as every fresh allocation is."""
    address = 0 if tensor.is_meta else tensor.data_ptr()
    return TensorMeta(tuple(tensor.shape), tensor.stride(), tensor.dtype, address % 16 == 0)


def check_tensor(tensor: Any, name: str, op: str) -> None:
    """Raise unless `tensor` can be described to a kernel.

    Raises:
        TypeError: not a tensor.
        LaunchError: a layout, dtype, rank, extent or stride the kernels cannot take; the message names the tensor.
    """
    check_kind(tensor, name, op)
    check_extents(name, op, tuple(tensor.shape), tensor.stride())


def check_kind(tensor: Any, name: str, op: str) -> None:
    """Do what `check_tensor` does, but for rank, extents and strides."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{op}: {name} must be a torch.Tensor, got {type(tensor).__name__}")
    if _is_fake(tensor):
        raise LaunchError(
            f"{op}: {name} is a fake tensor (torch.compile or FakeTensorMode): it has no memory to run on; "
            "call the op outside of tracing, for example under torch.compiler.disable",
            rc=-6,
        )
    if tensor.layout != torch.strided:
        raise LaunchError(f"{op}: {name} has layout {tensor.layout}; the kernels take strided tensors: use .to_dense()")
    if tensor.dtype not in torch_dtype_codes():
        raise LaunchError(f"{op}: {name} has dtype {tensor.dtype}, which no kernel takes; convert it first", rc=-2)
    if tensor.is_neg() or tensor.is_conj():
        raise LaunchError(f"{op}: {name} is a lazily negated or conjugated view: call .resolve_neg().resolve_conj()")


def check_extents(name: str, op: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Raise LaunchError for a rank above 5, or an extent or stride that is negative or beyond 32 bits."""
    if len(shape) > MAX_RANK:
        raise LaunchError(f"{op}: {name} has {len(shape)} dimensions, the kernels take at most {MAX_RANK}", rc=-6)
    for what, values in (("extent", shape), ("stride", strides)):
        for axis, value in enumerate(values):
            if not 0 <= value <= _I32_MAX:
                raise LaunchError(
                    f"{op}: {name} has {what} {value} on axis {axis}, outside of 0..{_I32_MAX} (kernels index with 32 "
                    "bits): split the tensor along that axis, or make it contiguous",
                    rc=-6,
                )


def check_same_device(op: str, **tensors: torch.Tensor) -> None:
    """Raise LaunchError naming two tensors that live on different devices."""
    items = iter(tensors.items())
    first_name, first = next(items)
    for name, tensor in items:
        if tensor.device != first.device:
            raise LaunchError(
                f"{op}: {first_name} is on {first.device} but {name} is on {tensor.device}; a kernel runs on one "
                f"device: move one of them, for example {name}.to({str(first.device)!r})",
                rc=-6,
            )


def descriptor(ffi: Any, meta: TensorMeta) -> Any:
    """Return the C descriptor of a tensor for the library; its address stands for the 16-byte class alone."""
    desc = ffi.new("TensorDesc*")
    desc.ptr = 256 if meta.aligned else 256 + meta.dtype.itemsize  # only the 16-byte class of the address counts
    desc.ndim = len(meta.shape)
    for axis, (extent, stride) in enumerate(zip(meta.shape, meta.strides, strict=True)):
        desc.shape[axis] = extent
        desc.strides[axis] = stride
    desc.dtype = torch_dtype_codes()[meta.dtype]
    return desc


def scalar_packer(kernel: str, params: Sequence[dict[str, Any]]) -> Callable[[Sequence[Scalar]], bytes]:
    """Return a function that packs values of a kernel's scalar parameters, each into 8 bytes.

    It raises LaunchError for too few or too many of them, and for one that is none of its parameter's type.
    """
    types = [str(param["type"]) for param in params if param["kind"] == "scalar"]
    forms = [SCALAR_FORMATS[each] for each in types]
    layout = struct.Struct("<" + "".join(f"{form}{8 - struct.calcsize(form)}x" for form in forms))

    def pack(values: Sequence[Scalar]) -> bytes:
        try:
            return layout.pack(*values)
        except (struct.error, TypeError, OverflowError) as error:
            raise LaunchError(
                f"{kernel}: scalars {tuple(values)!r} are no {', '.join(types)}: {error}", rc=-6
            ) from error

    return pack


def scalar_bits(kernel: str, param: dict[str, Any], value: Any) -> int:
    """Return a scalar argument as a 64-bit pattern; raises LaunchError if it is none of the parameter's type."""
    form = SCALAR_FORMATS[param["type"]]
    try:
        packed = struct.pack(f"<{form}", value)
    except (struct.error, TypeError, OverflowError) as error:
        raise LaunchError(f"{kernel}: {param['name']} = {value!r} is no {param['type']}: {error}", rc=-6) from error
    return int.from_bytes(packed.ljust(8, b"\0"), "little")


def int32(kernel: str, name: str, value: Any) -> int:
    """Return a constant or hint as an int; raises LaunchError if it is no integer of 32 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise LaunchError(f"{kernel}: {name} = {value!r} is no integer", rc=-6) from None
    if not -(2**31) <= number <= _I32_MAX:
        raise LaunchError(f"{kernel}: {name} = {number} does not fit 32 bits", rc=-6)
    return number


def checked_grid(kernel: str, grid: Any) -> tuple[int, int, int]:
    """Return a grid as three ints; raises LaunchError where CUDA would not launch it, whatever the target."""
    try:
        x, y, z = (operator.index(extent) for extent in grid)
    except (TypeError, ValueError):
        raise LaunchError(f"{kernel}: a grid is three integers (x, y, z), got {grid!r}", rc=-6) from None
    if not all(0 <= extent <= limit for extent, limit in zip((x, y, z), _GRID_LIMITS, strict=True)):
        limits = ", ".join(f"0..{limit}" for limit in _GRID_LIMITS)
        raise LaunchError(f"{kernel}: grid {(x, y, z)}: the axes are {limits}", rc=-6)
    return x, y, z


def scalar_value(type: str, bits: int) -> int | float | bool:
    """Return the scalar of a 64-bit pattern; unsigned integers as the signed ones with their bits."""
    form = SCALAR_FORMATS[type]
    signed = form.lower() if form in "IQ" else form
    value: int | float | bool = struct.unpack_from(f"<{signed}", bits.to_bytes(8, "little"))[0]
    return value


def _is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)
