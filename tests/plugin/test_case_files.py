# SPDX-License-Identifier: MIT
"""Every case file is well-formed, its inputs are what they say, and its reference and tolerances can be failed."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.nn import functional

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.arguments import bits
from pytest_cutile_rs.checks.arguments import tensors
from pytest_cutile_rs.checks.judge import judge
from pytest_cutile_rs.checks.judge import several
from pytest_cutile_rs.size import CPU
from pytest_cutile_rs.size import size_of
from pytest_cutile_rs.suites import suites

SUITES = list(suites().values())
BYTES = 1 << 16
FLOPS = 1 << 24

every_suite = pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])


def tiny(suite: OpSuite) -> list[Case]:
    found = [case for case in suite.cases if not case.raises and max(case.shape, default=1) <= 4200]
    small = [case for case in found if suite.bytes_moved(case) <= BYTES and suite.flops(case) <= FLOPS]
    return small or sorted(found, key=suite.flops)[:2]


@every_suite
def test_it_says_what_a_case_file_has_to_say(suite: OpSuite) -> None:
    ids = [case.id for case in suite.cases]
    assert len(set(ids)) == len(ids) >= 8
    assert any(case.perf for case in suite.cases)
    assert suite.nan_policy
    assert suite.rounding_policy
    for case in suite.cases:
        assert case.op == suite.name
        assert case.dtype in TORCH_DTYPES
        assert suite.bytes_moved(case) >= 0
        assert suite.flops(case) >= 0
        limit = suite.tolerance_for(case)
        assert 0 <= limit.rtol < 1
        assert 0 <= limit.atol < math.inf
        assert limit.why
    assert any(size_of(suite, case) == CPU and not case.raises for case in suite.cases)


def test_every_dtype_has_a_size() -> None:
    assert {name: getattr(torch, dtype).itemsize for name, dtype in TORCH_DTYPES.items()} == ITEMSIZE


@every_suite
def test_inputs_are_the_same_for_a_seed_and_alike_on_every_device(suite: OpSuite) -> None:
    for case in tiny(suite)[:12]:
        here = list(tensors(suite.inputs(case, "cpu", 3)))
        for _, name, one in here:
            assert not one.requires_grad, name
        for (_, name, one), (_, _, two) in zip(here, tensors(suite.inputs(case, "cpu", 3)), strict=True):
            if "out" not in name and case.data != "empty" and name not in map(str, suite.in_place):
                assert torch.equal(bits(one), bits(two)), name
        for device, data in (("meta", case.data), ("cpu", "empty")):
            other = list(tensors(suite.inputs(dataclasses.replace(case, data=data), device, 3)))
            facts = [[(name, one.shape, one.dtype) for _, name, one in them] for them in (here, other)]
            assert facts[0] == facts[1], (case.id, device)


@every_suite
def test_references_have_the_shapes_and_dtypes_of_the_outputs_and_a_wrong_output_fails(suite: OpSuite) -> None:
    cases = tiny(suite)
    assert cases
    for case in cases[:20]:
        call = suite.inputs(case, "cpu", case.seed(0))
        reference = several(suite.reference(case, call))
        right = [want.to(getattr(torch, TORCH_DTYPES[suite.dtype_of(case, n)])) for n, want in enumerate(reference)]
        judged = judge(suite, case, right, reference)
        assert judged.ok, (case.id, judged.problems)
        for number, one in enumerate(right):
            if one.numel() and bool(torch.isfinite(one.float()).all()):
                off = one.to(torch.float64).abs().max().item() * 0.1 + 1.0
                wrong = [*right]
                wrong[number] = (one.to(torch.float64) + off * (1 + (one.to(torch.float64) > 0))).to(one.dtype)
                assert not judge(suite, case, wrong, reference).ok, (case.id, number)


@every_suite
def test_pytorchs_side_computes_the_reference(suite: OpSuite) -> None:
    """In fp32, from the same numbers; dropout's mask is its own, relu keeps NaN, the mean of no losses is NaN."""
    for case in tiny(suite)[:25]:
        if suite.name == "dropout" or (suite.name, case.data) in {("relu", "nan"), ("nvfp4_quantize", "randn")}:
            continue
        if (suite.name, case.shape[0]) == ("fused_linear_cross_entropy", 0):
            continue
        call = suite.inputs(case, "cpu", case.seed(0))
        reference = several(suite.reference(case, call))
        got = several(suite.torch(case, widened(call)))
        for number, (one, want) in enumerate(zip(got, reference, strict=False)):  # it may leave extras out
            dtype = getattr(torch, TORCH_DTYPES[suite.dtype_of(case, number)])
            assert want.shape == one.shape, (case.id, number)
            limit = suite.tolerance_for(case, number)
            close = torch.isclose(
                one.to(dtype).double(), want.to(dtype).double(), limit.rtol, limit.atol, equal_nan=True
            )
            assert bool(close.all()), (case.id, number)


