# SPDX-License-Identifier: MIT
"""The real tileiras and tileirdisasm over kernels of cuTile Python; skipped where no toolkit is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

from tilegym_rs_backend.errors import CompileError  # noqa: E402
from tilegym_rs_backend.errors import ToolchainError  # noqa: E402
from tilegym_rs_backend.port.capture import bytecode  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.tile_ir.cubin import read_cubin  # noqa: E402
from tilegym_rs_backend.tile_ir.disasm import disassemble  # noqa: E402
from tilegym_rs_backend.tile_ir.disasm import find_tileirdisasm  # noqa: E402
from tilegym_rs_backend.tile_ir.features import features  # noqa: E402
from tilegym_rs_backend.tile_ir.features import hints_in_force  # noqa: E402
from tilegym_rs_backend.tile_ir.graph import Expressions  # noqa: E402
from tilegym_rs_backend.tile_ir.graph import build  # noqa: E402
from tilegym_rs_backend.tile_ir.reader import read_module  # noqa: E402


@ct.kernel(occupancy=2, num_worker_warps=4)
def gated(x, out, limit: int):
    i = ct.bid(0)
    tile = ct.load(x, index=(i, 0), shape=(16, 64), latency=3)
    acc = ct.full((16, 16), 0, dtype=ct.float32)
    if i > limit:
        acc = ct.mma(tile, ct.transpose(tile), acc)
    for _ in range(limit):
        acc = acc + ct.cumsum(acc, 1)
    ct.store(out, index=(i, 0), tile=acc)


@pytest.fixture(scope="module")
def toolkit():
    from tilegym_rs_backend.toolchain.toolkit import find_toolkit

    try:
        return find_toolkit()
    except ToolchainError as error:
        pytest.skip(f"no toolkit: {error}")


@pytest.fixture(scope="module")
def image():
    x, out = torch.empty(64, 64, dtype=torch.float16, device="meta"), torch.empty(64, 16, device="meta")
    [launch] = capture(lambda: ct.launch(torch.cuda.current_stream(), (4,), gated, (x, out, 3)))
    return bytecode(launch)


def test_the_disassembler_is_beside_tileiras(toolkit, tmp_path):
    assert find_tileirdisasm(toolkit.tileiras).is_file()
    with pytest.raises(ToolchainError, match="No tileirdisasm beside"):
        find_tileirdisasm(tmp_path / "tileiras")


def test_what_a_real_kernel_stands_for(image):
    function = read_module(image).entry()
    graph = build(function, Expressions())
    found = Counter(phrase for op in graph.nodes.values() for phrase in features(op, graph, "sm_90"))
    assert hints_in_force(function, "sm_90") == {"occupancy": 2, "num_worker_warps": 4}
    assert found["memory_family", "view load (TMA), padding undetermined"] == 1
    assert found["memory_family", "view store (TMA)"] == 1
    assert found["tile_shape", "load of tile<16x64xf16>"] == found["tile_shape", "store of tile<16x16xf32>"] == 1
    assert found["mma", "mmaf tile<16x64xf16>, tile<64x16xf16>, tile<16x16xf32>"] == 1
    assert found["reduction", "scan(addf, axis 1, tile<16x16xf32>)"] == 1
    assert found["control", "if"] == found["control", "for carrying 1 tile"] == 1
    assert found["hint", "load_view_tko latency=3"] == 1


def test_what_the_tools_refuse_has_their_message(toolkit, image):
    tool = find_tileirdisasm(toolkit.tileiras)
    with pytest.raises(CompileError, match="refused the bytecode"):
        disassemble(b"no bytecode", tool)
    with pytest.raises(CompileError, match="refused the bytecode"):
        disassemble(image[: len(image) // 2], tool)
    with pytest.raises(ToolchainError, match="cannot be run"):
        disassemble(image, Path("/nonexistent/tileirdisasm"))


def test_a_real_cubin(toolkit, image):
    from tilegym_rs_backend.artifacts import assemble

    cubin = read_cubin(assemble(image, "sm_90"))
    kernel = cubin.only()
    assert cubin.arch == "sm_90"
    assert kernel.symbol.startswith("gated")
    assert len(kernel.text) % 16 == 0
    assert kernel.text
    assert 16 < kernel.registers <= 255
    assert kernel.threads >= 128
    assert kernel.parameter_bytes >= 2 * (8 + 4 * 4) + 4
