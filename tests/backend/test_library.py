# SPDX-License-Identifier: MIT
"""The loaded library: reload after an edit, a bad file, forks, describe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.errors import LaunchError

pytestmark = pytest.mark.cargo


def test_description_names_every_export(library):
    names = [entry["name"] for entry in library.describe["kernels"]]
    assert {"softmax_rows", "silu_and_mul_tile", "matmul_tile"} <= set(names)
    assert names == sorted(names)
    for name in names:
        assert callable(library.export(name))


def test_errors_carry_the_librarys_text(library):
    with pytest.raises(LaunchError, match=r"unsupported dtype.*rc=-2"):
        library.fail(-2, "softmax")


def test_a_file_that_is_no_library_is_a_build_error(tmp_path):
    from tilegym_rs_backend.library import Library

    bad = tmp_path / "libcutile_kernels.so"
    bad.write_bytes(b"no ELF")
    with pytest.raises(BuildError, match="cannot load"):
        Library(bad)


def test_another_abi_is_refused(tmp_path):
    from tilegym_rs_backend.library import Library

    source, out = tmp_path / "a.c", tmp_path / "liba.so"
    source.write_text("int cutile_abi_version(void) { return 99; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(out), str(source)], check=True)
    with pytest.raises(BuildError, match="ABI 99"):
        Library(out)


FORK = """
import os, sys
import torch
from tilegym_rs_backend import library
library.get_library()
torch.cuda.is_initialized = lambda: True  # as if this process had used a GPU
pid = os.fork()
if pid == 0:
    torch.cuda.is_initialized = lambda: False
    try:
        library.get_library()
    except library.LaunchError as error:
        assert "spawn" in str(error)
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(pid, 0)
library.get_library()  # the parent goes on
sys.exit(os.waitstatus_to_exitcode(status))
"""


def _run(code, library):
    env = {**os.environ, "TILEGYM_RS_LIBRARY": str(library.path), "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)


def test_a_fork_after_cuda_initialisation_is_a_clear_error(library):
    done = _run(FORK, library)
    assert done.returncode == 7, done.stderr


def test_a_fork_before_cuda_initialisation_works(library):
    code = FORK.replace("torch.cuda.is_initialized = lambda: True", "pass").replace("os._exit(1)", "os._exit(5)")
    done = _run(code, library)
    assert done.returncode == 5, done.stderr


EDIT = """
import sys, time
from pathlib import Path
import shutil
root = Path({root!r})
import tilegym_rs_backend.build.key as key
key.rust_root = lambda: root
import tilegym_rs_backend.build.ensure as ensure
ensure.keys.rust_root = key.rust_root
from tilegym_rs_backend import library
first = library.get_library()
kernel = root / "src" / "ops" / "softmax.rs"
text = kernel.read_text()
kernel.write_text(text.replace("softmax_long", "softmax_edited"))
time.sleep(0.6)
second = library.get_library()
names = [entry["name"] for entry in second.describe["kernels"]]
assert second is not first and second.path != first.path
assert "softmax_edited" in names and "softmax_long" not in names
assert "softmax_long" in [entry["name"] for entry in first.describe["kernels"]], "the old one stays mapped"
kernel.write_text(text)
time.sleep(0.6)
third = library.get_library()
assert "softmax_long" in [entry["name"] for entry in third.describe["kernels"]]
print("edited")
"""


def test_an_edit_is_picked_up_by_the_same_process(library, tmp_path):
    import shutil

    from tilegym_rs_backend.build import rust_root

    root = tmp_path / "rust"
    shutil.copytree(rust_root(), root, ignore=shutil.ignore_patterns("target"))
    env = {key: value for key, value in os.environ.items() if key != "TILEGYM_RS_LIBRARY"}
    code = EDIT.format(root=str(root))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "edited"


def test_describe_and_warmup_verbs(library, capsys):
    from tilegym_rs_backend.cli import main

    assert main(["describe", "softmax", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in facts["kernels"]] == ["softmax_long", "softmax_packed", "softmax_rows"]
    assert facts["dtypes"] == ["bf16", "f16", "f32"]
    for path in facts["files"].values():
        assert (Path(__file__).parents[2] / path).is_file()
    assert main(["warmup", "softmax", "--shapes", "8x64", "--dtypes", "f16", "--arch", "sm_90"]) == 0
    assert "1 kernels ready" in capsys.readouterr().out
    assert main(["warmup", "bmm"]) == 2
    assert "no native op 'bmm'" in capsys.readouterr().err


def test_warmup_returns_each_specialization_once(library):
    from tilegym_rs_backend import warmup

    done = warmup("softmax", [(8, 64), (16, 64), (8, 80)], ["f16"], arch="sm_90")
    assert len({each.spec_text for each in done}) == len(done)
    assert all(each.arch == "sm_90" for each in done)
