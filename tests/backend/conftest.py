# SPDX-License-Identifier: MIT
"""A CUDA machine without a GPU: a driver that notes launches, and CPU tensors that say they live on a CUDA device."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


class Launch(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_uint64),
        ("function", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("first_param", ctypes.c_uint64),
    )


@dataclass
class FakeDriver:
    lib: ctypes.CDLL

    def __post_init__(self):
        self.lib.fake_current.restype = ctypes.c_uint64
        self.lib.fake_set_current.argtypes = (ctypes.c_uint64,)

    @property
    def count(self) -> int:
        return int(self.lib.fake_launches())

    def since(self, start: int) -> list[Launch]:
        found = []
        for number in range(start, self.count):
            launch = Launch()
            self.lib.fake_launch(number, ctypes.byref(launch))
            found.append(launch)
        return found


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> FakeDriver:
    """Loaded under libcuda's soname before the library asks for it: dlopen then answers with this one."""
    out = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = Path(__file__).with_name("fake_driver.c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o", str(out), str(source), "-lpthread"],
        check=True,
    )
    import torch

    if torch.cuda.is_available():
        pytest.skip("a real CUDA driver is loaded; these tests stand in for it")
    return FakeDriver(ctypes.CDLL(str(out), mode=ctypes.RTLD_GLOBAL))


@pytest.fixture
def library(driver):
    from tilegym_rs_backend.library import get_library

    return get_library()


@pytest.fixture
def cuda_like(driver, monkeypatch):
    """A function that makes a CPU tensor say it lives on cuda:<index>; streams are numbered 0x5000 + index."""
    import torch

    from tilegym_rs_backend import target

    class CudaLike(torch.Tensor):
        index = 0

        @property
        def is_cuda(self):
            return True

        @property
        def device(self):
            return torch.device("cuda", self.index)

        def get_device(self):
            return self.index

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(result, CudaLike):
                result.index = next((a.index for a in args if isinstance(a, CudaLike)), 0)
            return result

    devices = {index: target.Target("sm_90", 132, index) for index in range(2)}
    monkeypatch.setattr(target, "_devices", devices)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0x5000 + index, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setenv("TILEGYM_DISABLE_AUTOTUNE", "1")  # there is no GPU to measure on

    def make(tensor, index=0):
        like = tensor.as_subclass(CudaLike)
        like.index = index
        return like

    return make
