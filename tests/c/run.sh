#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles abi.c against the header that the library itself carries, links the library and runs the program.
# Usage: run.sh [LIBRARY]   (without it: the library that the backend would build and use)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="${PYTHON:-}"
[ -n "$python" ] || { python="$here/../../.venv/bin/python"; [ -x "$python" ] || python=python3; }
library="${1:-$("$python" -c 'from tilegym_rs_backend.build import ensure_library; print(ensure_library())')}"
library="$(cd "$(dirname "$library")" && pwd)/$(basename "$library")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" - "$library" "$work/cutile_kernels.h" <<'PY'
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.cutile_header.restype = ctypes.c_char_p
with open(sys.argv[2], "wb") as header:
    header.write(library.cutile_header())
PY
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -pedantic -I "$work" -o "$work/abi" "$here/abi.c" "$library" \
    -Wl,-rpath,"$(dirname "$library")"
"$work/abi"
