# SPDX-License-Identifier: MIT
"""Mamba-2's state-space scan, for the two ops that compute it and its gradients.

Per head, a state of P x N is decayed and fed by the token, and read by ``c``:

    S = exp(a dt_t) S + dt_t x_t b_t^T;    out_t = S c_t + d x_t

``b`` and ``c`` are shared by the heads of a group. A case's shape is (batch, tokens, heads, groups, P, N), the tokens a
multiple of its ``chunk_size``. cuTile Python takes heads in fours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.cases._tensors import tensor

_MANY_TOKENS = 512
"""From here on a gradient through every token's state would keep tens of gigabytes."""


def ssd_case(op: str, dtype: str, shape: tuple[int, ...], chunk: int = 64, **more: Any) -> Case:
    """A case named after its shape and chunk."""
    tags = [f"chunk{chunk}", more.get("data", "")]
    name = "-".join([dtype, "x".join(map(str, shape)), *(tag for tag in tags if tag)])
    return Case(op, name, dtype, shape, params=(("chunk_size", chunk),), **more)


class SsdSuite(OpSuite):
    """An op over x, a, b, c, d, dt and the first state."""

    nan_policy = "a NaN in x makes all tokens of its chunk and of later ones NaN: what is masked is multiplied by zero"
    rounding_policy = "fp32 sums; operands of products, and states between chunks, rounded to the inputs' dtype"

    def operands(self, case: Case, device: str, seed: int) -> tuple[Any, ...]:
        """x, a, b, c, d, dt, first state; ``b`` and ``c`` small enough that their product is near one."""
        batch, tokens, heads, groups, p, n = case.shape
        x = tensor((batch, tokens, heads, p), case.dtype, device, seed, data=case.data)
        a = tensor((heads,), "f32", device, seed + 1).abs_().add_(0.5).neg_()
        b = tensor((batch, tokens, groups, n), case.dtype, device, seed + 2).mul_(n**-0.25)
        c = tensor((batch, tokens, groups, n), case.dtype, device, seed + 3).mul_(n**-0.25)
        d = tensor((heads,), "f32", device, seed + 4)
        dt = tensor((batch, tokens, heads), "f32", device, seed + 5).abs_().mul_(0.1).add_(0.01)
        state = tensor((batch, heads, p, n), "f32", device, seed + 6)
        return x, a, b, c, d, dt, state

    def exact(self, case: Case) -> Callable[..., tuple[Any, Any]]:
        """The function that references are computed by, of operands in fp64: by chunks where tokens are many."""
        return partial(self.chunked, case) if case.shape[1] >= _MANY_TOKENS else self.recurrent

    @staticmethod
    def recurrent(x: Any, a: Any, b: Any, c: Any, d: Any, dt: Any, state: Any) -> tuple[Any, Any]:
        """The recurrence token by token: the result (batch, tokens, heads, P) and the last state."""
        import torch

        heads = x.shape[2]
        b, c = (operand.repeat_interleave(heads // operand.shape[2], dim=2) for operand in (b, c))
        results = []
        for token in range(x.shape[1]):
            step = dt[:, token, :, None, None]
            fed = step * x[:, token, :, :, None] * b[:, token, :, None, :]
            state = (a[:, None, None] * step).exp() * state + fed
            results.append((state * c[:, token, :, None, :]).sum(dim=-1))
        return torch.stack(results, dim=1) + d[:, None] * x, state

    @staticmethod
    def chunked(case: Case, x: Any, a: Any, b: Any, c: Any, d: Any, dt: Any, state: Any) -> tuple[Any, Any]:
        """The same through products over chunks, in fp32, or fp64 where x is."""
        import torch

        heads, chunk = x.shape[2], int(str(case.kwargs["chunk_size"]))
        b, c = (operand.repeat_interleave(heads // operand.shape[2], dim=2) for operand in (b, c))
        wide = torch.promote_types(x.dtype, torch.float32)
        x, b, c, step = (operand.to(wide).transpose(1, 2) for operand in (x, b, c, dt))
        results = []
        for first in range(0, x.shape[2], chunk):
            at = slice(first, first + chunk)
            decay = (a[:, None] * step[:, :, at]).cumsum(dim=-1)
            ratio = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
            fed = x[:, :, at] * step[:, :, at, None]
            own = (c[:, :, at] @ b[:, :, at].transpose(-1, -2)) * ratio
            carried = (c[:, :, at] * decay.exp()[..., None]) @ state.transpose(-1, -2)
            results.append(own @ fed + carried + d[:, None, None] * x[:, :, at])
            last = decay[..., -1:]
            state = state * last.exp()[..., None]
            state = state + (fed * (last - decay).exp()[..., None]).transpose(-1, -2) @ b[:, :, at]
        return torch.cat(results, dim=2).transpose(1, 2), state

    def bytes_moved(self, case: Case) -> int:
        """x, b, c, dt, the result and both states once."""
        batch, tokens, heads, groups, p, n = case.shape
        return batch * (
            tokens * ((2 * heads * p + 2 * groups * n) * ITEMSIZE[case.dtype] + 4 * heads) + 8 * heads * p * n
        )

    def flops(self, case: Case) -> int:
        """Four products of a chunk: c b^T, its use, reading the state, feeding the state."""
        batch, tokens, heads, _, p, n = case.shape
        chunk = int(str(case.kwargs["chunk_size"]))
        return 2 * batch * heads * tokens * (chunk * (p + n) + 2 * math.prod((p, n)))
