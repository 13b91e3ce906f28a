# SPDX-License-Identifier: MIT
"""The built shared object: what it exports and needs, and what it asks of the driver (a fake one, in a child)."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cargo

FAKE_DRIVER = Path(__file__).parent / "backend" / "fake_driver.c"


@pytest.fixture(scope="module")
def library() -> Path:
    from tilegym_rs_backend.build import ensure_library

    return Path(os.environ.get("TILEGYM_RS_LIBRARY") or ensure_library(reason="tests/test_rust_library.py"))


@pytest.fixture(scope="module")
def loaded(library: Path) -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library))
    lib.cutile_header.restype = lib.cutile_describe.restype = ctypes.c_char_p
    return lib


def _elf(library: Path):
    from elftools.elf.elffile import ELFFile

    return ELFFile(library.open("rb"))


def test_exports_are_the_header_and_nothing_else(library: Path, loaded: ctypes.CDLL) -> None:
    symbols = _elf(library).get_section_by_name(".dynsym").iter_symbols()
    exported = {s.name for s in symbols if s["st_shndx"] != "SHN_UNDEF" and s.name.startswith("cutile_")}
    header = loaded.cutile_header().decode()
    declared = set(re.findall(r"^[a-z].*?\b(cutile_\w+)\(", header, flags=re.M))
    assert exported == declared
    described = {f"cutile_{k['name']}" for k in json.loads(loaded.cutile_describe())["kernels"]}
    assert described < declared


def test_it_needs_no_cuda_library_at_load_time(library: Path) -> None:
    dynamic = _elf(library).get_section_by_name(".dynamic")
    needed = [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
    assert needed
    assert not [name for name in needed if "cuda" in name or "curand" in name]


CHILD = r"""
import ctypes, struct, sys

class Desc(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_uint64), ("ndim", ctypes.c_int32), ("shape", ctypes.c_int64 * 5),
                ("strides", ctypes.c_int64 * 5), ("dtype", ctypes.c_int32)]

class Launch(ctypes.Structure):
    _fields_ = [("context", ctypes.c_uint64), ("function", ctypes.c_uint64), ("stream", ctypes.c_uint64),
                ("grid", ctypes.c_uint32 * 3), ("first_param", ctypes.c_uint64)]

fake = ctypes.CDLL(sys.argv[2], mode=ctypes.RTLD_GLOBAL) if len(sys.argv) > 2 else None
lib = ctypes.CDLL(sys.argv[1])
u64, i64 = ctypes.c_uint64, ctypes.c_int64
lib.cutile_spec.restype = i64
lib.cutile_load.argtypes = [i64, ctypes.c_int32, ctypes.c_char_p, i64]
lib.cutile_run_plan.argtypes = [ctypes.c_void_p] + [u64] * 5
if fake:
    fake.fake_current.restype = u64
    fake.fake_set_current.argtypes = [u64]

def error():
    text = ctypes.create_string_buffer(4096)
    lib.cutile_last_error(text, i64(4096))
    return text.value.decode()

x = Desc(0x1000, 2, (64, 1000), (1000, 1), 1)
descs = (ctypes.POINTER(Desc) * 2)(ctypes.pointer(x), ctypes.pointer(x))
constants = (ctypes.c_int32 * 3)(4, 1024, 1)
token = lib.cutile_spec(b"softmax_rows", descs, 2, constants, 3, 0, 0, 0)
assert token >= 0, error()

# The smallest ELF that counts as a complete cubin: a header and one empty section.
cubin = b"\x7fELF\x02\x01" + bytes(12) + struct.pack("<H", 190) + bytes(20) + struct.pack("<Q", 64) + bytes(10)
cubin += struct.pack("<HHH", 64, 1, 0) + bytes(64)
assert len(cubin) == 128

def plan(device):
    out = ctypes.c_void_p()
    grid, hints = (7, 1, 1), (0, 0, 0)
    code = lib.cutile_plan(b"softmax_rows", descs, 2, None, 0, constants, 3, *grid, *hints, device, ctypes.byref(out))
    return code, out
"""

WITHOUT_DRIVER = (
    CHILD
    + r"""
assert lib.cutile_load(token, 0, cubin, len(cubin)) == -4
assert "the CUDA driver cannot be loaded" in error(), error()
assert lib.cutile_loaded(token, 0) == 0
assert plan(0)[0] == 1
print("ok")
"""
)

WITH_DRIVER = (
    CHILD
    + r"""
assert lib.cutile_load(token, 0, cubin[:-1], len(cubin) - 1) == -6, error()
assert fake.fake_loads() == 0, "a truncated image must not reach the driver"
fake.fake_set_current(0xABCD)
for _ in range(2):
    assert lib.cutile_load(token, 1, cubin, len(cubin)) == 0, error()
assert fake.fake_loads() == 1, "a second load does nothing"
assert fake.fake_current() == 0xABCD, "the caller's context is current again"
assert (lib.cutile_loaded(token, 1), lib.cutile_loaded(token, 0)) == (1, 0)
assert plan(0)[0] == 1
code, p = plan(1)
assert code == 0, error()

def run(a=0x2000, b=0x3000, stream=77):
    return lib.cutile_run_plan(p, stream, a, b, 0, 0)

def last():
    launch = Launch()
    fake.fake_launch(fake.fake_launches() - 1, ctypes.byref(launch))
    return launch

assert run() == 0, error()
launch = last()
assert (launch.context, launch.stream, list(launch.grid), launch.first_param) == (0xC001, 77, [7, 1, 1], 0x2000)
assert fake.fake_current() == 0xABCD
assert run(a=0x2002) == 1, "another alignment"
assert fake.fake_launches() == 1
fake.fake_fail_next(719)
assert run() == -3
assert "cuLaunchKernel: CUDA error 719 CUDA_ERROR_FAKE: asked to fail" == error(), error()
fake.fake_fail_next(400)
assert run() == -4, "an invalid handle is a stream error"
assert fake.fake_current() == 0xABCD, "restored after a failure too"
assert run() == 0, "a failing launch leaves the next one working"
typed = lib.cutile_softmax_rows(descs[0], descs[1], 4, 1024, 1, 9, 1, 1, 0, 0, 0, 1, u64(5))
assert typed == 0 and (last().stream, list(last().grid), last().first_param) == (5, [9, 1, 1], 0x1000)
lib.cutile_plan_free(p)
print("ok")
"""
)


def _run(code: str, *args: Path) -> str:
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a CUDA driver")
def test_without_a_driver_it_specializes_and_says_what_is_missing(library: Path) -> None:
    assert _run(WITHOUT_DRIVER, library) == "ok"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) on PATH")
def test_what_it_asks_of_the_driver(library: Path, tmp_path: Path) -> None:
    fake = tmp_path / "libcuda.so.1"
    build = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(fake), str(FAKE_DRIVER), "-lpthread"]
    subprocess.run(build, check=True)
    assert _run(WITH_DRIVER, library, fake) == "ok"
