# SPDX-License-Identifier: MIT
"""What the command says, word for word: every verb's help, every --json, and the exit codes.

TILEGYM_RS_UPDATE_GOLDEN=1 writes the files in golden/ anew, after a change that is meant, and the tests fail once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tilegym_rs_backend import cli
from tilegym_rs_backend.toolchain import candidates
from tilegym_rs_backend.toolchain import doctor
from tilegym_rs_backend.toolchain import install
from tilegym_rs_backend.toolchain import packages

from .conftest import World
from .conftest import executable


def said(*words: str) -> tuple[int, str]:
    """The exit code and standard output of the command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = cli.main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue()


def test_every_help(monkeypatch: pytest.MonkeyPatch, golden) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    texts = []
    for words in [["--help"], *([verb, "--help"] for verb in cli.verbs())]:
        code, text = said(*words)
        assert code == 0
        texts.append(f"$ tilegym-rs {' '.join(words)}\n{text}")
    golden("help.txt", "\n".join(texts))


@pytest.fixture
def settled(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world, without what differs from machine to machine."""
    executable(world.fake / "bin" / "nvidia-smi", "#!/bin/sh\nexit 9\n")

    def requirements() -> Any:
        yield packages.Requirement("here", ">=", "1.0", "")
        yield packages.Requirement("old", ">=", "2.10", "")
        yield packages.Requirement("tilegym", "==", "1.5.1", "ported")

    versions = {"here": "1.2.0+cu128", "old": "2.9.1", "tilegym": "1.5.0"}
    monkeypatch.setattr(packages, "requirements", requirements)
    monkeypatch.setattr(packages, "installed", versions.get)
    monkeypatch.setattr(doctor, "_platform", lambda: iter([doctor.Finding("platform", "ok", "Linux")]))
    monkeypatch.setattr(doctor, "LAYERS", (doctor._platform, *doctor.LAYERS[1:]))
    monkeypatch.setattr(doctor, "ctypes", SimpleNamespace(CDLL=lambda name: (_ for _ in ()).throw(OSError(name))))
    nowhere = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(doctor, "importlib", nowhere)
    monkeypatch.setattr(install, "installed", lambda name: False)
    monkeypatch.setattr(candidates, "LOCAL", world.root / "local")
    monkeypatch.setattr("tilegym_rs_backend.commands.cache.mapped_libraries", lambda: {})
    for name in ("CUDA_TOOLKIT_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "BINDGEN_EXTRA_CLANG_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for name in list(os.environ):
        if name.startswith("CARGO_"):
            monkeypatch.delenv(name)
    return world


def plain(world: World, text: str) -> str:
    """The text without what no two runs share: places, digests, times, sizes, numbers of processes and processors."""
    places = ((str(world.fake), "FAKE"), (str(world.cache), "CACHE"), (os.environ["LIBCLANG_PATH"], "CLANG"))
    for place, name in (*places, (str(world.root), "ROOT")):
        text = text.replace(place, name)
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text)
    text = re.sub(r"\b[0-9a-f]{16}\b", "KEY", text)
    text = re.sub(r"target/[0-9a-f]{8}\b", "target/ENVIRONMENT", text)
    text = re.sub(r"\d+\.\d+ GB free, on \w+", "N GB free, on FS", text)
    text = re.sub(r"owner \d+", "owner ME", text)
    text = re.sub(r"-I/[^\"]*/include", "-ICOMPILER/include", text)
    text = re.sub(r'("(?:created|seconds|size|bytes|CARGO_BUILD_JOBS)": )"?[\d.]+"?', r"\1N", text)
    text = re.sub(r'("host": )"[^"]*"', r'\1"HOST"', text)
    return re.sub(r'("package": )"[^"]*"', r'\1"VERSION"', text)


def test_every_json(settled: World, monkeypatch: pytest.MonkeyPatch, golden) -> None:
    crate = ["--crate", str(settled.crate)]
    steps = [
        ["doctor", "--json"],
        ["explain-rebuild", *crate, "--json"],
        ["build", *crate, "--json"],
        ["explain-rebuild", *crate, "--json"],
        ["cache", "info", "--json"],
        ["cache", "prune", "--json"],
        ["toolchain", "path", "--json"],
        ["toolchain", "env", "--json"],
    ]
    texts = []
    for words in steps:
        code, text = said(*words)
        value = json.loads(text)
        if words[:2] == ["toolchain", "env"]:
            value["unset"] = [name for name in value["unset"] if name in ("CUDA_HOME", "CARGO_TARGET_DIR")]
        text = json.dumps(value, indent=1, sort_keys=True)
        texts.append(f"$ tilegym-rs {' '.join(words)}\n{text}\n-> {code}\n")
    golden("json.txt", plain(settled, "\n".join(texts)))


def test_doctor_in_words(settled: World, golden) -> None:
    code, text = said("doctor")
    golden("doctor.txt", f"{plain(settled, text)}-> {code}\n")


def run(world: World, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tilegym_rs_backend.cli", *words],
        env=world.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_exit_codes(world: World) -> None:
    crate = ["--crate", str(world.crate)]
    assert run(world, "--version")[0] == 0
    assert run(world)[0] == 2
    assert run(world, "cache", "eat")[0] == 2
    assert run(world, "explain-rebuild", *crate)[0] == 1
    assert run(world, "build", *crate)[0] == 0
    assert run(world, "explain-rebuild", *crate)[0] == 0
    (world.fake / "fail").write_text("error[E0425]: cannot find value `y`\n", encoding="ascii")
    code, text = run(world, "build", "--force", *crate)
    assert code == 2
    assert "tilegym-rs build: [cargo] the build failed:\nerror[E0425]: cannot find value `y`\n  command: " in text
    code, text = run(world, "build", "--crate", str(world.root / "nowhere"))
    assert (code, "nowhere/Cargo.toml is missing" in text) == (2, True)
    code, text = run(world, "build", "--into", str(world.fake / "runs" / "x"), *crate)
    assert (code, "Traceback" in text) == (2, False)
    code, text = run(world, "--debug", "build", "--force", *crate)
    assert (code, "Traceback" in text) == (1, True)


def test_ctrl_c_and_a_closed_pipe(world: World) -> None:
    (world.fake / "sleep").write_text("60", encoding="ascii")
    words = [sys.executable, "-m", "tilegym_rs_backend.cli"]
    process = subprocess.Popen(
        [*words, "build", "--crate", str(world.crate)], env=world.env, stderr=subprocess.PIPE, text=True
    )
    world.wait_for("children")
    process.send_signal(2)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("tilegym-rs build: interrupted\n")
    line = f"{' '.join(words)} cache info --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=world.env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141), "0 when all was written before the reader left"
    assert "Traceback" not in done.stderr
