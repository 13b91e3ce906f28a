# SPDX-License-Identifier: MIT
"""Verbs given what cannot be meant: one line that says what and how to fix it, status 2, nothing written."""

from __future__ import annotations

import pytest

from tilegym_rs_backend.cli import main
from tilegym_rs_backend.warm import launches

pytestmark = pytest.mark.cargo


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["softmax", "--shapes", "4xfoo"], "--shapes: '4xfoo' is no shape; write extents with x between"),
        (["softmax", "--shapes=-1x5"], "--shapes: '-1x5' is no shape"),
        (["softmax", "--shapes", "4x4,"], "--shapes: '' is no shape"),
        (["softmax", "--shapes", "4x4", "--dtypes", "f8"], "unknown dtype 'f8'; one of f32"),
        (["softmax", "--shapes", "4x4", "--param", "foo=1"], "softmax: unknown arguments ['foo']"),
        (["softmax", "--shapes", "4x4", "--param", "use_tma=1", "--param", "use_chunked=1"], "exclude each other"),
        (["matmul", "--shapes", "4x4"], "matmul: a shape is M, N, K (MxNxK), got (4, 4)"),
        (["silu_and_mul", "--shapes", "4x3"], "the last axis must hold both halves"),
        (["geglu", "--shapes", "4x3"], "geglu: axis 1 must hold both halves"),
        (["geglu", "--shapes", "4x4", "--param", "dim=2"], "geglu: dim 2 of an input with 2 axes"),
        (["gelu", "--shapes", "4x4", "--param", "approximate=erf"], "approximate is 'none' or 'tanh', got 'erf'"),
        (["dropout", "--shapes", "4x4", "--param", "foo=1"], "dropout: unknown arguments ['foo']"),
        (["get_swiglu_module", "--shapes", "4x4"], "get_swiglu_module: a shape is rows, hidden, inner, got (4, 4)"),
        (["softmax", "--shapes", "4x4", "--arch", "hopper"], "is not of the form sm_90"),
    ],
)
def test_warmup(library, capsys, words, text):
    assert main(["warmup", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("tilegym-rs warmup: ")
    assert text in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--python", "three"], "python 'three' is no version of Python; write it as 3.12"),
        (["--aot", "hopper"], "aot 'hopper' is no architecture; write it as sm_90"),
        (["--aot", "sm_90", "--ops", "softmax,nope"], "no native op nope; there are: "),
    ],
)
def test_bundle(tmp_path, capsys, words, text):
    out = tmp_path / "bundle"
    assert main(["bundle", "--out", str(out), "--no-wheels", *words]) == 2
    assert text in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_that_is_a_file(tmp_path, capsys):
    out = tmp_path / "file"
    out.write_text("")
    assert main(["bundle", "--out", str(out)]) == 2
    assert f"tilegym-rs bundle: [Errno 20] Not a directory: '{out}'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["f8e4m3", "f8e4m3fn"])
def test_a_dtype_has_the_name_that_the_cases_give_it_too(library, name: str) -> None:
    [launch] = launches("matmul", [(64, 64, 64)], [name], arch="sm_90")
    assert "f8e4m3fn" in launch.spec_text