def widened(call: Call) -> Call:
    """Narrow floating-point tensors as fp32."""

    def wide(value):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.float()
        return type(value)(wide(one) for one in value) if isinstance(value, (tuple, list)) else value

    return Call(tuple(wide(one) for one in call.args), {name: wide(one) for name, one in call.kwargs.items()})


def geglu(case, x):
    a, b = x.chunk(2, dim=case.kwargs["dim"])
    return a * functional.gelu(b, approximate=case.kwargs["approximate"])


def gluact(case, x, a, b, c):
    acts = {
        "silu": functional.silu,
        "relu": functional.relu,
        "gelu": lambda one: functional.gelu(one, approximate="tanh"),
    }
    return functional.linear(acts[case.kwargs.get("act_type", "silu")](x @ a.t()) * functional.linear(x, b), c)


PYTORCHS = {
    "geglu": geglu,
    "get_swiglu": lambda case, a, b: functional.silu(a) * b,
    "get_swiglu_module": lambda case, x, a, b, c: functional.linear(
        functional.silu(functional.linear(x, a)) * functional.linear(x, b), c
    ),
    "get_rms_norm_module": lambda case, x, w: functional.rms_norm(
        x, x.shape[-1:], w + (1.0 if case.kwargs["model"] == "gemma3" else 0.0), 1e-5
    ),
    "linear_gluact_linear": gluact,
    "mhc_apply_residual": lambda case, x, f, y, n: (
        torch.einsum("rij,rjc->ric", y[:, 2 * n : 2 * n + n * n].view(-1, n, n), x.reshape(len(x), n, -1))
        + torch.einsum("ri,rc->ric", y[:, n : 2 * n], f)
    ).reshape(x.shape),
    "persistent_layer_norm": lambda case, x, columns, w, b, eps: functional.layer_norm(x, columns, w, b, eps),
    "splitk_reduce": lambda case, partials, lse, out, length: torch.einsum(
        "bhs,bhsd->bhd", (torch.exp2(lse) / torch.exp2(lse).sum(-1, keepdim=True)), partials
    ),
}


@pytest.mark.parametrize("name", PYTORCHS)
def test_references_agree_with_pytorchs_own_functions(name: str) -> None:
    suite = suites()[name]
    plain = [case for case in tiny(suite) if case.data == "randn" and 0 not in case.shape]
    chosen = [case for case in plain if not {"backward", "moments"} & case.kwargs.keys()] or plain
    for case in chosen[:8]:
        call = suite.inputs(case, "cpu", case.seed(0))
        reference = several(suite.reference(case, call))[0]
        wide = [one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in call.args]
        torch.testing.assert_close(PYTORCHS[name](case, *wide), reference, rtol=1e-6, atol=1e-6)


def test_a_suite_that_looks_in_the_wrong_module_is_told_where_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suites()["relu"]
    monkeypatch.setattr(type(suite), "module", "math")
    with pytest.raises(AttributeError, match="math has no relu; the suite's `module` says where TileGym has it"):
        OpSuite.call(suite, Call((torch.ones(2),)))
