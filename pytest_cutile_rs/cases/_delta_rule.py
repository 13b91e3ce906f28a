# SPDX-License-Identifier: MIT
"""The gated delta rule, for the two ops that compute it.

A state of K x V per head is decayed by ``exp(g)``, corrected towards the value that the key shall give, and read by the
query:

    S = exp(g_t) S;    S = S + k_t (beta_t (v_t - S^T k_t))^T;    out_t = S^T q_t / sqrt(K)

A case's shape is (batch, tokens, query and key heads, value heads, K, V).
"""

from __future__ import annotations

import math
from typing import Any

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.cases._tensors import tensor

_FLAGS = {"init": "i", "final": "f", "l2": "n"}


def delta_case(op: str, dtype: str, shape: tuple[int, ...], *flags: str, chunk: int = 0, **more: Any) -> Case:
    """Flags: ``init`` (a state to begin with), ``final`` (the last one is returned), ``l2`` (q and k normalised)."""
    params: tuple[tuple[str, object], ...] = tuple((flag, flag in flags) for flag in _FLAGS)
    tags = [*flags, f"chunk{chunk}" if chunk else "", more.get("data", "")]
    if chunk:
        params += (("chunk_size", chunk),)
    if "persistent" in more:
        params += (("persistent", more["persistent"]),)
        tags.append("persistent" if more.pop("persistent") else "standard")
    name = "-".join([dtype, "x".join(map(str, shape)), *(tag for tag in tags if tag)])
    return Case(op, name, dtype, shape, params=params, **more)


class DeltaRuleSuite(OpSuite):
    """An op over q, k, v, g, beta; outputs are the result and, if asked for, the last state."""

    nan_policy = "a NaN in a query makes its token NaN; one in key, value or gates, its chunk and all later ones"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v a tenth of normal, so that the state stays bounded; g below zero, beta between zero and one."""
        batch, tokens, heads, value_heads, k_size, v_size = case.shape
        dtype, params = case.dtype, case.kwargs
        q = tensor((batch, tokens, heads, k_size), dtype, device, seed, data=case.data).mul_(0.1)
        k = tensor((batch, tokens, heads, k_size), dtype, device, seed + 1).mul_(0.1)
        v = tensor((batch, tokens, value_heads, v_size), dtype, device, seed + 2).mul_(0.1)
        g = tensor((batch, tokens, value_heads), dtype, device, seed + 3).abs_().mul_(-0.5)
        beta = tensor((batch, tokens, value_heads), dtype, device, seed + 4).sigmoid_()
        kwargs: dict[str, Any] = {"output_final_state": params["final"], "use_qk_l2norm_in_kernel": params["l2"]}
        if params["init"]:
            state = tensor((batch, value_heads, k_size, v_size), "f32", device, seed + 5)
            kwargs["initial_state"] = state.mul_(0.01)
        kwargs |= {name: params[name] for name in ("chunk_size", "persistent") if name in params}
        return Call((q, k, v, g, beta), kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """The recurrence, token by token, in fp64."""
        import torch

        q, k, v, g, beta, state = self._prepared(case, call, torch.float64)
        results = []
        for token in range(q.shape[2]):
            key, value = k[:, :, token, :, None], v[:, :, token, None, :]
            state = state * g[:, :, token, None, None].exp()
            correction = beta[:, :, token, None, None] * (value - (state * key).sum(dim=2, keepdim=True))
            state = state + key * correction
            results.append((state * q[:, :, token, :, None]).sum(dim=2))
        return self._with_state(case, torch.stack(results, dim=1), state)

    def torch(self, case: Case, call: Call) -> Any:
        """Chunks of 64 tokens in fp32: a triangular system within a chunk, and the state between them."""
        import torch

        q, k, v, g, beta, state = self._prepared(case, call, torch.float32)
        results = []
        for first in range(0, q.shape[2], 64):
            at = slice(first, first + 64)
            decay = g[:, :, at].cumsum(dim=-1)
            ratio = (decay[..., :, None] - decay[..., None, :]).tril().exp().tril()
            weight = beta[:, :, at, None]
            system = weight * (k[:, :, at] @ k[:, :, at].transpose(-1, -2)) * ratio
            wanted = weight * (v[:, :, at] - (k[:, :, at] * decay.exp()[..., None]) @ state)
            update = torch.linalg.solve_triangular(system.tril(-1), wanted, upper=False, unitriangular=True)
            own = (q[:, :, at] @ k[:, :, at].transpose(-1, -2)) * ratio
            results.append((q[:, :, at] * decay.exp()[..., None]) @ state + own @ update)
            last = decay[..., -1:]
            keys = k[:, :, at] * (last - decay).exp()[..., None]
            state = state * last.exp()[..., None] + keys.transpose(-1, -2) @ update
        found = torch.cat(results, dim=2).transpose(1, 2).to(call.args[0].dtype)
        return self._with_state(case, found, state)

    @staticmethod
    def _prepared(case: Case, call: Call, dtype: Any) -> tuple[Any, ...]:
        """q, k, v, g, beta with heads before tokens and as many heads as values have, and the first state."""
        import torch

        batch, _, heads, value_heads, k_size, v_size = case.shape
        q, k, v, g, beta = (operand.to(dtype).transpose(1, 2) for operand in call.args)
        if case.kwargs["l2"]:
            q, k = (x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + 1e-6) for x in (q, k))
        q, k = (x.repeat_interleave(value_heads // heads, dim=1) for x in (q, k))
        state = call.kwargs.get("initial_state")
        if state is None:
            state = torch.zeros(batch, value_heads, k_size, v_size, device=q.device)
        return q / math.sqrt(k_size), k, v, g, beta, state.to(dtype)

    @staticmethod
    def _with_state(case: Case, found: Any, state: Any) -> Any:
        return (found, state) if case.kwargs["final"] else found

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The result, and the last state where the case asks for it."""
        return tuple(result) if case.kwargs["final"] else (result[0],)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The state is f32."""
        return "f32" if output else case.dtype

    def bytes_moved(self, case: Case) -> int:
        """q, k, v, both gates, the result, and the states there are, once."""
        batch, tokens, heads, value_heads, k_size, v_size = case.shape
        per_token = 2 * heads * k_size + 2 * value_heads * v_size + 2 * value_heads
        states = int(bool(case.kwargs["init"])) + int(bool(case.kwargs["final"]))
        return batch * (tokens * per_token * ITEMSIZE[case.dtype] + 4 * states * value_heads * k_size * v_size)

    def flops(self, case: Case) -> int:
        """Decay, two products and one update of the state for each token."""
        batch, tokens, _, value_heads, k_size, v_size = case.shape
        return 7 * batch * tokens * value_heads * k_size * v_size
