# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

from tilegym_rs_backend.errors import CompileError  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.signature import bytecode  # noqa: E402
from tilegym_rs_backend.port.signature import resolve_hints  # noqa: E402
from tilegym_rs_backend.port.signature import signature  # noqa: E402

# (shape, strides, storage offset)
VIEWS = [
    ((64, 1000), (1000, 1), 0),
    ((64, 1024), (1024, 1), 0),
    ((64, 999), (1000, 1), 1),
    ((64, 1000), (1, 64), 0),
    ((1000, 64), (1, 1000), 0),
    ((1, 1000), (1000, 1), 0),
    ((8, 1), (1, 1), 0),
    ((8, 1000), (0, 1), 0),
    ((8, 16), (8, 1), 0),
    ((4, 500), (1000, 2), 0),
    ((0, 16), (16, 1), 0),
    ((), (), 0),
    ((17,), (1,), 0),
    ((17,), (3,), 5),
    ((2, 3, 4, 5, 16), (960, 320, 80, 16, 1), 0),
    ((2, 2, 2, 2, 2, 2), (32, 16, 8, 4, 2, 1), 0),
]
DTYPES = ["float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool", "float8_e4m3fn", "float64"]


@ct.kernel
def takes_array(x):
    pass


@ct.kernel(occupancy=ct.ByTarget(sm_90=2, default=3), num_ctas=ct.ByTarget(sm_100=2))
def takes_all(x, n: int, scale: float, flag: bool, WIDTH: ct.Constant[int]):
    ct.store(x, index=(0,), tile=ct.full((WIDTH,), 0.0, dtype=x.dtype))


def record(kernel, *args, **options):
    [launch] = capture(lambda: ct.launch(torch.cuda.current_stream(), (2,), kernel, args), **options)
    return launch


def test_array_constraints_are_those_of_the_run_time_front_end():
    cases = []
    for dtype in DTYPES:
        for shape, strides, offset in VIEWS:
            size = 1 + offset + sum(max(0, n - 1) * s for n, s in zip(shape, strides, strict=True))
            cases.append((max(size, math.prod(shape)), shape, strides, offset, dtype))
    script = Path(__file__).parent / "fake_gpu.py"
    done = subprocess.run(
        [sys.executable, str(script)], input=json.dumps(cases), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)
    for (size, shape, strides, offset, dtype), want in zip(cases, expected, strict=True):
        for device in ("cpu", "meta"):
            base = torch.empty(size, dtype=getattr(torch, dtype), device=device)
            launch = record(takes_array, base.as_strided(shape, strides, offset))
            assert repr(signature(launch).parameters[0]) == want, (shape, strides, offset, dtype, device)


def test_scalars_constants_and_convention():
    launch = record(takes_all, torch.empty(32, device="meta"), 5, 0.5, True, 16)
    made = signature(launch)
    assert [repr(p) for p in made.parameters[1:]] == [
        "ScalarConstraint(dtype=<DType 'int32'>)",
        "ScalarConstraint(dtype=<DType 'float32'>)",
        "ScalarConstraint(dtype=<DType 'bool_'>)",
        "ConstantConstraint(value=16)",
    ]
    assert made.calling_convention.version == 1
    assert launch.constants == {"WIDTH": 16}


def test_an_extent_of_one_is_a_constant_unless_asked_otherwise():
    launch = record(takes_array, torch.empty(1, 32, device="meta"))
    assert signature(launch).calling_convention.version == 2
    assert signature(launch).parameters[0].shape_constant == (1, None)
    assert signature(launch, singleton_extents=False).calling_convention.version == 1


def test_hints_are_resolved_for_the_arch():
    assert resolve_hints(takes_all, "sm_90") == {"occupancy": 2}
    assert resolve_hints(takes_all, "sm_100") == {"occupancy": 3, "num_ctas": 2}


def test_bytecode_is_13_4_deterministic_and_needs_no_tileiras(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    launch = record(takes_all, torch.empty(32, device="meta"), 5, 0.5, True, 16)
    made = bytecode(launch)
    assert made[:8] == b"\x7fTileIR\x00"
    assert made[8:10] == bytes([13, 4])
    assert bytecode(launch) == made


def test_what_the_front_end_refuses_is_refused_by_name():
    with pytest.raises(CompileError, match=r"'n' of cuTile Python kernel takes_all .* does not fit int32"):
        signature(record(takes_all, torch.empty(4, device="meta"), 2**40, 0.5, True, 16))
    with pytest.raises(CompileError, match=r"'x' .* beyond 32 bits"):
        signature(record(takes_array, torch.empty(2**31, dtype=torch.uint8, device="meta")))
    with pytest.raises(CompileError, match=r"'x' .* NoneType are not supported"):
        signature(record(takes_array, None))
    with pytest.raises(CompileError, match="front end refused kernel takes_all for sm_90"):
        bytecode(record(takes_all, torch.empty(4, 4, device="meta"), 1, 0.5, True, 16))


@pytest.mark.gpu
def test_on_a_gpu_the_same_signature_and_nothing_is_launched():
    import cuda.tile.compilation as compilation

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.zeros(33, dtype=torch.float16, device="cuda")[1:]
    launch = record(takes_all, x, 5, 0.5, True, 16)
    torch.cuda.synchronize()
    convention = compilation.CallingConvention.cutile_python_v1()
    wanted = compilation.KernelSignature.from_kernel_args(takes_all, launch.args, convention)
    assert signature(launch).symbol == wanted.symbol
    assert [repr(p) for p in signature(launch).parameters] == [repr(p) for p in wanted.parameters]
