#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles abi.c against the header that the library itself carries, links the library and runs the program.
# Usage: run.sh [LIBRARY [plain|valgrind|asan]]   (without it: the library that the backend would build and use)
# valgrind watches the library's every access; asan its allocations, and the program's accesses (the library itself is
# not instrumented). Both fail on a leak.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python="${PYTHON:-}"
[ -n "$python" ] || { python="$here/../../.venv/bin/python"; [ -x "$python" ] || python=python3; }
library="${1:-$("$python" -c 'from tilegym_rs_backend.build import ensure_library; print(ensure_library())')}"
library="$(cd "$(dirname "$library")" && pwd)/$(basename "$library")"
flags=() runner=()
case "${2:-plain}" in
plain) ;;
valgrind) runner=(valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite) ;;
asan) flags=(-g -fsanitize=address,undefined -fno-sanitize-recover=all) ;;
*) echo "$2: plain, valgrind or asan" >&2 && exit 2 ;;
esac
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
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -pedantic "${flags[@]}" -I "$work" -o "$work/abi" "$here/abi.c" "$library" \
    -Wl,-rpath,"$(dirname "$library")"
"${runner[@]}" "$work/abi"
