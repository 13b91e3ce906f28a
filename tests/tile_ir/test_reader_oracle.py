# SPDX-License-Identifier: MIT
"""The reader against ``tileirdisasm``, over kernels of ours and of cuTile Python; skipped where no toolkit is.

The whole of TileGym's ops is checked by tools/tile_ir_capture.py and tools/tile_ir_oracle.py.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import ir_kernels
import pytest
from ir_writer import write_module

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tile_ir.disasm import disassemble
from tilegym_rs_backend.tile_ir.disasm import find_tileirdisasm
from tilegym_rs_backend.tile_ir.reader import read_module

TOOL = Path(__file__).parents[2] / "tools" / "tile_ir_oracle.py"


@pytest.fixture(scope="module")
def oracle():
    spec = importlib.util.spec_from_file_location("tile_ir_oracle", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool():
    from tilegym_rs_backend.toolchain.toolkit import find_toolkit

    try:
        return find_tileirdisasm(find_toolkit().tileiras)
    except TilegymRsError as error:
        pytest.skip(f"no tileirdisasm: {error}")


@pytest.mark.parametrize("version", [(13, 1), (13, 2), (13, 3), (13, 4)], ids=str)
@pytest.mark.parametrize("build", [ir_kernels.softmax, ir_kernels.scaled_copy, ir_kernels.product])
def test_kernels_of_the_tests(oracle, tool, build, version):
    data = write_module(build().module(version))
    function = read_module(data).entry()
    assert oracle.compare(function, disassemble(data, tool)) > 10


@pytest.mark.parametrize("minor", [1, 2, 3, 4])
def test_a_kernel_of_cutile_python(oracle, tool, minor):
    torch = pytest.importorskip("torch")
    ct = pytest.importorskip("cuda.tile")
    from tilegym_rs_backend.port.capture import bytecode
    from tilegym_rs_backend.port.capture import capture

    [launch] = capture(lambda: ct.launch(torch.cuda.current_stream(), (4,), _every_kind(ct), _arguments(torch)))
    data = bytecode(launch, version=f"13.{minor}")
    module = read_module(data)
    assert module.version == (13, minor)
    assert oracle.compare(module.entry(), disassemble(data, tool)) > 30
    located = [op.loc for _, op in module.entry().body.walk() if op.loc]
    assert Path(located[0].file).name == Path(__file__).name


def _arguments(torch):
    def new(*shape, of=torch.float16):
        return torch.empty(*shape, dtype=of, device="meta")

    return new(64, 64), new(64, 16, of=torch.float32), new(64, of=torch.int32), 3


def _every_kind(ct):
    @ct.kernel(occupancy=2)
    def mixed(x, out, index, limit: int):
        i = ct.bid(0)
        tile = ct.load(x, index=(i, 0), shape=(16, 64), latency=3)
        acc = ct.full((16, 16), 0.5, dtype=ct.float32)
        if i > limit:
            acc = ct.mma(tile, ct.transpose(tile), acc)
        for _ in range(limit):
            acc = acc + ct.cumsum(acc, 1) / 3
        where = ct.arange(16, dtype=ct.int32)
        rows = ct.gather(index, where)
        ct.scatter(index, where, rows % 7 + rows // 3)
        ct.store(out, index=(i, 0), tile=ct.where(acc > 0, ct.exp(acc), ct.max(acc, 1, keepdims=True)))

    return mixed


def test_kernels_of_this_package(oracle, tool):
    torch = pytest.importorskip("torch")
    from tilegym_rs_backend.artifacts import emit
    from tilegym_rs_backend.launch import record

    try:
        from tilegym_rs_backend.library import get_library

        library = get_library()
    except TilegymRsError as error:
        pytest.skip(f"the Rust library cannot be built here: {error}")
    from tilegym_rs_backend.ops.matmul import matmul
    from tilegym_rs_backend.ops.silu_and_mul import silu_and_mul
    from tilegym_rs_backend.ops.softmax import softmax

    with record("sm_90") as launches:
        x = torch.empty(64, 1024, dtype=torch.float16, device="meta")
        for keywords in ({}, {"use_tma": True}, {"use_chunked": True}, {"use_multi_wave": True}):
            softmax(x, **keywords)
        silu_and_mul(x)
        matmul(x, x.t())
    for launch in launches:
        data = emit(library, launch.token, "sm_90")
        assert oracle.compare(read_module(data).entry(), disassemble(data, tool)) > 10, launch.spec_text
