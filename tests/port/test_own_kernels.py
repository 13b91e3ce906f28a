# SPDX-License-Identifier: MIT
"""Kernels that TileGym does not have: translated, built, equal in machine code, launched in the originals' place."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

import own_ported as kernels  # noqa: E402

from tilegym_rs_backend import port  # noqa: E402
from tilegym_rs_backend.errors import ToolchainError  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.capture import check_cuda_tile  # noqa: E402
from tilegym_rs_backend.port.comparison import compare_launch  # noqa: E402
from tilegym_rs_backend.port.execute import execute  # noqa: E402
from tilegym_rs_backend.port.redirect import redirect  # noqa: E402

pytestmark = pytest.mark.cargo

try:
    check_cuda_tile()
except ToolchainError as error:
    pytest.skip(str(error), allow_module_level=True)


def original_launch(grid, kernel, args):
    ct.launch(torch.cuda.current_stream(), grid, kernel, args)


def rust_launch(grid, kernel, args):
    rust = port.kernel(kernel)
    ct.launch(None, grid, rust, args)


@pytest.mark.parametrize("name", kernels.PROGRAMS)
def test_the_machine_code_is_the_originals(shared_crate, name):
    found = compare_launch(shared_crate.kernels, shared_crate.launches[f"own_{name}"])
    assert found.verdict == "SASS-IDENTICAL", found.detail


@pytest.fixture(scope="module")
def prepared():
    """All five translated and built in one go, for CPU tensors as the tests make them."""
    found = []
    for program in kernels.PROGRAMS.values():
        found += capture(lambda p=program: p(original_launch, "cpu"), device="cpu")
    try:
        failed = redirect().kernels.prepare(found)
    except ToolchainError as error:
        pytest.skip(str(error))
    assert failed == {}


@pytest.mark.parametrize("name", kernels.PROGRAMS)
def test_a_rust_kernel_launches_like_its_original_and_gives_the_same_bits(prepared, name):
    theirs = []
    program = kernels.PROGRAMS[name]
    capture(lambda: theirs.extend(program(original_launch, "cpu")), device="cpu", carry_out=execute)
    ours = program(rust_launch, "cpu")
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_another_dtype_has_its_own_specialization(prepared, dtype):
    [out] = kernels.run_stencil(rust_launch, "cpu", dtype)
    x = kernels.numbers(300, dtype=dtype).double()
    padded = torch.nn.functional.pad(x, (1, 1))
    want = 0.25 * padded[:-2] + 0.5 * x + 0.25 * padded[2:]
    torch.testing.assert_close(out.double(), want, rtol=2e-2, atol=2e-2)


def test_what_is_no_kernel_is_named():
    with pytest.raises(TypeError, match=r"takes a cuda\.tile\.kernel"):
        port.kernel(lambda x: x)


def test_a_launch_without_a_tensor_is_refused():
    with pytest.raises(Exception, match="collatz: a launch needs a tensor"):
        port.kernel(kernels.collatz).launch(None, (1,), (1, 2, 3))


def test_a_build_that_is_not_possible_leaves_the_crate_as_it_was(tmp_path, monkeypatch):
    from tilegym_rs_backend.build.key import source_key
    from tilegym_rs_backend.errors import BuildError
    from tilegym_rs_backend.port import cached
    from tilegym_rs_backend.port.crate import write_crate

    crate = cached.CachedCrate(tmp_path)
    write_crate({"first": "// one\n"}, crate.root)
    before = source_key(crate.root)

    def impossible(sources, folder):
        write_crate(sources, folder)
        raise BuildError("no cargo here", stage="preflight")

    monkeypatch.setattr(cached, "build", impossible)
    with pytest.raises(BuildError, match="no cargo here"):
        crate.add({"second": "// two\n"})
    assert source_key(crate.root) == before
    assert crate.has("first")
    assert not crate.has("second")


def test_a_warning_about_another_file_blames_nobody(tmp_path):
    from tilegym_rs_backend.errors import BuildError
    from tilegym_rs_backend.port.crate import _blamed

    text = """error[E0425]: cannot find function `nothing`
 --> src/ops/wrong.rs:3:5
warning: value assigned is never read
 --> src/ops/right.rs:4:9
"""
    log = tmp_path / "build.log"
    log.write_text(text)
    found = _blamed(BuildError("cargo failed", stage="cargo", log_path=log), {"wrong": "", "right": ""})
    assert list(found) == ["wrong"]
    assert found["wrong"].endswith("src/ops/wrong.rs:3:5")
