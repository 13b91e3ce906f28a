# SPDX-License-Identifier: MIT
"""How the backend gets to TileGym, each case in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("tilegym", reason="tilegym is not installed (pip install tilegym-rs[parity])")


def run(code: str, cwd: object = None, **environment: str) -> str:
    env = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=cwd, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_bare_import_knows_the_backend_and_leaves_the_hyphenated_one_alone():
    code = """
import tilegym
before = {"cutile-rs"} & tilegym.get_available_backends()
tilegym.set_backend("cutile_rs")
from tilegym.backend.dispatcher import _REGISTRY
ours = {op for op, impls in _REGISTRY.items() if "cutile_rs" in impls}
print(tilegym.get_current_backend(), {op for op, impls in _REGISTRY.items() if "default" in impls} - ours)
hyphen = _REGISTRY["matmul"].get("cutile-rs")
assert hyphen is None or hyphen.__module__.startswith("tilegym."), hyphen
import torch
assert not torch.cuda.is_initialized()
"""
    assert run(code) == "cutile_rs set()"


def test_an_op_without_a_native_implementation_names_op_and_backend():
    code = """
import tilegym
tilegym.set_backend("cutile_rs")
try:
    tilegym.ops.bmm(None, None)
except NotImplementedError as error:
    assert "bmm" in str(error) and "cutile_rs" in str(error), error
    print("refused")
"""
    assert run(code, TILEGYM_RS_VARIANT="native") == "refused"
    assert run(code, TILEGYM_RS_VARIANT="native", DISABLE_FALLBACK="1") == "refused"


def test_an_op_without_a_native_implementation_is_tilegyms_own_wrapper_redirected():
    code = """
import tilegym
from tilegym_rs_backend.registration import implementation
from tilegym_rs_backend.port.redirect import redirect
found = implementation("bmm")
assert found.__module__.startswith("tilegym."), found.__module__
assert implementation("softmax").__module__ == "tilegym_rs_backend.ops.softmax"
import os
os.environ["TILEGYM_RS_VARIANT"] = "ported"
assert implementation("softmax").__module__.startswith("tilegym.")
os.environ["TILEGYM_RS_VARIANT"] = "rust"
try:
    implementation("softmax")
except Exception as error:
    print(error)
"""
    assert run(code) == "TILEGYM_RS_VARIANT='rust': it is one of auto, native, ported, or unset"


def test_the_choice_by_environment_works():
    assert (
        run("import tilegym; print(tilegym.get_current_backend())", CUTILE_TUTORIALS_BACKEND="cutile_rs") == "cutile_rs"
    )


@pytest.mark.parametrize(
    "order", ["import tilegym; import tilegym_rs_backend", "import tilegym_rs_backend; import tilegym"]
)
def test_without_autoload_an_explicit_import_registers(order):
    code = f"{order}; tilegym.set_backend('cutile_rs'); print(tilegym.get_current_backend())"
    assert run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "cutile_rs"


def test_suites_imported_later_are_covered():
    code = """
import tilegym, tilegym_rs_backend
import tilegym.suites.liger
from tilegym.backend.dispatcher import _REGISTRY
print([op for op, impls in _REGISTRY.items() if "default" in impls and "cutile_rs" not in impls])
"""
    assert run(code) == "[]"
    assert run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "[]"


@pytest.mark.parametrize("autoload", ["1", "0"])
def test_the_mixture_of_experts_that_knows_backends_by_name_takes_ours_for_cutile(autoload):
    code = """
import tilegym, tilegym_rs_backend
from tilegym.ops import moe_interface
tilegym.set_backend("cutile_rs")
ours = moe_interface.get_current_backend(), tilegym.get_current_backend()
tilegym.set_backend("cutile")
print(*ours, moe_interface.get_current_backend())
"""
    assert run(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload) == "cutile cutile_rs cutile"


def test_a_broken_installation_does_not_break_import_torch(tmp_path):
    package = tmp_path / "tilegym_rs_backend"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('broken')\n")
    code = "import torch, tilegym; print('cutile_rs' in tilegym.get_available_backends())"
    assert run(code, cwd=tmp_path, PYTHONPATH=str(tmp_path)) == "False"


def test_torch_compile_works_beside_tilegym_and_through_an_op():
    code = """
import tilegym, torch
assert torch.compile(lambda t: t + 1, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
tilegym.set_backend("cutile_rs")
x = torch.randn(4, 33)
y = torch.compile(lambda t: tilegym.ops.softmax(t + 1) * 2, backend="eager")(x)
torch.testing.assert_close(y, torch.softmax(x + 1, -1) * 2)
print("right")
"""
    assert run(code).splitlines()[-1] == "right"


def test_importing_the_package_needs_neither_torch_nor_cffi():
    code = (
        "import sys, tilegym_rs_backend; print([m for m in ('torch', 'cffi', 'numpy', 'filelock') if m in sys.modules])"
    )
    assert run(code) == "[]"


def test_every_module_that_is_watched_for_is_joined() -> None:
    """The autoload names them itself: it must not import the package for them."""
    import tilegym_rs_autoload
    from tilegym_rs_backend import registration

    assert set(tilegym_rs_autoload.WATCHED) == set(registration._JOINS)
