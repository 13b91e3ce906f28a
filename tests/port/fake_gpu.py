# SPDX-License-Identifier: MIT
"""GPUs that cuTile Python's C++ launcher believes in, on a machine without any: it launches, and every word is noted.

A driver is put in libcuda's place and CPU tensors claim to lie on a GPU. Like the real driver it takes from the cubin
how many parameters a kernel has and how large each is. One process for one set of GPUs: the launcher looks for its
driver once.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass

from fake_driver import LOOKUP
from fake_driver import POINTER

INT = ctypes.c_int
OUT = ctypes.POINTER(POINTER)
OUT_INT = ctypes.POINTER(INT)
INVALID_VALUE = 1
_MAJOR, _MINOR = 75, 76
_CONTEXTS = 0x1000
_GRID, _ATTRIBUTES = 3, 48
"""Of a CUlaunchConfig: the number of extents at its beginning, and where the number of attributes lies."""
_TEXT = ctypes.cast(ctypes.c_char_p(b"invalid argument"), POINTER)


@dataclass
class Launched:
    """A launch as the driver was told it."""

    symbol: str
    grid: tuple[int, ...]
    words: list[int]
    attributes: int
    thread: int
    device: int


class FakeGpus:
    """A driver with GPUs of the given compute capabilities; streams are those of the current one.

    Attributes:
        current: the device that streams belong to.
        loaded: (device that was current, cubin) of each library loaded.
        launched: all launches.
        failing: what launches answer instead of being made, if it is not 0.
    """

    def __init__(self, *capabilities: tuple[int, int]) -> None:
        self.capabilities = capabilities
        self.current = self.failing = 0
        self.loaded: list[tuple[int, bytes]] = []
        self.launched: list[Launched] = []
        self._symbols: list[str] = []
        self._memory: list[object] = []
        answers: dict[str, tuple[Callable[..., int], list[object]]] = {
            "cuDriverGetVersion": (lambda out: put(out, 13040), [OUT_INT]),
            "cuDeviceGetCount": (lambda out: put(out, len(capabilities)), [OUT_INT]),
            "cuDeviceGet": (put, [OUT_INT, INT]),
            "cuDeviceGetAttribute": (self._attribute, [OUT_INT, INT, INT]),
            "cuCtxGetCurrent": (lambda out: put(out, _CONTEXTS + self.current), [OUT]),
            "cuCtxGetDevice": (lambda out, context: put(out, context - _CONTEXTS), [OUT_INT, POINTER]),
            "cuStreamGetCtx": (lambda stream, out: put(out, _CONTEXTS + self.current), [POINTER, OUT]),
            "cuStreamGetId": (lambda stream, out: put(out, 1), [POINTER, OUT]),
            "cuStreamIsCapturing": (lambda stream, out: put(out, 0), [POINTER, OUT_INT]),
            "cuCtxGetId": (lambda context, out: put(out, context), [POINTER, OUT]),
            "cuLibraryLoadData": (self._load, [OUT, POINTER]),
            "cuLibraryGetKernel": (self._kernel, [OUT, POINTER, ctypes.c_char_p]),
            "cuLaunchKernelEx": (self._launch, [POINTER, POINTER, ctypes.POINTER(POINTER)]),
            "cuMemAlloc": (self._allocate, [OUT, ctypes.c_size_t]),
            "cuMemAllocHost": (self._allocate, [OUT, ctypes.c_size_t]),
            "cuMemcpyHtoDAsync": (copy, [POINTER, POINTER, ctypes.c_size_t]),
            "cuGetErrorString": (lambda code, out: put(out, _TEXT.value), [INT, OUT]),
        }
        self._functions = {name: ctypes.CFUNCTYPE(INT, *types)(call) for name, (call, types) in answers.items()}
        self._succeed = ctypes.CFUNCTYPE(INT)(lambda: 0)
        self._lookup = LOOKUP(self._look_up)
        self._cell = POINTER(ctypes.cast(self._lookup, POINTER).value)

    def install(self) -> FakeGpus:
        """Put the driver in libcuda's place, and let CPU tensors claim to be on a GPU."""
        import cuda.tile  # noqa: F401 - the package has to be there before its module is replaced
        import torch

        module = types.ModuleType("cuda.tile._load_libcuda")
        module.cuGetProcAddress_v2_ptrptr = ctypes.addressof(self._cell)  # type: ignore[attr-defined]
        sys.modules["cuda.tile._load_libcuda"] = module
        honest = torch._C._to_dlpack

        def claims(tensor: object) -> object:
            capsule = honest(tensor)
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]
            ctypes.cast(get(capsule, b"dltensor"), OUT_INT)[2] = 2  # DLTensor.device.device_type = kDLCUDA
            return capsule

        torch._C._to_dlpack = claims
        return self

    def _look_up(self, name: bytes, out: object, *_: object) -> int:
        return put(out, ctypes.cast(self._functions.get(name.decode(), self._succeed), POINTER).value)

    def _attribute(self, out: object, attribute: int, device: int) -> int:
        if attribute in (_MAJOR, _MINOR):
            return put(out, self.capabilities[device][attribute - _MAJOR])
        return put(out, 1 << 20)

    def _load(self, out: object, image: int) -> int:
        self.loaded.append((self.current, cubin_at(image)))
        return put(out, len(self.loaded))

    def _kernel(self, out: object, library: int, name: bytes) -> int:
        self._symbols.append(name.decode())
        return put(out, len(self._symbols) if library == len(self._symbols) else 0)

    def _launch(self, config: int, kernel: int, parameters: object) -> int:
        from tilegym_rs_backend.tile_ir.cubin import read_cubin

        grid = tuple((ctypes.c_uint32 * _GRID).from_address(config))
        if self.failing or 0 in grid:
            return self.failing or INVALID_VALUE
        symbol, (_, image) = self._symbols[kernel - 1], self.loaded[kernel - 1]
        sizes = read_cubin(image).kernels[symbol].parameters
        words = [int.from_bytes(ctypes.string_at(parameters[i], size), "little") for i, size in enumerate(sizes)]
        attributes = ctypes.c_uint32.from_address(config + _ATTRIBUTES).value
        self.launched.append(Launched(symbol, grid, words, attributes, threading.get_ident(), self.current))
        return 0

    def _allocate(self, out: object, size: int) -> int:
        self._memory.append((ctypes.c_uint64 * (size // 8 + 2))())
        at = ctypes.addressof(self._memory[-1])
        return put(out, at + -at % 16)


def put(out: object, value: object) -> int:
    """Answer a question, and say that it succeeded."""
    out[0] = value
    return 0


def copy(to: int, source: int, size: int) -> int:
    """Copy bytes; both memories are the host's."""
    ctypes.memmove(to, source, size)
    return 0


def cubin_at(address: int) -> bytes:
    """The cubin that begins at an address: as long as its tables and sections reach."""
    head = ctypes.string_at(address, 64)
    word = lambda at, size: int.from_bytes(head[at : at + size], "little")  # noqa: E731
    end = max(word(40, 8) + word(58, 2) * word(60, 2), word(32, 8) + word(54, 2) * word(56, 2))
    return ctypes.string_at(address, end)
