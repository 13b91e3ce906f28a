# SPDX-License-Identifier: MIT
"""Ops defined by a torch expression: written once, it is the fp64 reference, PyTorch's side and the gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite

UPSTREAM = "upstream"
"""The keyword under which a backward case's call carries the gradients of its results; the op does not see it."""


class FormulaSuite(OpSuite):
    """An op given by `formula`.

    A call with ``UPSTREAM`` among its keyword arguments runs forward and backward; its outputs are the forward ones
    and then the gradients of the arguments at ``differentiable``.
    """

    differentiable: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def formula(self, case: Case, call: Call) -> Any:
        """The op's result, or a tuple of them, in whatever dtype the arguments have; arguments are not written to."""

    def invoke(self, call: Call, backend: str | None) -> Any:
        """Runs the op itself; a factory's suite calls what the factory returns."""
        return super().call(call, backend)

    def reference(self, case: Case, call: Call) -> Any:
        """`formula` in fp64."""
        return _differentiated(lambda wide: self.formula(case, wide), widened(call), self.differentiable)

    def torch(self, case: Case, call: Call) -> Any:
        """`formula` in the case's dtype."""
        return _differentiated(lambda same: self.formula(case, same), call, self.differentiable)

    def call(self, call: Call, backend: str | None = None) -> Any:
        """See the class."""
        return _differentiated(lambda given: self.invoke(given, backend), call, self.differentiable)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """All of them."""
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def factory(suite: OpSuite, backend: str | None) -> Any:
    """What the op, a factory without required arguments, returns."""
    return OpSuite.call(suite, Call(()), backend)


def invoke_made(suite: OpSuite, call: Call, backend: str | None) -> Any:
    """Calls the function that the op, a factory without required arguments, returns."""
    return factory(suite, backend)(*call.args, **call.kwargs)


def widened(call: Call) -> Call:
    """The call with every floating-point tensor in fp64."""
    import torch

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_complex():
            return value.to(torch.complex128)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(torch.float64)
        return type(value)(wide(one) for one in value) if isinstance(value, (tuple, list)) else value

    return Call(tuple(wide(one) for one in call.args), {name: wide(one) for name, one in call.kwargs.items()})


def _differentiated(run: Callable[[Call], Any], call: Call, positions: tuple[int, ...]) -> Any:
    upstream = call.kwargs.get(UPSTREAM)
    if upstream is None:
        return run(call)
    import torch

    args = list(call.args)
    with torch.enable_grad():
        for position in positions:
            args[position] = args[position].detach().requires_grad_()
        result = run(Call(tuple(args), {name: one for name, one in call.kwargs.items() if name != UPSTREAM}))
        results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        gradients = upstream if isinstance(upstream, tuple) else (upstream,)
        found = torch.autograd.grad(results[: len(gradients)], [args[position] for position in positions], gradients)
    return (*(one.detach() for one in results), *found)
