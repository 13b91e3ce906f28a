# SPDX-License-Identifier: MIT
"""GPUs that cuTile Python's C++ launcher believes in, on a machine without any: it launches, and every word is noted.

A driver is put in libcuda's place, once in a process, and CPU tensors claim to lie on a GPU. Like the real driver it
takes from the cubin how many parameters a kernel has and how large each is.

As a script it tells what the launcher derives from tensors: reads JSON [(size, shape, strides, offset, dtype)] on
stdin, writes the constraints' reprs.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import types
from dataclasses import dataclass

POINTER, INT, U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
OUT, OUT_INT = ctypes.POINTER(POINTER), ctypes.POINTER(INT)
LOOKUP = ctypes.CFUNCTYPE(INT, ctypes.c_char_p, OUT, INT, U64, POINTER)
_INVALID_VALUE = 1
_MAJOR, _MINOR = 75, 76
_CONTEXT = 0x1000  # of device 0; the next one's follows
_TEXT = ctypes.cast(ctypes.c_char_p(b"invalid argument"), POINTER)


@dataclass
class Launched:
    """A launch as the driver was told it; ``attributes`` is their number."""

    grid: tuple[int, ...]
    words: list[int]
    attributes: int
    thread: int
    device: int


class FakeGpus:
    """A driver with GPUs of the given compute capabilities.

    Attributes:
        current: the device that streams belong to.
        loaded: the cubin of each library, of one kernel each.
        launched: all launches.
        failing: what launches answer instead of being made, if it is not 0.
    """

    def __init__(self, *capabilities: tuple[int, int]) -> None:
        self.capabilities = capabilities
        self.current = self.failing = 0
        self.loaded: list[bytes] = []
        self.launched: list[Launched] = []
        self._memory: list[object] = []
        answers = {
            "cuDriverGetVersion": (lambda out: put(out, 13040), OUT_INT),
            "cuDeviceGetCount": (lambda out: put(out, len(capabilities)), OUT_INT),
            "cuDeviceGet": (put, OUT_INT, INT),
            "cuDeviceGetAttribute": (self._attribute, OUT_INT, INT, INT),
            "cuCtxGetCurrent": (lambda out: put(out, _CONTEXT + self.current), OUT),
            "cuCtxGetDevice": (lambda out, context: put(out, context - _CONTEXT), OUT_INT, POINTER),
            "cuStreamGetCtx": (lambda _, out: put(out, _CONTEXT + self.current), POINTER, OUT),
            "cuStreamGetId": (lambda _, out: put(out, 1), POINTER, OUT),
            "cuStreamIsCapturing": (lambda _, out: put(out, 0), POINTER, OUT_INT),
            "cuCtxGetId": (lambda context, out: put(out, context), POINTER, OUT),
            "cuLibraryLoadData": (self._load, OUT, POINTER),
            "cuLibraryGetKernel": (lambda out, library, _: put(out, library), OUT, POINTER, POINTER),
            "cuLaunchKernelEx": (self._launch, POINTER, POINTER, OUT),
            "cuMemAlloc": (self._allocate, OUT, U64),
            "cuMemAllocHost": (self._allocate, OUT, U64),
            "cuMemcpyHtoDAsync": (lambda *copied: ctypes.memmove(*copied) * 0, POINTER, POINTER, U64),
            "cuGetErrorString": (lambda _, out: put(out, _TEXT.value), INT, OUT),
        }
        self._functions = {name: ctypes.CFUNCTYPE(INT, *kinds)(call) for name, (call, *kinds) in answers.items()}
        self._succeed = ctypes.CFUNCTYPE(INT)(int)
        self._lookup = LOOKUP(self._look_up)
        self._cell = POINTER(ctypes.cast(self._lookup, POINTER).value)

    def install(self) -> FakeGpus:
        """Put the driver in libcuda's place, and let CPU tensors claim to be on a GPU."""
        import cuda.tile  # noqa: F401 - the package has to be there before its module is replaced
        import torch

        module = types.ModuleType("cuda.tile._load_libcuda")
        module.cuGetProcAddress_v2_ptrptr = ctypes.addressof(self._cell)
        module.gpus = self  # they live as long as the launcher may ask
        sys.modules["cuda.tile._load_libcuda"] = module
        honest = torch._C._to_dlpack
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]

        def claims(tensor: object) -> object:
            capsule = honest(tensor)
            ctypes.cast(get(capsule, b"dltensor"), OUT_INT)[2] = 2  # DLTensor.device.device_type = kDLCUDA
            return capsule

        torch._C._to_dlpack = claims
        return self

    def _look_up(self, name: bytes, out: object, *_: object) -> int:
        return put(out, ctypes.cast(self._functions.get(name.decode(), self._succeed), POINTER).value)

    def _attribute(self, out: object, attribute: int, device: int) -> int:
        asked = attribute in (_MAJOR, _MINOR)
        return put(out, self.capabilities[device][attribute - _MAJOR] if asked else 1 << 20)

    def _load(self, out: object, image: int) -> int:
        head = ctypes.string_at(image, 64)
        tables = ((40, 58, 60), (32, 54, 56))  # where an ELF header has offset, entry size and length of each
        ends = [number(head, at, 8) + number(head, size, 2) * number(head, count, 2) for at, size, count in tables]
        self.loaded.append(ctypes.string_at(image, max(ends)))
        return put(out, len(self.loaded))

    def _launch(self, config: int, kernel: int, parameters: object) -> int:
        from tilegym_rs_backend.tile_ir.cubin import read_cubin

        grid, attributes = (ctypes.c_uint32 * 3).from_address(config), ctypes.c_uint32.from_address(config + 48)
        if self.failing or 0 in grid:
            return self.failing or _INVALID_VALUE
        sizes = read_cubin(self.loaded[kernel - 1]).only().parameters
        words = [number(ctypes.string_at(parameters[i], size), 0, size) for i, size in enumerate(sizes)]
        self.launched.append(Launched(tuple(grid), words, attributes.value, threading.get_ident(), self.current))
        return 0

    def _allocate(self, out: object, size: int) -> int:
        self._memory.append((U64 * (size // 8 + 2))())
        at = ctypes.addressof(self._memory[-1])
        return put(out, at + -at % 16)


def put(out: object, value: object) -> int:
    """Answer a question, and say that it succeeded."""
    out[0] = value
    return 0


def number(data: bytes, at: int, size: int) -> int:
    """A little-endian number of ``size`` bytes."""
    return int.from_bytes(data[at : at + size], "little")


def main() -> None:
    import cuda.tile as ct
    import cuda.tile.compilation as compilation
    import torch

    FakeGpus((9, 0)).install()
    kernel = ct.kernel(lambda x: None)
    convention = compilation.CallingConvention.cutile_python_v2()
    found = []
    for size, shape, strides, offset, dtype in json.load(sys.stdin):
        tensor = torch.zeros(size, dtype=getattr(torch, dtype)).as_strided(shape, strides, offset)
        signature = compilation.KernelSignature.from_kernel_args(kernel, (tensor,), convention)
        found.append(repr(signature.parameters[0]))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
