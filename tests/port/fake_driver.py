# SPDX-License-Identifier: MIT
"""Ask cuda-tile's own C++ front end what it derives from CUDA tensors, on a machine without a driver.

Run as a script: reads pickled [(shape, strides, offset, dtype)] on stdin, writes the constraints' reprs as JSON. The
driver it loads answers success to everything; the tensors are CPU memory that claims to be CUDA memory.
"""

from __future__ import annotations

import ctypes
import json
import sys
import types

POINTER = ctypes.c_void_p
STUB = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER, POINTER, POINTER)
VERSION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))
LOOKUP = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(POINTER), ctypes.c_int, ctypes.c_uint64, POINTER
)


@STUB
def succeed(*_: object) -> int:
    return 0


@VERSION
def driver_version(out: object) -> int:
    out[0] = 13040
    return 0


@LOOKUP
def look_up(name: bytes, out: object, _version: int, _flags: int, _status: object) -> int:
    out[0] = ctypes.cast(driver_version if name == b"cuDriverGetVersion" else succeed, POINTER).value
    return 0


CELL = POINTER(ctypes.cast(look_up, POINTER).value)


def install() -> None:
    import cuda.tile  # noqa: F401 - the package has to be there before its module is replaced

    module = types.ModuleType("cuda.tile._load_libcuda")
    module.cuGetProcAddress_v2_ptrptr = ctypes.addressof(CELL)
    sys.modules["cuda.tile._load_libcuda"] = module


class Claims:
    """A CPU tensor whose DLPack capsule says that it lies on a CUDA device."""

    def __init__(self, tensor: object) -> None:
        self.tensor = tensor

    def __dlpack__(self, stream: object = None) -> object:
        import torch

        capsule = torch._C._to_dlpack(self.tensor)
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]
        address = get(capsule, b"dltensor")
        ctypes.cast(address, ctypes.POINTER(ctypes.c_int32))[2] = 2  # DLTensor.device.device_type = kDLCUDA
        return capsule


def main() -> None:
    import cuda.tile as ct
    import cuda.tile.compilation as compilation
    import torch

    install()

    @ct.kernel
    def kernel(x):
        pass

    found = []
    for size, shape, strides, offset, dtype in json.load(sys.stdin):
        base = torch.zeros(size, dtype=getattr(torch, dtype))
        tensor = base.as_strided(shape, strides, offset)
        convention = compilation.CallingConvention.cutile_python_v2()
        signature = compilation.KernelSignature.from_kernel_args(kernel, (Claims(tensor),), convention)
        found.append(repr(signature.parameters[0]))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
