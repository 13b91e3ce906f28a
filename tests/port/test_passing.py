# SPDX-License-Identifier: MIT
"""The words of a launch, flattened as cuTile Python's launcher does it; test_twin.py has the launcher itself."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

from tilegym_rs_backend.port.capture import described  # noqa: E402
from tilegym_rs_backend.port.passing import words_passed  # noqa: E402
from tilegym_rs_backend.port.signature import signature  # noqa: E402


@ct.kernel
def kernel(x, xs, n: int, eps: float, flag: bool, PAIR: ct.Constant[tuple], BLOCK: ct.Constant[int]):
    pass


def passed(*args):
    return words_passed(signature(described(kernel, (1,), args, "sm_90")).parameters)


def test_constants_are_left_out_and_tensors_and_lists_are_taken_apart():
    words = passed(torch.zeros(1, 8), [torch.zeros(4)], 3, 0.5, True, (1, (2, 3)), 64)
    parts = [(word.argument, word.part, word.axis, word.type, word.size) for word in words]
    assert parts == [
        (0, "address", 0, "", 8),
        (0, "extent", 0, "i32", 4),
        (0, "extent", 1, "i32", 4),
        (0, "stride", 0, "i32", 4),
        (0, "stride", 1, "i32", 4),
        (1, "address", 0, "", 8),
        (1, "length", 0, "i32", 4),
        (2, "scalar", 0, "i32", 4),
        (3, "scalar", 0, "f32", 4),
        (4, "scalar", 0, "bool", 1),
    ]


def test_a_tuple_that_is_no_constant_is_not_known_here():
    assert passed(torch.zeros(8), [torch.zeros(4)], (1, 2), 0.5, True, (1,), 64) is None
