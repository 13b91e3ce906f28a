# SPDX-License-Identifier: MIT
"""Calls of the C functions with random arguments, right and wrong ones, and what each must answer.

`python ffi_fuzz.py LIBRARY SEED CALLS` prints how often each code came. A process of its own, because a fault would end
it. Only what the header asks of a caller is kept: a pointer is null, or leads to as much as its count says.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tilegym_rs_backend.library import Library

DTYPES = ("f32", "f16", "bf16", "i32", "i64", "f8e5m2", "f4e2m1fnx2", "f8e4m3fn", "u8", "i8", "i16", "f64", "bool")
DTYPES += ("f8e8m0fnu",)
OK, NOT_LOADED, UNSUPPORTED, DEVICE, NULL, INVALID, PANIC = 0, 1, -2, -4, -5, -6, -7
I32 = (1 << 31) - 1
NUMBERS = (0, 1, 2, 15, 16, 17, 1000, 4096, I32, I32 + 1, 1 << 32, (1 << 63) - 1, -1, -16, -(1 << 31), -(1 << 63))
SMALL = (0, 1, 2, 7, 16, 64, 1024, -1, -(1 << 31), I32)
ADDRESSES = (0, 1, 8, 15, 16, 256, 4096, 4100, (1 << 64) - 1, (1 << 64) - 16, 1 << 63)


class Fuzz:
    """Random calls of one library."""

    def __init__(self, library: Library, seed: int) -> None:
        self.library = library
        self.ffi, self.lib = library.ffi, library.lib
        self.random = random.Random(seed)
        self.kernels = library.describe["kernels"]

    def desc(self, param: dict[str, Any], elem: int, fixed: bool) -> tuple[Any, set[int]]:
        """A descriptor, and the codes that what is wrong with it by itself may give; none when nothing is."""
        rank = param.get("rank", 0)
        wrong: set[int] = set()
        found = self.ffi.new("TensorDesc*")
        found.ptr = self.random.choice(ADDRESSES)
        found.ndim = rank
        found.dtype = elem
        for axis in range(5):
            found.shape[axis] = self.random.choice((0, 1, 16, 1000, I32))
            found.strides[axis] = self.random.choice((0, 1, 16, 1000, I32))
        fault = self.random.randrange(12)
        if fault == 0:
            return self.ffi.NULL, {NULL}
        if fault == 1:
            found.dtype = self.random.choice((-1, 14, 15, 255, 256, -(1 << 31), I32))
            wrong.add(UNSUPPORTED)
        if fault == 2:
            found.ndim = self.random.choice([n for n in (*SMALL, 3, 4, 5, 6) if n != rank])
            wrong.update({INVALID} if rank else ())
        if fault == 3 and rank:
            numbers = self.random.choice((found.shape, found.strides))
            axis = self.random.randrange(rank)
            numbers[axis] = self.random.choice(NUMBERS)
            wrong.update(set() if 0 <= numbers[axis] <= I32 else {INVALID})
        if fault == 4:
            found.dtype = self.random.randrange(14)
            wrong.update({UNSUPPORTED, INVALID} if fixed and found.dtype != elem else ())
        return found, wrong

    def arguments(self, kernel: dict[str, Any]) -> tuple[list[Any], list[int], list[int], set[int]]:
        """Descriptors, scalars and constants of a call, and the codes it may then fail with."""
        generic = {each["name"]: self.random.randrange(14) for each in kernel["generics"] if each["kind"] == "type"}
        wrong: set[int] = set()
        descs, scalars, constants = [], [], []
        types: dict[str, set[int]] = {}
        for param in kernel["params"]:
            if param["kind"] == "scalar":
                scalars.append(self.random.getrandbits(64))
                continue
            elem = param["elem"]
            fixed = elem not in generic
            desc, faults = self.desc(param, DTYPES.index(elem) if fixed else generic[elem], fixed)
            descs.append(desc)
            wrong |= faults
            if not fixed and desc != self.ffi.NULL:
                types.setdefault(elem, set()).add(desc.dtype)
        if any(len(found) > 1 for found in types.values()):
            wrong |= {UNSUPPORTED, INVALID}
        for each in kernel["generics"]:
            if each["kind"] == "type" and not each.get("argument"):
                continue
            valid = {"bool": (0, 1), "type": range(14)}.get(each["kind"], SMALL)
            value = self.random.choice(tuple(valid))
            if self.random.randrange(12) == 0:
                value = self.random.choice(SMALL)
                wrong |= set() if value in valid else {UNSUPPORTED, INVALID}
            constants.append(value)
        return descs, scalars, constants, wrong

    def place(self) -> tuple[list[int], list[int], int, set[int]]:
        """Grid, hints and device, and the codes."""
        grid = [self.random.choice((0, 1, 7, 65535)) for _ in range(3)]
        device, wrong = 0, set()
        if self.random.randrange(8) == 0:
            axis = self.random.randrange(3)
            grid[axis] = self.random.choice((-1, 65536, I32, -(1 << 31)))
            wrong |= set() if axis == 0 and grid[0] >= 0 else {INVALID}
        if self.random.randrange(8) == 0:
            device = self.random.choice((-1, 64, 1 << 20, I32, -(1 << 31)))
            wrong |= {DEVICE, INVALID}
        return grid, [self.random.choice(SMALL) for _ in range(3)], device, wrong

    def counts(self, *lists: list[Any]) -> tuple[list[int], set[int]]:
        """The lists' lengths, now and then a wrong one that is not longer than the list."""
        lengths = [len(each) for each in lists]
        if self.random.randrange(10):
            return lengths, set()
        which = self.random.randrange(len(lists))
        right, lengths[which] = lengths[which], self.random.choice((0, lengths[which] - 1, -1, -(1 << 31)))
        return lengths, set() if lengths[which] == right else {INVALID}

    def one(self) -> int:
        """Make one call and return its code; AssertionError unless it is one that fits."""
        kernel = self.random.choice(self.kernels)
        descs, scalars, constants, wrong = self.arguments(kernel)
        grid, hints, device, misplaced = self.place()
        way = self.random.choice(("typed", "spec", "plan"))
        if way == "typed":
            wrong |= misplaced
            flat, rest, values = [], iter(descs), iter(scalars)
            for param in kernel["params"]:
                if param["kind"] == "scalar":
                    kind, bits = param["type"], next(values)
                    flat.append(bits & 1 if kind == "bool" else bits & I32 if kind in ("i32", "u32") else bits >> 1)
                else:
                    flat.append(next(rest))
            code = self.library.export(kernel["name"])(
                *flat, *constants, *grid, *hints, device, self.random.getrandbits(64)
            )
        else:
            ffi, name = self.ffi, kernel["name"]
            if self.random.randrange(20) == 0:
                name = self.random.choice(("", name + "_", name[:-1], "x" * 5000, "\udcff"))
                wrong |= {INVALID}
            text = ffi.new("char[]", name.encode(errors="surrogateescape"))
            block = ffi.new("TensorDesc*[]", descs)
            fixed, loose = ffi.new("int32_t[]", constants or [0]), ffi.new("uint64_t[]", scalars or [0])
            if way == "spec":
                (n_descs, n_constants), miscounted = self.counts(descs, constants)
                code = self.lib.cutile_spec(text, block, n_descs, fixed, n_constants, *hints)
                code = NOT_LOADED if code >= 0 else code
            else:
                (n_descs, n_scalars, n_constants), miscounted = self.counts(descs, scalars, constants)
                plan = ffi.new("void**")
                code = self.lib.cutile_plan(
                    text, block, n_descs, loose, n_scalars, fixed, n_constants, *grid, *hints, device, plan
                )
                wrong |= misplaced
                if code == OK:
                    self.run(plan[0], len(descs), len(scalars))
                    self.lib.cutile_plan_free(plan[0])
                else:
                    assert plan[0] == ffi.NULL
            wrong |= miscounted
        said = self.library.last_error() if code < 0 else ""
        what = f"{way} {kernel['name']}: {code} {said!r}, expected one of {wrong or {OK, NOT_LOADED}}"
        assert code in wrong if wrong else code in (OK, NOT_LOADED), what
        assert code >= 0 or said, what
        return int(code)

    def run(self, plan: Any, tensors: int, scalars: int) -> None:
        """Run a plan of an empty grid, with right and wrong counts."""
        pointers = self.ffi.new("uint64_t[]", [self.random.choice(ADDRESSES) for _ in range(tensors)])
        values = self.ffi.new("uint64_t[]", [1] * max(scalars, 1))
        for n_pointers, n_scalars in ((tensors, scalars), (tensors - 1, scalars), (tensors, scalars - 1), (-1, 0)):
            code = self.lib.cutile_run_plan_array(plan, 0, pointers, n_pointers, values, n_scalars)
            right = (n_pointers, n_scalars) == (tensors, scalars)
            assert code == (OK if right else INVALID), (code, n_pointers, n_scalars)

    def odd(self) -> None:
        """The functions without a kernel: null pointers, tokens and sizes that are none."""
        ffi, lib = self.ffi, self.lib
        buffer, out, length = ffi.new("char[16]"), ffi.new("uint8_t**"), ffi.new("int64_t*")
        arch = ffi.new("char[]", b"sm_90")
        for token in (-1, -(1 << 63), 1 << 62, (1 << 63) - 1):
            assert lib.cutile_spec_text(token, buffer, 16) == INVALID
            assert lib.cutile_emit(token, arch, out, length) == INVALID
            assert lib.cutile_load(token, 0, ffi.NULL, 0) == INVALID
            assert lib.cutile_loaded(token, 0) == INVALID
        assert lib.cutile_run_plan(ffi.NULL, 0, 0, 0, 0, 0) == NULL
        assert lib.cutile_run_plan_array(ffi.NULL, 0, ffi.NULL, 0, ffi.NULL, 0) == NULL
        assert lib.cutile_spec(ffi.NULL, ffi.NULL, 0, ffi.NULL, 0, 0, 0, 0) == NULL
        lib.cutile_plan_free(ffi.NULL)
        lib.cutile_free(ffi.NULL, -1)
        for capacity in (-(1 << 63), -1, 0, 1, 15):
            assert lib.cutile_last_error(buffer, capacity) > 15
            assert buffer[15] == b"\0"
        token = self.token()
        for name in (b"", b"sm_", b"sm_0", b"sm_999999999999", b"90", b"\xff\xfe", b"sm_90" * 1000):
            assert lib.cutile_emit(token, ffi.new("char[]", name), out, length) in (OK, -3, INVALID)
        for device in (-1, 64, I32):
            assert lib.cutile_loaded(token, device) in (DEVICE, INVALID)
        image = ffi.new("uint8_t[]", b"\x7fELF\x02\x01" + bytes(122))
        for size in (-1, 0, 1, 63, 64, 128):
            assert lib.cutile_load(token, 0, image, size) == INVALID

    def token(self) -> int:
        """A specialization that exists."""
        x = self.ffi.new("TensorDesc*")
        x.ptr, x.ndim, x.dtype = 4096, 2, 1
        x.shape[0], x.shape[1], x.strides[0], x.strides[1] = 64, 1000, 1000, 1
        name, block = self.ffi.new("char[]", b"softmax_rows"), self.ffi.new("TensorDesc*[]", [x, x])
        return int(self.lib.cutile_spec(name, block, 2, self.ffi.new("int32_t[]", [4, 1024, 1]), 3, 0, 0, 0))


def main() -> None:
    """Make the calls."""
    fuzz = Fuzz(Library(Path(sys.argv[1])), int(sys.argv[2]))
    fuzz.odd()
    found = Counter(fuzz.one() for _ in range(int(sys.argv[3])))
    fuzz.odd()
    print(json.dumps(dict(sorted(found.items()))))


if __name__ == "__main__":
    main()
