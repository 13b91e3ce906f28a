# SPDX-License-Identifier: MIT
"""The normalisations: what they accept and refuse, strides, gradients, statistics, modules; executed on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.library import get_library
from tilegym_rs_backend.ops import _layer_norm_legacy_space
from tilegym_rs_backend.ops import _layer_norm_space
from tilegym_rs_backend.ops import _rms_norm_space
from tilegym_rs_backend.ops._norms import Config
from tilegym_rs_backend.ops.get_rms_norm_module import get_rms_norm_module
from tilegym_rs_backend.ops.layer_norm import layer_norm
from tilegym_rs_backend.ops.layer_norm_legacy import layer_norm_legacy
from tilegym_rs_backend.ops.persistent_layer_norm import persistent_layer_norm
from tilegym_rs_backend.ops.rms_norm import rms_norm
from tilegym_rs_backend.ops.rms_norm import rms_norm_backward
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tensors import meta_of
from tilegym_rs_backend.tuning.machine import machine

EPS = 1e-5
F = torch.nn.functional


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def vectors(x, axis=-1):
    """A weight and a bias for an axis, the same each time."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(x.shape[axis], generator=generator).to(x.dtype) for _ in range(2)]


OPS = {
    "rms_norm": lambda x: rms_norm(x, None, vectors(x)[0], EPS),
    "layer_norm_legacy": lambda x: layer_norm_legacy(x, None, *vectors(x), EPS),
    "persistent_layer_norm": lambda x: persistent_layer_norm(x.bfloat16(), None, *vectors(x), EPS)[0],
    "layer_norm, last axis": lambda x: layer_norm(x, -1, x.ndim, *vectors(x), EPS),
    "layer_norm, first axis": lambda x: layer_norm(x, 0, 1, *vectors(x, 0), EPS),
}
LAYOUTS = {
    "transposed": lambda x: x.t().contiguous().t(),
    "every second column": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], 2).flatten(1)[:, ::2],
    "every second row": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], 1).flatten(0, 1)[::2],
    "one row expanded": lambda x: x[:1].expand(x.shape),
    "one column expanded": lambda x: x[:, :1].expand(x.shape),
    "padded rows": lambda x: torch.cat([x, torch.full_like(x, torch.nan)], 1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", OPS)
def test_any_strides_give_the_bits_of_contiguous_memory(op, layout):
    x = LAYOUTS[layout](torch.randn(24, 48, generator=torch.Generator().manual_seed(7)).half())
    assert torch.equal(OPS[op](x), OPS[op](x.contiguous()))


def test_strides_of_the_results_are_tilegyms():
    x = torch.randn(6, 8).t()
    assert rms_norm(x, None, torch.ones(6), EPS).stride() == (6, 1)
    assert layer_norm_legacy(x, None, torch.ones(6), torch.ones(6), EPS).stride() == (1, 8)
    assert persistent_layer_norm(x.bfloat16(), None, torch.ones(6), torch.ones(6), EPS)[0].stride() == (6, 1)
    assert layer_norm(x, 0, 1, torch.ones(8), torch.ones(8), EPS).stride() == (6, 1)


def test_rows_with_gaps_are_read_in_place():
    """One launch and no copy: the pitch is the launch's, columns that are no rows' own are not touched."""
    wide = torch.randn(16, 96)
    with record("sm_90") as padded:
        rms_norm(wide[:, :48], None, torch.ones(48), EPS)
    with record("sm_90") as packed:
        rms_norm(torch.randn(16, 48), None, torch.ones(48), EPS)
    assert [launch.spec_text for launch in padded] == [launch.spec_text for launch in packed]


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_weight_has_a_dtype_of_its_own(weight_dtype):
    x, weight, bias = torch.randn(5, 40).bfloat16(), torch.randn(40).to(weight_dtype), torch.randn(40)
    exact = F.rms_norm(x.double(), (40,), weight.double(), EPS)
    torch.testing.assert_close(rms_norm(x, None, weight, EPS).double(), exact, rtol=8e-3, atol=1e-5)
    exact = F.layer_norm(x.double(), (40,), weight.double(), bias.double(), EPS)
    torch.testing.assert_close(layer_norm_legacy(x, None, weight, bias, EPS).double(), exact, rtol=8e-3, atol=1e-5)


BAD = {
    "no tensor": (
        lambda x: rms_norm(None, None, x, EPS),
        TypeError,
        "rms_norm: input must be a torch.Tensor",
    ),
    "no weight": (lambda x: layer_norm_legacy(x, None, None, x, EPS), TypeError, "layer_norm_legacy: weight must be"),
    "no dimension": (lambda x: rms_norm(x[0, 0], None, x[0], EPS), LaunchError, "input has no axis to normalise over"),
    "weight's shape": (lambda x: rms_norm(x, None, x, EPS), ValueError, r"weight has shape \(4, 8\), expected \(8,\)"),
    "bias's shape": (
        lambda x: persistent_layer_norm(x.bfloat16(), None, x[0], x[0, :3], EPS),
        ValueError,
        r"bias has shape \(3,\), expected \(8,\)",
    ),
    "rows": (
        lambda x: persistent_layer_norm(x.bfloat16(), None, x[0], x[0], EPS, mean=x[0]),
        ValueError,
        r"mean has shape \(8,\), expected \(4,\): one per row",
    ),
    "dtype": (lambda x: rms_norm(x.double(), None, x[0], EPS), LaunchError, "input has dtype torch.float64"),
    "weight's dtype": (lambda x: rms_norm(x, None, x[0].double(), EPS), LaunchError, "weight has dtype torch.float64"),
    "bf16 alone": (
        lambda x: persistent_layer_norm(x, None, x[0], x[0], EPS),
        LaunchError,
        "input has dtype torch.float32; this op takes bfloat16",
    ),
    "device": (
        lambda x: rms_norm(x, None, x[0].to("meta"), EPS),
        LaunchError,
        "input is on cpu but weight is on meta",
    ),
    "bias": (lambda x: rms_norm(x, None, x[0], EPS, bias=x[0]), NotImplementedError, "rms_norm: there is no bias"),
    "mode": (lambda x: rms_norm(x, None, x[0], EPS, mode="best"), ValueError, "mode 'best'; it is one of None, static"),
    "argument": (lambda x: rms_norm(x, None, x[0], EPS, tma=1), TypeError, r"rms_norm: unknown arguments \['tma'\]"),
    "axes": (lambda x: layer_norm(x, 1, 1, x[0], x[0], EPS), ValueError, "start_dim 1 and end_dim 1 name no axes"),
    "axis": (lambda x: layer_norm(x, 1, 3, x[0], x[0], EPS), ValueError, "end_dim 3 name no axes of a tensor of 2"),
    "size": (lambda x: layer_norm(x, 0, 1, x[0], x[0], EPS), ValueError, r"weight has shape \(8,\), expected \(4,\)"),
    "gradient's shape": (
        lambda x: rms_norm_backward(x, x[:2], x[0], x[:, 0]),
        ValueError,
        r"dy is torch.float32 of shape \(2, 8\), expected torch.float32 of shape \(4, 8\), as x",
    ),
    "factors": (
        lambda x: rms_norm_backward(x, x, x[0], x[0]),
        ValueError,
        r"rstd is torch.float32 of shape \(8,\), expected one float32 per row",
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_by_name_before_anything_is_launched(call, error, text):
    with record("sm_90") as launches, pytest.raises(error, match=text):
        call(torch.randn(4, 8))
    assert launches == []


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_empty_axes(shape):
    x = torch.empty(shape)
    with record("sm_90") as launches:
        results = [op(x) for op in OPS.values()]
    assert launches == []
    assert [result.shape for result in results] == [x.shape] * len(OPS)
    weight = torch.ones(shape[1], requires_grad=True)
    rms_norm(x.requires_grad_(), None, weight, EPS).sum().backward()
    assert torch.equal(weight.grad, torch.zeros(shape[1]))
    assert x.grad.shape == shape


@pytest.mark.parametrize("shape", [(3, 1), (7, 40), (300, 130), (2, 3, 20), (6, 5000)])
def test_gradients_are_those_of_the_formula_in_fp64(shape):
    x, weight, grad = torch.randn(shape), torch.randn(shape[-1]), torch.randn(shape)
    exact = [one.double().requires_grad_() for one in (x, weight)]
    expected = torch.autograd.grad(F.rms_norm(exact[0], shape[-1:], exact[1], EPS), exact, grad.double())
    ours = [one.clone().requires_grad_() for one in (x, weight)]
    got = torch.autograd.grad(rms_norm(ours[0], None, ours[1], EPS), ours, grad)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-5)


def test_what_has_no_gradient_raises_in_backward():
    x, weight, bias = torch.randn(3, 8, requires_grad=True), torch.randn(8), torch.randn(8)
    for name, result in (
        ("rms_norm with offset 1", rms_norm(x, None, weight, EPS, offset=1.0)),
        ("layer_norm_legacy", layer_norm_legacy(x, None, weight, bias, EPS)),
        ("persistent_layer_norm", persistent_layer_norm(x.bfloat16(), None, weight, bias, EPS)[0]),
        ("layer_norm", layer_norm(x, 0, 1, weight[:3], bias[:3], EPS)),
    ):
        with pytest.raises(NotImplementedError, match=f"{name} has no backward in backend 'cutile_rs'"):
            result.sum().backward()


def test_the_gradient_of_rms_norm_is_not_lost_silently():
    x, weight = torch.randn(2, 8, requires_grad=True), torch.ones(8)
    (first,) = torch.autograd.grad((rms_norm(x, None, weight, EPS) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        (first.sum() + x.sum()).backward()
    x = x.detach()
    for op in (OPS["rms_norm"], OPS["layer_norm_legacy"], OPS["layer_norm, first axis"]):
        with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode AD"):
            op(forward_ad.make_dual(x, torch.ones_like(x)))


def test_a_lazily_negated_gradient_is_resolved():
    x, grad = torch.randn(2, 8, requires_grad=True), torch.view_as_complex(torch.randn(2, 8, 2)).conj().imag
    assert grad.is_neg()
    (lazy,) = torch.autograd.grad(OPS["rms_norm"](x), x, grad)
    (plain,) = torch.autograd.grad(OPS["rms_norm"](x), x, grad.resolve_neg())
    assert torch.equal(lazy, plain)


def test_statistics_are_computed_given_or_overwritten():
    x, (weight, bias) = torch.randn(5, 40).bfloat16(), (torch.randn(40), torch.randn(40))
    y, mean, rstd, block, warps = persistent_layer_norm(x, None, weight, bias, EPS)
    assert (block, warps, mean.dtype, mean.shape) == (64, 8, torch.float32, (5,))
    torch.testing.assert_close(mean, x.float().mean(1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(rstd, (x.float().var(1, correction=0) + EPS).rsqrt(), rtol=1e-5, atol=1e-6)
    other, factor = mean + 1, rstd * 2
    shifted, *same = persistent_layer_norm(x, None, weight, bias, EPS, other, factor)
    assert same[0] is other and same[1] is factor  # noqa: PT018
    exact = (x.float() - other[:, None]) * factor[:, None] * weight + bias
    torch.testing.assert_close(shifted.float(), exact, rtol=8e-3, atol=1e-3)
    again, same_mean, new, *_ = persistent_layer_norm(x, None, weight, bias, EPS, mean=other)
    assert same_mean is other
    assert torch.equal(other, mean)
    assert torch.equal(new, rstd)
    assert torch.equal(again, y)
    assert persistent_layer_norm(torch.empty(2, 0).bfloat16(), None, weight[:0], bias[:0], EPS)[1].isnan().all()


def test_a_variance_does_not_cancel():
    """mean(x^2) - mean(x)^2, TileGym's, has nothing left of a deviation of 1 around 4096."""
    x = (torch.arange(32.0).remainder(2) * 2 - 1 + 4096).expand(4, 32)
    assert torch.equal(layer_norm_legacy(x, None, torch.ones(32), torch.zeros(32), 0.0), x - 4096)


@pytest.mark.parametrize("model", ["llama", "gemma3"])
def test_modules(model):
    kind = get_rms_norm_module(model)
    module = kind(40, eps=1e-4)
    assert torch.equal(module.weight, torch.zeros(40) if model == "gemma3" else torch.ones(40))
    assert repr(module).endswith(f"((40,), eps=0.0001, offset={1.0 if model == 'gemma3' else 0.0})")
    x = torch.randn(2, 3, 40)
    for mode in (None, "static_persistent"):
        torch.testing.assert_close(module(x, mode), module.forward_torch(x), rtol=1e-5, atol=1e-6)
    rstd = kind.compute_rstd_torch(x, 1e-4)
    grad, weight = torch.randn(2, 3, 40), torch.randn(40)
    got = kind.rms_norm_backward(x, grad, weight, rstd)
    for one, other in zip(got, kind.rms_norm_backward_torch(x, grad, weight, rstd), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [Config(1, num_worker_warps=4), Config(4, True, num_worker_warps=4), Config(8, True, num_worker_warps=8)],
    ids=["row", "folded", "folded twice"],
)
@pytest.mark.parametrize("columns", [600, 1024])
def test_each_variant_of_a_tile_computes_the_same(config, columns):
    x, weight, bias = torch.randn(11, columns), torch.randn(columns), torch.randn(columns)
    metas = [meta_of(one) for one in (x, weight, bias)]
    target, here = executing_target("sm_90"), machine("sm_90")
    problem = _rms_norm_space.Problem(metas[0], metas[1], EPS, 0.0, False)
    out = torch.full_like(x, torch.nan)
    run = _rms_norm_space.SPACE.launch(problem, config, here).bind(get_library(), target)
    run(out.data_ptr(), x.data_ptr(), weight.data_ptr(), 0)
    torch.testing.assert_close(out, F.rms_norm(x, (columns,), weight, EPS), rtol=1e-5, atol=1e-5)
    legacy = _layer_norm_legacy_space.Problem(*metas, EPS, 0.0)
    run = _layer_norm_legacy_space.SPACE.launch(legacy, config, here).bind(get_library(), target)
    run(out.data_ptr(), x.data_ptr(), weight.data_ptr(), bias.data_ptr())
    torch.testing.assert_close(out, F.layer_norm(x, (columns,), weight, bias, EPS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns", "tile"), [(4, 4096, 1), (100_000, 256, 32), (100_000, 4096, 4)])
def test_defaults_have_blocks_for_every_multiprocessor(rows, columns, tile):
    x = meta_of(torch.empty(rows, columns, dtype=torch.float16, device="meta"))
    problem = _rms_norm_space.Problem(x, x, EPS, 0.0, False)
    assert _rms_norm_space.SPACE.default(problem, machine("sm_90")).rows == tile
    far = x._replace(strides=(2**30, 1))  # 2 rows are 2^31 elements apart
    assert _rms_norm_space.SPACE.default(problem._replace(x=far), machine("sm_90")).rows == 1


def test_a_depth_that_no_tile_holds_is_read_in_pieces():
    def default(shape):
        flat = meta_of(torch.empty(shape[0] * shape[1], shape[2], device="meta"))
        return _layer_norm_space.default(_layer_norm_space.Problem(shape, flat, flat, flat, EPS, 0.0), machine("sm_90"))

    assert default((2, 1024, 64)).depth == 0
    assert default((2, 5000, 64)).depth == 64
    assert default((1, 16, 2**29)).depth == 2  # 16 * 2^29 elements are more than 32 bits number
