# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.arguments import bits
from pytest_cutile_rs.peers.base import PeerError
from pytest_cutile_rs.peers.base import PeerFault
from pytest_cutile_rs.peers.base import PeerRefused
from pytest_cutile_rs.peers.cutile_python import CutilePython
from pytest_cutile_rs.peers.process import WorkerProcess
from pytest_cutile_rs.peers.tileiras import share_tileiras
from pytest_cutile_rs.peers.tileiras import write_launcher
from pytest_cutile_rs.peers.wire import pack
from pytest_cutile_rs.peers.wire import unpack
from pytest_cutile_rs.suites import suites

CASE = Case("softmax", "f16-4096x1000-tma", "f16", (4096, 1000), (("use_tma", True),))


class Softmax(OpSuite):
    """A suite outside the package: the worker has to find it in this module."""

    name = "softmax"
    cases = (CASE,)

    def inputs(self, case, device, seed):
        import torch

        if case.id == "dies":
            os.abort()
        if case.id == "stops":
            import time

            time.sleep(60)
        x = torch.empty(case.shape, dtype=torch.float16, device=device)
        return Call((x,), dict(case.params))

    def call(self, call, backend=None):
        options = dict(call.kwargs)
        if options.pop("unfilled", False):
            call = Call((call.args[0].new_empty(call.args[0].shape),), options)
        return super().call(call, backend)

    reference = torch = bytes_moved = flops = None


SUITE = Softmax.__new__(type("Softmax", (Softmax,), {"__abstractmethods__": frozenset(), "__module__": __name__}))


@pytest.fixture(scope="module")
def peer():
    pytest.importorskip("cuda.tile")
    pytest.importorskip("tilegym")
    peer = CutilePython(timeout_s=200)
    assert peer.available() is None
    yield peer
    peer.close()
    assert peer._worker.pid is None


def test_launches_come_from_a_worker_and_are_remembered(peer):
    import torch

    available = torch.cuda.is_available
    [launch] = peer.launches(SUITE, CASE, "sm_90")
    assert (launch.name, launch.grid, launch.hints) == ("_softmax_kernel_tma", (264, 1, 1), {"occupancy": 2})
    assert launch.bytecode[:10] == b"\x7fTileIR\x00\x0d\x04"
    assert launch.constants == {"N_ROWS": 4096, "N_COLS": 1000, "TILE_SIZE": 1024}
    assert launch.arguments["input"] == "float16[4096x1000] strides (1000, 1)"
    assert launch.configurations == 4
    assert torch.cuda.is_available is available
    worker = peer._worker.pid
    assert peer.launches(SUITE, CASE, "sm_90")[0] is launch
    assert peer.launches(SUITE, CASE, "sm_80")[0].grid != launch.grid
    assert peer._worker.pid == worker


def test_a_case_is_executed_on_the_cpu_from_the_same_inputs(peer):
    import torch

    suite = suites()["softmax"]
    case = next(case for case in suite.cases if case.id == "f16-128x512-strided")
    found = peer.execute(suite, case, "sm_90", 3)
    [output] = found.outputs
    call = suite.inputs(case, "cpu", case.seed(3))
    torch.testing.assert_close(output.double(), suite.reference(case, call), rtol=1e-3, atol=1e-6)
    assert (output.dtype, output.stride()) == (torch.float16, (512, 1))
    assert (found.launches, found.blocks) == (("_softmax_kernel",), 128)
    assert found.approximate == ("divf approx", "exp approx")
    assert found.modified == ()
    again = peer.execute(suite, case, "sm_90", 4).outputs[0]
    assert not torch.equal(again, output)


def test_an_output_that_no_kernel_stored_is_nan(peer):
    import torch

    # TileGym 1.5.1 lets its kernel write to a contiguous copy of the output, and returns the output.
    suite = suites()["softmax"]
    case = next(case for case in suite.cases if case.id == "f16-128x512-transposed")
    [output] = peer.execute(suite, case, "sm_90", 0).outputs
    assert output.stride() == (1, 128)
    assert bool(torch.isnan(output).all())


def test_a_fault_of_the_peers_has_its_kind(peer):
    with pytest.raises(
        PeerFault, match=r"(?s)softmax\[unfilled\] .*executed on the CPU: .*nobody has written"
    ) as caught:
        peer.execute(SUITE, replace(CASE, id="unfilled", shape=(16, 64), params=(("unfilled", True),)), "sm_90", 0)
    assert caught.value.kind == "uninitialized"
    both = replace(CASE, id="both", params=(("use_tma", True), ("use_chunked", True)))
    with pytest.raises(PeerRefused, match=r"refused softmax\[both\] for sm_90: AssertionError: Cannot use both"):
        peer.execute(SUITE, both, "sm_90", 0)
    with pytest.raises(PeerFault, match="power of 2, got 0") as caught:
        peer.execute(suites()["softmax"], replace(CASE, id="empty", shape=(4, 0), params=()), "sm_90", 0)
    assert caught.value.kind == "compile"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int64", "bool"])
