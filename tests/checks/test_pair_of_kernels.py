# SPDX-License-Identifier: MIT
"""The comparison can say "identical", and does say "different": a softmax of our own, written in both languages."""

from __future__ import annotations

import pytest

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks import ir
from pytest_cutile_rs.checks import sass
from pytest_cutile_rs.peers.base import PeerLaunch

ARCH = "sm_90"
CASES = [("float16", 1000), ("float16", 1024), ("float32", 1000), ("bfloat16", 512)]

pytestmark = pytest.mark.cargo


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def pair(request, library):
    """(case, our launch, our launch of the changed kernel, cuTile Python's launch) of one dtype and width."""
    import torch
    from crate import own_launch
    from own_softmax import run

    from tilegym_rs_backend.port.capture import bytecode
    from tilegym_rs_backend.port.capture import capture

    dtype, columns = request.param
    x = torch.empty(4096, columns, dtype=getattr(torch, dtype), device="meta")
    [found] = capture(lambda: run(x), ARCH)
    theirs = PeerLaunch(found.name, found.grid, found.hints, bytecode(found))
    width = found.constants["WIDTH"]
    ours, changed = (
        own_launch(library, name, [x, x], width, found.grid, ARCH) for name in ("own_softmax", "own_softmax_changed")
    )
    return Case("own_softmax", f"{dtype}-{columns}", dtype, (4096, columns)), ours, changed, theirs


def test_the_pair_is_sass_identical(pair):
    case, ours, _, theirs = pair
    for variant in ("native", "ported"):
        result = sass.check(case, [ours], [theirs], ARCH, variant=variant)
        assert result.status == "PASS", result.reason
        assert result.reason.startswith("SASS-IDENTICAL own_softmax (")
        assert result.reason.endswith("grid and hints equal)")
        assert result.data["identical"]


def test_the_pair_has_no_categorized_ir_difference(pair):
    case, ours, _, theirs = pair
    result = ir.check(case, [ours], [theirs], ARCH)
    assert result.status == "PASS"
    assert result.data["categories"] == [], result.details


def test_a_changed_kernel_is_different(pair):
    case, _, changed, theirs = pair
    native = sass.check(case, [changed], [theirs], ARCH)
    assert not native.data["identical"]
    assert "IDENTICAL" not in native.reason
    assert "own_softmax_changed / own_softmax differ: code" in native.reason
    ported = sass.check(case, [changed], [theirs], ARCH, variant="ported", repeat=False)
    assert ported.status == "FAIL"
    assert ported.data["launches"][0]["differing_instructions"] > 0
    seen = ir.check(case, [changed], [theirs], ARCH)
    assert not seen.data["equal"]
    assert "addf" in seen.details
    assert "subf" in seen.details
