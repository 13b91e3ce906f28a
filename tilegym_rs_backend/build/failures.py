# SPDX-License-Identifier: MIT
"""Read a failed build's log: the first real error, its stage, and ways out known from earlier failures."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LINES = 30

_CLANG_FIX = (
    "install the compiler's headers: `apt-get install libclang-dev clang`, or run `tilegym-rs setup`",
    'or give them to bindgen: BINDGEN_EXTRA_CLANG_ARGS="-I$(gcc -print-file-name=include)"',
)


@dataclass(frozen=True)
class Known:
    """A failure seen before: its text, the stage it means, what helps."""

    pattern: re.Pattern[str]
    stage: str
    hints: tuple[str, ...]


def _known(pattern: str, stage: str, *hints: str) -> Known:
    return Known(re.compile(pattern, re.IGNORECASE), stage, hints)


KNOWN = (
    _known(
        r"no space left on device|os error 28|disk quota exceeded",
        "cargo",
        "free some disk space (a cold build takes about 1 GB), or set TILEGYM_RS_CACHE_DIR to a larger disk; "
        "`tilegym-rs cache prune` drops old libraries",
    ),
    _known(r"'(stddef|stdarg|stdbool|limits|float)\.h' file not found", "bindgen", *_CLANG_FIX),
    _known(
        r"unable to find libclang|libclang.*(could not be opened|couldn't be found|shared library is not loaded)",
        "bindgen",
        "run `tilegym-rs setup`, or `apt-get install libclang-dev`; LIBCLANG_PATH names the folder of libclang.so",
    ),
    _known(
        r"linker `?[\w./-]+`? not found|linking with `?cc`? failed: .*No such file",
        "link",
        "install a C compiler: `apt-get install gcc libc6-dev`, or `dnf install gcc`",
    ),
    _known(
        r"cannot find -l\w+|cannot find (Scrt1|crti)\.o",
        "link",
        "install the C library's development files: `apt-get install libc6-dev`",
    ),
    _known(
        r"CUDA_TOOLKIT_PATH=.* is invalid|CUDA toolkit [\d.]+ is too old|no CUDA 13\.\d\+ toolkit was found"
        r"|does not contain cuda\.h|'(cuda|curand)\.h' file not found",
        "bindgen",
        "point CUDA_TOOLKIT_PATH or TILEGYM_RS_TOOLKIT at a CUDA 13.4 toolkit, or unset them for `tilegym-rs setup`; "
        "`tilegym-rs doctor` lists what was looked at",
    ),
    _known(
        r"could not resolve host|failed to download|failed to fetch|network failure|Unable to update registry"
        r"|failed to get .* as a dependency|spurious network error|attempting to make an HTTP request, but --offline",
        "cargo",
        "the crates are not on this machine and cannot be fetched: build where there is a network and take the library "
        "along (`tilegym-rs bundle`), or give cargo a proxy or a vendored source",
    ),
    _known(
        r"the lock file .* needs to be updated but --locked was passed",
        "cargo",
        "Cargo.toml and Cargo.lock disagree: run `cargo update -w` in the crate's folder and commit Cargo.lock",
    ),
    _known(
        r"requires rustc [\d.]+|cannot be built because it requires rustc|feature `edition20\d\d` is required",
        "cargo",
        "rustc is too old: `rustup update stable`",
    ),
    _known(
        r"signal: 9, SIGKILL|memory allocation of \d+ bytes failed|fork: Resource temporarily unavailable",
        "cargo",
        "the machine ran out of memory or processes: set CARGO_BUILD_JOBS=1",
    ),
)

_ERROR = re.compile(r"^\s*(error(\[E\d+\])?:|thread '.*' panicked at|.*fatal error:|Error:)", re.IGNORECASE)
# These only say that something above went wrong.
_ECHO = re.compile(r"error: (could not compile|aborting due to|build failed|process didn't exit successfully)")
_BLOCK_END = re.compile(r"^\s*(error|warning)(\[E\d+\])?:")


@dataclass(frozen=True)
class Diagnosis:
    """What a log says: the stage, the first real error with its context, the hints that match."""

    stage: str
    error: str
    hints: tuple[str, ...]


def diagnose(log: str) -> Diagnosis:
    """Read the log of a failed cargo run."""
    stage: str = "cargo"
    hints: tuple[str, ...] = ()
    for known in KNOWN:
        if known.pattern.search(log):
            stage, hints = known.stage, known.hints
            break
    return Diagnosis(stage, first_error(log), hints)


def first_error(log: str) -> str:
    """Return the first error that says something, with its context; the log's end when none is marked."""
    lines = log.splitlines()
    starts = [i for i, line in enumerate(lines) if _ERROR.search(line)]
    real = [i for i in starts if not _ECHO.search(lines[i])]
    if not real and not starts:
        return "\n".join(lines[-MAX_LINES:])
    if not real:  # a build script's own words follow cargo's "error: failed to run custom build command"
        return "\n".join(lines[starts[0] : starts[0] + MAX_LINES])
    first = real[0]
    block = [lines[first]]
    custom = "custom build command" in lines[first]
    for line in lines[first + 1 : first + MAX_LINES]:
        if not custom and (_BLOCK_END.search(line) or (not line.strip() and len(block) > 1)):
            break
        block.append(line)
    return "\n".join(block)
