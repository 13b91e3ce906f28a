# SPDX-License-Identifier: MIT
"""Damaged bytecode: the reader answers with a module or with ``TileIrError``, quickly, whatever the bytes are.

What it answers with can be printed and compared.

3,000 seeded cases run here, ``make fuzz`` runs 100,000 (``TILEGYM_RS_FUZZ_CASES``).
"""

from __future__ import annotations

import os
import random
import time

import ir_kernels
import pytest
from ir_builder import Kernel
from ir_builder import tile
from ir_writer import varint
from ir_writer import write_module

from tilegym_rs_backend.tile_ir.printer import show
from tilegym_rs_backend.tile_ir.reader import TileIrError
from tilegym_rs_backend.tile_ir.reader import read_module
from tilegym_rs_backend.tile_ir.verdict import compare

CASES = int(os.environ.get("TILEGYM_RS_FUZZ_CASES", "3000"))
CHUNKS = 10
SLOWEST_S = 5.0
SEEDS = [
    write_module(build().module(version))
    for build in (ir_kernels.softmax, ir_kernels.scaled_copy, ir_kernels.product)
    for version in ((13, 1), (13, 2), (13, 3), (13, 4))
]
GOOD = ir_kernels.scaled_copy().finish()
# Numbers at which a length or count is likely to be believed.
EVIL = [varint(n) for n in (0, 1, 127, 128, 255, 1 << 14, 1 << 28, (1 << 31) - 1, 1 << 32, 1 << 63, (1 << 64) - 1)]


def mutate(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(8, max(9, len(out)))
        what = rng.randrange(9)
        if what == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif what == 1:
            out[at : at + 1] = bytes([(out[at] if at < len(out) else 0) ^ 1 << rng.randrange(8)])
        elif what == 2:
            del out[at : at + rng.randrange(1, 9)]
        elif what == 3:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif what == 4:
            out[at : at + 1] = rng.choice(EVIL)
        elif what == 5:
            del out[at:]
        elif what == 6:
            source = rng.randrange(len(out))
            out[at : at + 8] = out[source : source + 8]
        elif what == 7:
            out[at : at + 8] = rng.choice((0, 1, 1 << 31, 1 << 62, (1 << 64) - 1)).to_bytes(8, "little")
        else:
            other = rng.choice(SEEDS)
            cut = rng.randrange(8, len(other))
            out[at:] = other[cut:]
    return bytes(out)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_bytecode(chunk):
    read = 0
    for number in range(chunk, CASES, CHUNKS):
        rng = random.Random(number)
        data = mutate(rng.choice(SEEDS), rng)
        start = time.perf_counter()
        try:
            module = read_module(data)
            show(module)
            for function in module.functions:
                compare(function, GOOD, "sm_90")
                compare(function, function, "sm_90")
            read += 1
        except TileIrError as error:
            if not 0 <= error.offset <= len(data):
                pytest.fail(f"case {number}: offset {error.offset} of {len(data)} bytes")
        except Exception as error:
            pytest.fail(f"case {number}: {type(error).__name__}: {error}")
        assert time.perf_counter() - start < SLOWEST_S, number
    # Were nothing readable, the mutations would only try the header.
    assert CASES < 1000 or read > CASES // CHUNKS // 50


def test_bytes_that_are_no_bytecode():
    for number in range(200):
        rng = random.Random(number)
        data = b"\x7fTileIR\0" + bytes([13, rng.randrange(1, 5), 0, 0]) + rng.randbytes(rng.randrange(400))
        with pytest.raises(TileIrError):
            read_module(data)


def test_a_constant_that_many_operations_name_is_taken_once():
    b = Kernel()
    for _ in range(500):
        b("constant", to=tile("i8", 1 << 16), value=bytes(1 << 16))
    data = write_module(b.module())
    ops = read_module(data).entry().body.ops
    assert ops[0].attributes["value"] is ops[499].attributes["value"]
