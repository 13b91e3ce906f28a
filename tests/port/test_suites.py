# SPDX-License-Identifier: MIT
"""The ops of tilegym.suites: every one is called, all their kernels launch, and under cutile_rs they run ported."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile")
pytest.importorskip("tilegym")

from pytest_cutile_rs.suite_calls import SUITES  # noqa: E402
from pytest_cutile_rs.suite_calls import suite_ops  # noqa: E402
from tilegym_rs_backend import registration  # noqa: E402
from tilegym_rs_backend.errors import ToolchainError  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.installed import backend_set  # noqa: E402
from tilegym_rs_backend.port.installed import import_tilegym  # noqa: E402
from tilegym_rs_backend.port.launches import chosen  # noqa: E402

UNREACHABLE = {"w8a8_block_fp8_matmul_kernel_ct"}
"""Kernels that no host code of the suites launches."""
NO_KERNEL = {"liger.tiled_mlp"}
"""Ops that are host code alone."""


@pytest.fixture(scope="module", autouse=True)
def suites():
    import_tilegym()
    registration.register()
    for suite in SUITES:
        importlib.import_module(f"tilegym.suites.{suite}")


def dispatcher():
    return importlib.import_module("tilegym.backend.dispatcher")


def kernels_of_the_sources():
    root = Path(importlib.import_module("tilegym.suites").__file__).parent
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and any("ct.kernel" in ast.unparse(d) for d in node.decorator_list):
                yield f"{'.'.join(file.relative_to(root).with_suffix('').parts)}.{node.name}"


def test_every_op_has_calls_and_an_implementation_of_ours():
    registered = {op for op in dispatcher()._REGISTRY if op.partition(".")[0] in SUITES}
    assert set(suite_ops()) == registered - NO_KERNEL
    assert all("cutile_rs" in dispatcher()._REGISTRY[op] for op in registered)


@pytest.mark.slow
def test_the_calls_launch_every_kernel_that_can_be_launched():
    launched = set()
    for suite in suite_ops().values():
        failures = []
        for each in chosen(suite, "sm_90", 1, lambda case, error, to=failures: to.append((case.id, error))):
            launch = each.launch
            launched.add(f"{launch.module.removeprefix('tilegym.suites.')}.{launch.name}")
        assert failures == [], suite.name
    missing = {name.rpartition(".")[2] for name in set(kernels_of_the_sources()) - launched}
    assert missing == UNREACHABLE
    assert len(launched) == 100


def test_cases_differ_and_their_ids_too():
    for name, suite in suite_ops().items():
        assert len({case.id for case in suite.cases}) == len(suite.cases), name
        assert len({(case.params, case.dtype) for case in suite.cases}) == len(suite.cases), name


@pytest.mark.parametrize("op", ["liger.geglu", "unsloth.rms_layernorm", "flashinfer.gemm.masked_bmm"])
def test_a_call_is_the_same_for_the_same_seed(op):
    suite = suite_ops()[op]
    once, again, other = (suite.inputs(suite.cases[0], "cpu", seed) for seed in (7, 7, 8))
    for a, b in zip(once.args, again.args, strict=True):
        assert not isinstance(a, torch.Tensor) or torch.equal(a, b)
    assert not torch.equal(once.args[0], other.args[0])


def test_a_stream_made_by_an_op_is_answered_while_it_is_captured():
    assert capture(lambda: torch.cuda.Stream(device="cpu").synchronize()) == []


@pytest.fixture(scope="module")
def prepared():
    """The kernels of the two ops below, translated and built in one go."""
    from tilegym_rs_backend.port.launches import case_launches
    from tilegym_rs_backend.port.redirect import redirect

    found = []
    for op in ("liger.geglu", "unsloth.rope_embedding"):
        suite = suite_ops()[op]
        case = next(case for case in suite.cases if case.dtype == "f16")
        found += case_launches(suite, case, "sm_90")
    try:
        assert redirect().kernels.prepare(found) == {}
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.mark.cargo
def test_an_op_of_a_suite_runs_ported_forward_and_backward(prepared):
    from tilegym.suites import liger

    a, b = (torch.randn(8, 512).to(torch.float16).requires_grad_() for _ in range(2))
    wide = [each.detach().double().requires_grad_() for each in (a, b)]
    want = torch.nn.functional.gelu(wide[0], approximate="tanh") * wide[1]
    with backend_set("cutile_rs"):
        got = liger.geglu(a, b)
        got.backward(torch.ones_like(got))
    want.backward(torch.ones_like(want))
    torch.testing.assert_close(got.double(), want, rtol=2e-3, atol=2e-3)
    for ours, theirs in zip((a, b), wide, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=4e-3, atol=4e-3)


@pytest.mark.cargo
def test_an_op_of_a_suite_with_a_tuner_runs_ported(prepared):
    from tilegym.suites import unsloth

    q, cos, sin = torch.randn(1, 16, 4, 64).half(), torch.randn(16, 32).half(), torch.randn(16, 32).half()
    with backend_set("cutile_rs"):
        got = unsloth.rope_embedding(q, cos, sin)
    left, right = q.double().chunk(2, -1)
    c, s = (each.double()[None, :, None] for each in (cos, sin))
    want = torch.cat((left * c - right * s, right * c + left * s), -1)
    torch.testing.assert_close(got.double(), want, rtol=4e-3, atol=4e-3)


def test_variant_native_refuses_an_op_of_a_suite(monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_VARIANT", "native")
    with pytest.raises(NotImplementedError, match=r"liger\.swiglu has no native implementation"):
        registration.implementation("liger.swiglu")
