# SPDX-License-Identifier: MIT
"""Parity of the module that `get_rms_norm_module` returns for each model: `rms_norm`, with offset 1 for gemma3."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import options
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._norms import EPS
from pytest_cutile_rs.cases._norms import I32
from pytest_cutile_rs.cases._norms import TOLERANCES
from pytest_cutile_rs.cases._norms import RmsNormSuite
from pytest_cutile_rs.cases._norms import rms_norm
from pytest_cutile_rs.cases._tensors import tensor

_OP = "get_rms_norm_module"
_OFFSETS = {"llama": 0.0, "gemma3": 1.0}


def _case(dtype: str, shape: tuple[int, ...], model: str = "llama", back: bool = False, **more: Any) -> Case:
    params = {"model": model, **({BACKWARD: True} if back else {}), **more.pop("also", {})}
    return case(_OP, dtype, shape, tag=model, params=params, **more)


def _listed() -> list[Case]:
    shapes = [(256, 256), (2, 64, 256), (4096, 256), (3, 17), (1, 1), (9, 1025)]
    found = [
        _case(dtype, shape, model, quick=(dtype, shape) == ("f16", (256, 256)), structural=shape[0] != 1)
        for shape in shapes
        for model in _OFFSETS
        for dtype in DTYPES
    ]
    # The gemma3 module has no backward pass: TileGym raises NotImplementedError.
    found += [_case(dtype, shape, back=True, quick=dtype == "bf16") for shape in ((40, 256),) for dtype in DTYPES]
    found += [_case("f16", (65536, 4096), model, perf=True) for model in _OFFSETS]
    found += [_case("f32", (0, 64), model, structural=False) for model in _OFFSETS]
    found += [_case("f16", (2**31, 8), model, raises=I32, structural=False) for model in _OFFSETS]
    return found + [
        _case(dtype, (16, 130), model, data=data, structural=False)
        for data in ("nan", "inf")
        for model in _OFFSETS
        for dtype in DTYPES
    ]


class GetRmsNormModule(RmsNormSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    differentiable = (0, 1)
    tolerance = TOLERANCES
    nan_policy = "rms_norm's"
    rounding_policy = "rms_norm's"

    def calls_torch(self, case: Case) -> bool:
        """The sum of the weight's gradient over blocks, on cuTile Python's side."""
        return bool(case.kwargs.get(BACKWARD))

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, the weight, the model, and the gradient of the result in a backward case."""
        plain = "empty" if case.data == "empty" else "randn"
        x = tensor(case.shape, case.dtype, device, seed, data=case.data)
        weight = tensor(case.shape[-1:], case.dtype, device, seed + 1, data=plain)
        kwargs: dict[str, Any] = options(case)
        if case.kwargs.get(BACKWARD):
            kwargs[UPSTREAM] = tensor(case.shape, case.dtype, device, seed + 2, data=plain)
        return Call((x, weight), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """See `_norms`."""
        x, weight = call.args
        return rms_norm(x, weight, EPS, _OFFSETS[str(case.kwargs["model"])])

    def invoke(self, call: Call, backend: str | None) -> Any:
        """Makes the module of the model and runs it with the given weight."""
        import torch

        x, weight = call.args
        kind = super().invoke(Call((), call.kwargs), backend)
        with torch.device("meta"):  # its own weight is never used
            module = kind(x.shape[-1], eps=EPS)
        return torch.func.functional_call(module, {"weight": weight}, (x,))


SUITE = GetRmsNormModule()
