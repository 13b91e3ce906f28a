# SPDX-License-Identifier: MIT
"""Parity of `fmha_variant`: attention with bias, window, random mask, lengths, another value size.

The shape is (batch, heads, key heads, queries, keys, head size). Rows after a sequence's queries have no defined value
(see `fmha_varlen`): they are not compared.

TileGym 1.5.1 fault, not in any case: with ``layout="nsbd"`` cuTile Python gives the load of its keys shape and index
in the tensor's order where the permuted one is wanted. Results are right only where the tile of keys is as wide as the
head and holds all keys; the first of its configurations (128 keys) is wrong for every head of 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._attention import both
from pytest_cutile_rs.cases._attention import within
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._lengths import lengths
from pytest_cutile_rs.cases._lengths import own_rows
from pytest_cutile_rs.cases._lengths import prefix
from pytest_cutile_rs.cases._lengths import rule
from pytest_cutile_rs.cases._tensors import tensor

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed
    from pytest_cutile_rs.cases._attention import Score

_OP = "fmha_variant"
_OURS = ("lengths", "random", "value_dim")
"""What a case's parameters say about its inputs; the others are the op's own arguments."""


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    queries: int,
    keys: int = 0,
    dim: int = 64,
    params: Mapping[str, object] | None = None,
    **more: Any,
) -> Case:
    given = {"is_causal": True, **(params or {})}
    tags = ["causal" if given["is_causal"] else "full"]
    for name, value in (params or {}).items():
        if name != "is_causal":
            tags.append(value if isinstance(value, str) else f"{name.split('_')[0]}{'' if value is True else value}")
    return attention_case(_OP, dtype, heads, queries, keys or queries, dim, *tags, params=given, **more)


def _modes() -> list[Case]:
    """TileGym has no test of it: each mode alone, then together."""
    full = {"is_causal": False}
    heads = (2, 2, 2)
    found = [
        _case("f16", heads, 48, quick=True),
        _case("f16", heads, 48, params=full),
        _case("f16", heads, 256, dim=32, params=full, structural=False),
    ]
    for bias in ("vector", "matrix", "alibi"):
        found.append(_case("f16", heads, 65, params={"bias_type": bias}, quick=bias == "matrix"))
        found.append(_case("bf16", heads, 40, 72, params={"bias_type": bias, **full}, structural=False))
    found += [
        _case("f16", heads, 200, params={"window_size": 16}),
        _case("f16", heads, 200, params={"window_size": 16, **full}),
        _case("bf16", heads, 70, params={"random": True}),
        _case("f16", (3, 2, 1), 72, params={"lengths": "qkv"}),
        _case("f16", (3, 2, 1), 72, params={"lengths": "kv", **full}, structural=False),
        _case("f16", heads, 64, params={"value_dim": 32}),
        _case("bf16", (2, 4, 2), 80, params={"bias_type": "matrix", "window_size": 20}, structural=False),
        _case("f16", (2, 4, 2), 60, 90, params={"lengths": "qkv", **full}, structural=False),
        _case("bf16", (3, 4, 1), 100, params={"lengths": "qkv", "bias_type": "alibi", "window_size": 30}),
        _case("f16", (1, 1, 1), 130, params={"scaling": 0.05}, dim=128, structural=False),
    ]
    return found


def _timed() -> list[Case]:
    return [
        _case(dtype, (4, 32, 8), 2048, dim=128, params=params, perf=True, structural=False)
        for dtype in ("f16", "bf16")
        for params in ({}, {"bias_type": "alibi"}, {"window_size": 256})
    ]


class FmhaVariant(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_modes(), *_timed()])

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v and the bias, mask and lengths that the case has."""
        import torch

        batch, heads, kv_heads, queries, keys, _ = case.shape
        params = case.kwargs
        kwargs: dict[str, Any] = {name: value for name, value in params.items() if name not in _OURS}
        q, k, v = self.qkv(case, device, seed)
        if params.get("value_dim"):
            v = tensor((batch, kv_heads, keys, int(str(params["value_dim"]))), case.dtype, device, seed + 2)
        bias = params.get("bias_type")
        if bias == "alibi":
            kwargs["bias"] = torch.tensor([2.0 ** -(head + 1) for head in range(heads)], device=device).to(q.dtype)
        elif bias:
            rows = queries if bias == "matrix" else 1
            kwargs["bias"] = tensor((batch, heads, rows, keys), case.dtype, device, seed + 3)
        if params.get("random"):
            blocked = tensor((batch, heads, queries, keys), "f32", device, seed + 4) > 0.5
            # A query always sees itself: a row without any key has no defined value.
            own = torch.arange(keys, device=device)[None, :] == torch.arange(queries, device=device)[:, None]
            kwargs["random_mask"] = (blocked & ~own).to(torch.int8)
        kwargs |= lengths(str(params.get("lengths", "")), batch, queries, keys, device)
        return Call((q, k, v), kwargs)

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """Lengths, causality, window and random mask."""
        queries, keys = case.shape[3:5]
        blocked = call.kwargs.get("random_mask")
        window = int(str(case.kwargs.get("window_size", 0)))
        return both(
            rule(call, queries, keys, self.is_causal(case)),
            within(window, window, prefix(call, queries, keys)) if window else None,
            None if blocked is None else lambda rows, columns: blocked[:, :, rows, columns] == 0,
        )

    def score(self, case: Case, call: Call) -> Score | None:
        """The bias; alibi's is minus a slope per head times the distance."""
        bias, kind = call.kwargs.get("bias"), case.kwargs.get("bias_type")
        if bias is None:
            return None
        if kind == "alibi":
            slopes = bias.double().view(1, -1, 1, 1)
            start = prefix(call, *case.shape[3:5])
            return lambda scores, rows, columns: scores - slopes * (rows + start - columns).abs()
        if kind == "vector":
            return lambda scores, rows, columns: scores + bias.double()
        return lambda scores, rows, columns: scores + bias.double()[:, :, rows, columns]

    def reference(self, case: Case, call: Call) -> Any:
        """Of the rows that sequences have."""
        return own_rows(call, super().reference(case, call))

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention`, or two products where there is a bias."""
        return own_rows(call, super().torch(case, call))

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The rows that sequences have."""
        return (own_rows(call, result),)


SUITE = FmhaVariant()
