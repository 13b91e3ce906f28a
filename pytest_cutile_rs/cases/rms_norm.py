# SPDX-License-Identifier: MIT
"""Parity of `rms_norm` over the last axis in all its modes, forward and backward.

Its backward pass needs ``offset`` 0, and ``bias`` has to be None: TileGym refuses both otherwise. The modes are
TileGym's kernels; ours are chosen by shape, so that all modes run the same here. No columns at all are refused by
cuTile Python.
"""

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

_OP = "rms_norm"
_MODES = ("", "static_persistent", "multi_wave_reload", "multi_wave_cached")
_SHORT = {"": "", "static_persistent": "persistent", "multi_wave_reload": "reload", "multi_wave_cached": "cached"}


def _case(
    dtype: str, shape: tuple[int, ...], mode: str = "", back: bool = False, offset: float = 0.0, **more: Any
) -> Case:
    params: dict[str, object] = {"mode": mode} if mode else {}
    if offset:
        params["offset"] = offset
    if back:
        params[BACKWARD] = True
    tag = "-".join(word for word in (_SHORT[mode], f"offset{offset:g}" if offset else "") if word)
    return case(_OP, dtype, shape, tag=tag, params=params, **more)


def _tilegym() -> list[Case]:
    shapes = [
        ("f16", (256, 256)),
        ("f32", (256, 256)),
        ("f16", (256, 768)),
        ("f16", (4096, 256)),
        ("f16", (256, 18432)),
        ("bf16", (31072, 4096)),
    ]
    return [_case(*shape, mode, quick=shape == ("f16", (256, 256))) for shape in shapes for mode in _MODES]


def _timed() -> list[Case]:
    shapes = [(262144, 1024), (262144, 2048), (262144, 4096), (65536, 8192), (65536, 16384)]
    found = [_case("f16", shape, mode, perf=True) for shape in shapes for mode in _MODES[1:3]]
    found += [_case("bf16", (4096, 1024 << n), perf=True) for n in range(5)]
    backward = [(4096, 4096), (16384, 2048), (65536, 1024), (8192, 8192), (4096, 16384)]
    return found + [_case("bf16", shape, back=True, perf=True) for shape in backward]


def _backward() -> list[Case]:
    shapes = [(256, 256), (64, 768), (300, 1000), (1, 64), (7, 1), (3, 17), (40, 4100)]
    found = [_case(dtype, shape, back=True, structural=shape[0] > 200) for shape in shapes for dtype in DTYPES]
    return found + [_case("bf16", (33, 130), mode, True, structural=False, quick=mode == "") for mode in _MODES]


def _more() -> list[Case]:
    odd = [(1, 1), (1, 1000), (300, 1), (3, 17), (2, 1023), (9, 1025), (2, 3, 4, 65)]
    found = [
        _case(dtype, shape, mode, structural=False)
        for shape, mode in [*((shape, "") for shape in odd), *(((9, 1025), mode) for mode in _MODES[1:])]
        for dtype in DTYPES
    ]
    found += [_case(dtype, (64, 256), mode, offset=1.0) for mode in _MODES for dtype in ("bf16", "f32")]
    found += [
        _case("f16", (64, 500), layout=layout, structural=False)
        for layout in ("transposed", "strided", "padded", "padded-odd", "offset", "expanded", "every-other-row")
    ]
    found += [_case("f32", (0, 128), mode, structural=False) for mode in ("", "multi_wave_cached")]
    found += [
        _case(dtype, (16, 130), mode, data=data, structural=False)
        for data in ("nan", "inf", "constant", "tiny", "wide")
        for mode in _MODES[1:]
        for dtype in DTYPES
    ]
    found += [_case("f16", (3, 40000), back=back, structural=back) for back in (False, True)]  # read twice
    found += [_case("bf16", (5, 16000), back=True), _case("f32", (0, 128), back=True, structural=False)]
    found += [_case("f32", (8, 0), structural=False)]
    found += [_case("f16", shape, raises=I32, structural=False) for shape in ((2**31, 8), (2, 2**31))]
    # In f16 alone: the squares of the other two's largest numbers are beyond fp32.
    return found + [_case("f16", (16, 130), mode, data="overflow", structural=False) for mode in _MODES[1:]]


class RmsNorm(RmsNormSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_backward(), *_more()])
    differentiable = (0, 2)
    tolerance = TOLERANCES
    nan_policy = "a NaN or inf makes itself NaN; a NaN its whole row, an inf the rest of its row zero"
    rounding_policy = "fp32, one rounding at the store; the weight's gradient is summed over rows in fp32"

    def calls_torch(self, case: Case) -> bool:
        """The sum of the weight's gradient over blocks, on cuTile Python's side."""
        return bool(case.kwargs.get(BACKWARD))

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, its normalised shape, the weight, eps, and the gradient of the result in a backward case."""
        columns = case.shape[-1]
        plain = "empty" if case.data == "empty" else "randn"
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        weight = tensor((columns,), case.dtype, device, seed + 1, data=plain)
        kwargs: dict[str, Any] = options(case)
        if case.kwargs.get(BACKWARD):
            kwargs[UPSTREAM] = tensor(case.shape, case.dtype, device, seed + 2, data=plain)
        return Call((x, (columns,), weight, EPS), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """See `_norms`."""
        x, _, weight, eps = call.args
        return rms_norm(x, weight, eps, call.kwargs.get("offset", 0.0))

    def torch(self, case: Case, call: Call) -> Any:
        """`torch.nn.functional.rms_norm`; the formula in a backward case or with an offset."""
        import torch

        if UPSTREAM in call.kwargs or "offset" in call.kwargs:
            return super().torch(case, call)
        return torch.nn.functional.rms_norm(call.args[0], call.args[1], call.args[2], call.args[3])


SUITE = RmsNorm()