def test_tensors_travel_with_their_bits_and_strides(dtype):
    import torch

    base = torch.randn(4, 6).mul(3).to(getattr(torch, dtype))
    for tensor in (base, base.t(), base[1:, ::2], base[:1].expand(3, 6), base[0, 0], base[:0]):
        other = unpack(pickle.loads(pickle.dumps(pack(tensor))))
        assert (other.dtype, other.shape, other.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
        assert torch.equal(bits(other), bits(tensor))
    weird = torch.tensor([0x7FC1, 0xFF81], dtype=torch.uint16).view(torch.bfloat16)
    assert unpack(pack(weird)).view(torch.uint16).tolist() == [0x7FC1, 0xFF81]


def test_a_dtype_that_an_architecture_lacks_is_refused_too(peer):
    """Not a failure of either side: sm_80 has no 8-bit floats."""
    matmul = suites()["matmul"]
    eight_bits = next(case for case in matmul.cases if case.dtype == "f8e5m2" and case.structural and not case.raises)
    with pytest.raises(PeerRefused, match=r"refused matmul\[f8e5m2.*for sm_80: .*not supported on sm_80"):
        peer.launches(matmul, eight_bits, "sm_80")


def test_what_the_op_refuses_is_told_apart_from_a_failure(peer):
    refused = replace(CASE, id="both", params=(("use_tma", True), ("use_chunked", True)))
    for _ in range(2):
        with pytest.raises(PeerRefused, match=r"refused softmax\[both\] for sm_90: AssertionError: Cannot use both"):
            peer.launches(SUITE, refused, "sm_90")
    with pytest.raises(PeerError, match=r"(?s)could not be captured: .*shape"):
        peer.launches(SUITE, replace(CASE, id="odd", shape="no shape"), "sm_90")


def test_a_worker_that_dies_or_hangs_is_reported_and_replaced(peer):
    with pytest.raises(PeerError, match=r"worker ended \(signal SIGABRT\) while it answered .*dies"):
        peer.launches(SUITE, replace(CASE, id="dies"), "sm_90")
    assert peer._worker.pid is None
    assert peer.launches(SUITE, replace(CASE, id="after"), "sm_90")[0].name == "_softmax_kernel_tma"
    peer._worker._timeout_s = 1.0
    with pytest.raises(PeerError, match=r"did not answer .* within 1 s"):
        peer.launches(SUITE, replace(CASE, id="stops"), "sm_90")
    assert peer._worker.pid is None


def test_versions_are_recorded(peer):
    assert {"peer": "cutile-python", "cuda-tile": "1.7.0"}.items() <= peer.facts().items()


def test_a_missing_package_is_a_reason(monkeypatch):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert "cuda-tile is not installed" in CutilePython().available()


def test_a_worker_that_cannot_start_says_so():
    worker = WorkerProcess("no_such_module_at_all", {}, 30)
    with pytest.raises(PeerError, match=r"(?s)ended \(exit status 1\).*No module named"):
        worker.ask("anything")
    worker.close()


def fake_tileiras(folder: Path) -> Path:
    tool = folder / "bin" / "tileiras"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "home=$CUDA_HOME path=$CUDA_PATH root=$CUDA_ROOT args=$*"\n')
    tool.chmod(0o700)
    return tool


def test_the_launcher_runs_our_file_without_the_harmful_variables(tmp_path):
    tool = fake_tileiras(tmp_path)
    launcher = write_launcher(tool, tmp_path / "cache dir")
    assert write_launcher(tool, tmp_path / "cache dir") == launcher
    assert stat.S_IMODE(launcher.stat().st_mode) == 0o700
    environment = {**os.environ, "CUDA_HOME": "/x", "CUDA_PATH": "/y", "CUDA_ROOT": "/z"}
    done = subprocess.run([launcher, "a b", "c"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "home= path= root= args=a b c\n"


def test_cutile_python_uses_our_tileiras_until_undone(tmp_path):
    pytest.importorskip("cuda.tile")
    import cuda.tile._compile as compiling

    original = compiling._find_compiler_bin
    tool = fake_tileiras(tmp_path)
    with pytest.raises(PeerError, match="no absolute path of an executable"):
        share_tileiras(tmp_path / "missing", "1", tmp_path)
    shared = share_tileiras(tool, "13.4.92", tmp_path / "cache")
    try:
        found = compiling._find_compiler_bin()
        assert found.path == str(shared.launcher)
        assert compiling._get_compiler_version_string().startswith("home= path= root= args=--version")
        assert shared.facts() == {"path": str(tool), "version": "13.4.92"}
    finally:
        shared.undo()
    assert compiling._find_compiler_bin is original
    compiling._get_compiler_version_string.cache_clear()


def test_an_unknown_lookup_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("cuda.tile")
    import cuda.tile._compile as compiling

    monkeypatch.delattr(compiling, "_find_compiler_bin")
    with pytest.raises(PeerError, match=r"pip install cuda-tile==1\.7\.0"):
        share_tileiras(fake_tileiras(tmp_path), "1", tmp_path)


@pytest.mark.gpu
def test_a_call_on_a_gpu_runs_under_the_peers_backend(peer):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    tilegym = sys.modules.get("tilegym") or pytest.importorskip("tilegym")
    x = torch.randn(64, 1000, dtype=torch.float16, device="cuda")
    before = tilegym.get_current_backend()
    out = peer.call(SUITE, Call((x,)))
    assert tilegym.get_current_backend() == before
    torch.testing.assert_close(out, torch.softmax(x.float(), 1).half(), rtol=2e-3, atol=1e-4)
    assert peer.facts()["tileiras"]["version"]
