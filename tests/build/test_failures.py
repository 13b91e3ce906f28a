# SPDX-License-Identifier: MIT
"""Recorded ends of failed builds, and what the user is told (bug report A7 and others)."""

from __future__ import annotations

import pytest

from tilegym_rs_backend.build.failures import diagnose

BUILD_SCRIPT = """\
   Compiling cuda-bindings v0.5.0
error: failed to run custom build command for `cuda-bindings v0.5.0`

Caused by:
  process didn't exit successfully: `/t/release/build/cuda-bindings-1/build-script-build` (exit status: 1)
  --- stdout
  cargo:rerun-if-changed=wrapper.h
  --- stderr
{}
warning: build failed, waiting for other jobs to finish...
"""

RECORDED = {
    "stddef": (
        BUILD_SCRIPT.format(
            "  /c/include/cuda.h:56:10: fatal error: 'stddef.h' file not found\n"
            "  Error: ClangDiagnostic(\"/c/include/cuda.h:56:10: fatal error: 'stddef.h' file not found\\n\")"
        ),
        "bindgen",
        "'stddef.h' file not found",
        ("libclang-dev", "BINDGEN_EXTRA_CLANG_ARGS"),
    ),
    "libclang": (
        BUILD_SCRIPT.format(
            "  thread 'main' panicked at bindgen-0.71.1/lib.rs:622:27:\n"
            "  Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang.so']\""
        ),
        "bindgen",
        "Unable to find libclang",
        ("tilegym-rs setup", "LIBCLANG_PATH"),
    ),
    "linker": (
        "   Compiling libc v0.2.1\nerror: linker `cc` not found\n"
        "  |\n  = note: No such file or directory (os error 2)\n"
        "\nerror: could not compile `libc` (build script) due to 1 previous error\n",
        "link",
        "error: linker `cc` not found",
        ("apt-get install gcc",),
    ),
    "offline": (
        "error: failed to download `syn v2.0.1`\n\nCaused by:\n"
        "  attempting to make an HTTP request, but --offline was specified\n",
        "cargo",
        "failed to download `syn v2.0.1`",
        ("tilegym-rs bundle",),
    ),
    "dns": (
        "warning: spurious network error (3 tries remaining): [6] Could not resolve hostname\n"
        "error: failed to get `cutile` as a dependency of package `cutile_kernels`\n",
        "cargo",
        "failed to get `cutile`",
        ("proxy",),
    ),
    "disk": (
        "error: failed to write `/t/release/deps/x.rmeta`: No space left on device (os error 28)\n\n"
        "error: could not compile `syn` (lib) due to 1 previous error\n",
        "cargo",
        "No space left on device",
        ("TILEGYM_RS_CACHE_DIR", "cache prune"),
    ),
    "old cuda.h": (
        BUILD_SCRIPT.format(
            "  CUDA_TOOLKIT_PATH=/usr/local/cuda is invalid: CUDA toolkit 12.8 is too old. The CUDA host-side crates "
            "require CUDA 13.0+ (the Tile compiler needs 13.2+)"
        ),
        "bindgen",
        "CUDA toolkit 12.8 is too old",
        ("tilegym-rs doctor",),
    ),
    "lock file": (
        "error: the lock file /c/Cargo.lock needs to be updated but --locked was passed to prevent this\n",
        "cargo",
        "needs to be updated but --locked",
        ("cargo update -w",),
    ),
    "memory": (
        "error: could not compile `cutile-compiler` (lib)\n\nCaused by:\n"
        "  process didn't exit successfully: `rustc --crate-name cutile_compiler` (signal: 9, SIGKILL: kill)\n",
        "cargo",
        "signal: 9, SIGKILL",
        ("CARGO_BUILD_JOBS=1",),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_failures(name: str) -> None:
    log, stage, error, hints = RECORDED[name]
    diagnosis = diagnose(log)
    assert diagnosis.stage == stage
    assert error in diagnosis.error
    for hint in hints:
        assert any(hint in each for each in diagnosis.hints), hint
    assert len(diagnosis.error.splitlines()) <= 40


def test_the_first_of_several_errors_with_its_lines() -> None:
    log = (
        "warning: unused variable: `x`\n --> src/lib.rs:1:1\n\n"
        "error[E0308]: mismatched types\n --> src/ops/a.rs:3:5\n  |\n3 |     1u8\n  |     ^^^ expected `u16`\n\n"
        "error[E0425]: cannot find value `q`\n --> src/ops/b.rs:9:9\n\nerror: aborting due to 2 previous errors\n"
    )
    assert diagnose(log).error == (
        "error[E0308]: mismatched types\n --> src/ops/a.rs:3:5\n  |\n3 |     1u8\n  |     ^^^ expected `u16`"
    )


def test_build_script_errors_of_the_crate_itself() -> None:
    log = "error: cutile_kernels@0.1.0: src/ops/x.rs:7 f: outputs are &Tensor or *mut E, never &mut Tensor\n"
    assert diagnose(log).error == log.strip()


def test_without_any_marked_error_the_end_is_shown() -> None:
    assert diagnose("\n".join(map(str, range(100)))).error.splitlines()[-1] == "99"
