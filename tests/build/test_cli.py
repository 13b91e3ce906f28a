# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilegym_rs_backend import cli
from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.toolchain import doctor
from tilegym_rs_backend.toolchain.doctor import Finding

from .conftest import World


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"build", "cache", "doctor", "explain-rebuild", "setup", "toolchain"} <= set(cli.verbs())
    for verb in cli.verbs():
        with pytest.raises(SystemExit) as caught:
            cli.main([verb, "--help"])
        assert caught.value.code == 0
        assert f"usage: tilegym-rs {verb}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        cli.main(["no-such-verb"])
    assert caught.value.code == 2


def test_build_explain_cache(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    crate = ["--crate", str(world.crate)]
    assert cli.main(["explain-rebuild", *crate]) == 1
    assert "no library of this crate was built here yet" in capsys.readouterr().out
    assert cli.main(["build", "--json", *crate]) == 0
    built = json.loads(capsys.readouterr().out)
    assert built["build"]["source_key"]
    assert cli.main(["explain-rebuild", *crate]) == 0
    (world.crate / "src" / "ops" / "softmax.rs").write_text("// two\n", encoding="ascii")
    capsys.readouterr()
    assert cli.main(["explain-rebuild", "--json", *crate]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["differences"][0].startswith("changed: src/ops/softmax.rs")
    assert cli.main(["build", *crate]) == 0
    assert cli.main(["cache", "prune", "--keep", "1"]) == 0
    assert "kept 1 libraries" in capsys.readouterr().out
    assert cli.main(["cache", "info", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert len(info["libraries"]) == 1
    assert cli.main(["cache", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(world.cache)
    assert cli.main(["cache", "clear"]) == 0
    assert not (world.cache / "build").exists()


def test_the_prefix_is_removed_and_nothing_else(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    library = ensure_library(world.crate)
    for name in ("prefix/cuda-1/nvidia", "downloads"):
        (world.cache / name).mkdir(parents=True)
    assert cli.main(["toolchain", "remove"]) == 0
    assert capsys.readouterr().out == f"removed {world.cache}/prefix\nremoved {world.cache}/downloads\n"
    assert not (world.cache / "prefix").exists()
    assert library.exists()
    assert cli.main(["toolchain", "remove"]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_mapped_is_shown_with_its_processes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    status, path, err = world.run("print(ensure_library(crate))")
    assert status == 0, err
    code = f"import ctypes; ctypes.CDLL({path!r}); print('here', flush=True); import time; time.sleep(30)"
    process = world.start(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    assert cli.main(["cache", "info"]) == 0
    assert f"mapped by {process.pid}: {path}\n" in capsys.readouterr().out
    process.kill()
    process.communicate()


def test_errors_go_to_standard_error_with_status_2(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", "/nonexistent")
    assert cli.main(["toolchain", "path"]) == 2
    assert "tilegym-rs toolchain: TILEGYM_RS_TOOLKIT is set but cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statuses", "code"), [(("ok", "note"), 0), (("ok", "no-gpu", "note"), 1), (("no-gpu", "fail"), 2)]
)
def test_doctor_verdicts(
    statuses: tuple[doctor.Status, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = [Finding("layer", status, "text", "a fix") for status in statuses]
    monkeypatch.setattr(doctor, "examine", lambda: findings)
    assert cli.main(["doctor"]) == code
    out = capsys.readouterr().out
    assert "fix: a fix" in out
    assert out.splitlines()[-1].startswith("the backend can")
    assert cli.main(["doctor", "--json"]) == code
    assert json.loads(capsys.readouterr().out)["exit"] == code


def test_doctor_names_what_is_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug reports A7, X4: only the layer that fails fails."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("LIBCLANG_PATH", "/nonexistent")
    found = {(each.layer, each.status): each for each in doctor.examine()}
    assert "rustup" in found["cargo", "fail"].fix
    assert "gcc" in found["cc", "fail"].fix
    assert "libclang-dev" in found["libclang", "fail"].fix
    assert ("toolkit", "ok") in found
    assert ("cache", "ok") in found
    assert doctor.verdict(list(found.values())) == doctor.CANNOT


def test_doctor_on_a_bundles_host(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library and warm cubins need no toolkit: its absence is a note there, and a failure elsewhere."""
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(tmp_path / "nothing"))
    assert ("toolkit", "fail") in {(each.layer, each.status) for each in doctor.examine()}
    library = tmp_path / "libcutile_kernels.so"
    library.write_bytes(b"")
    monkeypatch.setenv("TILEGYM_RS_LIBRARY", str(library))
    found = [each for each in doctor.examine() if each.layer == "toolkit"]
    assert {each.status for each in found} == {"note"}
    assert "cubin store" in found[-1].text
