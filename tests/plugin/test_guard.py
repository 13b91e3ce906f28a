# SPDX-License-Identifier: MIT
"""Guard bands around allocations and arguments, and arguments compared bit for bit."""

from __future__ import annotations

import collections
from types import SimpleNamespace

import pytest
import torch

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.checks.arguments import copied
from pytest_cutile_rs.checks.arguments import modified
from pytest_cutile_rs.checks.arguments import tensors
from pytest_cutile_rs.checks.guard import BAND
from pytest_cutile_rs.checks.guard import Bands
from pytest_cutile_rs.checks.guard import guarded
from tilegym_rs_backend.fresh import uninitialized_memory
from tilegym_rs_backend.tile_ir.execute import ExecutionError

X = torch.randn(4, 5).t()
ALLOCATIONS = {
    "torch.empty": lambda: torch.empty(3, 4),
    "torch.empty_like": lambda: torch.empty_like(X),
    "torch.empty_strided": lambda: torch.empty_strided((3, 4), (8, 2)),
    "Tensor.new_empty": lambda: X.new_empty((3,)),
    "Tensor.new_empty_strided": lambda: X.new_empty_strided((3, 2), (2, 1)),
    "torch.zeros": lambda: torch.zeros(3, 4, dtype=torch.int32),
    "torch.zeros_like": lambda: torch.zeros_like(X),
    "Tensor.new_zeros": lambda: X.new_zeros(3),
    "torch.ones": lambda: torch.ones(3, dtype=torch.bfloat16),
    "torch.full": lambda: torch.full((3,), 7, dtype=torch.int64),
    "Tensor.new_full": lambda: X.new_full((3,), 2.0),
}


def beyond(tensor: torch.Tensor, side: str) -> torch.Tensor:
    """The element right before or after the tensor's storage as the op sees it."""
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((1,), (1,), tensor.storage_offset() + (span if side == "after" else -1))


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_a_stray_write_beside_an_allocation_is_seen(name: str, side: str) -> None:
    plain = ALLOCATIONS[name]()
    with guarded() as bands:
        tensor = ALLOCATIONS[name]()
    assert (tensor.shape, tensor.stride(), tensor.dtype) == (plain.shape, plain.stride(), plain.dtype)
    assert tensor.data_ptr() % 16 == plain.data_ptr() % 16
    if "empty" not in name:
        assert torch.equal(tensor, plain)
    else:
        assert bool(torch.isnan(tensor).all())
    assert bands.broken() == []
    beyond(tensor, side).fill_(1)
    [text] = bands.broken()
    assert text.endswith(f"of {BAND} guard bytes {side} the output of {name} were overwritten")


def test_a_nan_and_a_minus_one_in_a_band_are_seen() -> None:
    with guarded() as bands:
        real, whole = torch.empty(4), torch.empty(4, dtype=torch.int32)
    beyond(real, "after").fill_(float("nan"))
    beyond(whole, "after").fill_(-1)
    assert len(bands.broken()) == 2


def test_what_nobody_wrote_is_known_under_the_guard_too() -> None:
    from tilegym_rs_backend.ops.softmax import softmax

    with guarded(), uninitialized_memory():
        x = torch.empty(4, 64)
        with pytest.raises(ExecutionError) as caught:
            softmax(x)
    assert caught.value.kind == "uninitialized"


def test_arguments_are_guarded_with_their_layout_and_aliases() -> None:
    base = torch.randn(2, 6)
    call = Call((base[:, 1:4], [base[:, 4:], torch.arange(3)], 1.5), {"out": torch.zeros(3), "eps": 1e-5})
    bands = Bands()
    copy = copied(call, bands)
    first, (second, third), number = copy.args
    assert (first.stride(), first.storage_offset() - BAND // 4, number) == ((6, 1), 1, 1.5)
    assert torch.equal(first, call.args[0])
    assert torch.equal(third, call.args[1][1])
    assert bool(torch.isnan(copy.kwargs["out"]).all())
    second.fill_(3.0)  # the copies share memory as the originals do, and not with them
    assert torch.equal(first.as_strided((2, 6), (6, 1), BAND // 4)[:, 4:], second)
    assert not bool((base[:, 4:] == 3.0).any())
    assert bands.broken() == []
    beyond(copy.kwargs["out"], "after").fill_(0.0)
    beyond(third, "before").fill_(0)
    assert [text.partition("guard bytes ")[2] for text in bands.broken()] == [
        "before input 1[1] were overwritten",
        "after input out were overwritten",
    ]


Pair = collections.namedtuple("Pair", "left right")


def test_tensors_are_found_in_lists_and_tuples_and_named_ones() -> None:
    x = torch.zeros(1)
    call = Call((x, [x, (x, 3)], Pair(x, None)), {"w": {"not": "looked into"}, "v": x})
    assert [name for _, name, _ in tensors(call)] == ["0", "1[0]", "1[1][0]", "2[0]", "v"]
    assert isinstance(copied(call).args[2], Pair)


@pytest.mark.parametrize(
    ("in_place", "found"),
    [
        ((), ["input 0 was modified", "input 1[1] was modified", "input v was modified"]),
        ((1,), ["input 0 was modified", "input v was modified"]),
        ((0, 1, "v"), []),
    ],
)
def test_what_may_be_modified(in_place, found: list[str]) -> None:
    call = Call((torch.zeros(2), [torch.zeros(2), torch.zeros(2)]), {"v": torch.tensor(float("nan")), "out": X.clone()})
    after = copied(call)
    after.args[0][1] = -0.0  # equal as a number, other bits
    after.args[1][1].fill_(1.0)
    after.kwargs["v"].fill_(1.0)
    after.kwargs["out"].fill_(1.0)
    assert modified(SimpleNamespace(in_place=in_place), call, after) == found
    assert modified(SimpleNamespace(in_place=()), call, copied(call)) == []
