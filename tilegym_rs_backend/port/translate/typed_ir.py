# SPDX-License-Identifier: MIT
"""Run cuTile Python's front end on a captured launch and keep its final typed IR.

The IR is read after all of the front end's passes: types, tokens, hoisting and floor corrections are explicit, and one
operation becomes one Rust statement. Two things are gone by then and are recorded on the way: names of Python
variables (they vanish with the assign operations) and where a number came from (``provenance``). This hooks private
functions of cuda-tile; ``installed.check_cuda_tile`` names the versions whose internals are known.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.port.capture import CapturedLaunch
from tilegym_rs_backend.port.installed import check_cuda_tile
from tilegym_rs_backend.port.signature import BYTECODE_VERSION
from tilegym_rs_backend.port.signature import signature
from tilegym_rs_backend.port.translate.provenance import is_derived
from tilegym_rs_backend.port.translate.provenance import named
from tilegym_rs_backend.port.translate.provenance import with_expression
from tilegym_rs_backend.port.translate.refuse import Refused

# Tuples and dataclasses of tensors flatten to several variables each.
_PARAMETERS = frozenset({"ArrayConstraint", "ConstantConstraint", "ListConstraint", "ScalarConstraint"})


@dataclass(frozen=True)
class KernelParameter:
    """A parameter that is no constant: its name, position, constraint, and the IR variables it flattens to."""

    name: str
    position: int
    constraint: Any
    variables: tuple[Any, ...]


@dataclass(frozen=True)
class TypedKernel:
    """The final IR of one kernel for one specialization."""

    body: Any
    parameters: tuple[KernelParameter, ...]
    names: dict[str, str]
    constants: dict[str, Any]


class _Uncached(dict[Any, Any]):
    """Tile types are interned by shape, and equal shapes of different provenance must stay apart."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep nothing."""


def typed_kernel(launch: CapturedLaunch) -> TypedKernel:
    """Return the typed IR of a launch's kernel.

    Raises:
        Refused: a parameter of a kind that has no Rust form.
        ToolchainError: cuda-tile is of a version whose internals are not known.
        CompileError: cuTile Python refuses the kernel or an argument.
    """
    check_cuda_tile()
    import cuda.tile._compile as front
    from cuda.tile.compilation import ConstantConstraint

    wanted = signature(launch)
    for name, constraint in zip(launch.parameters, wanted.parameters, strict=True):
        if type(constraint).__name__ not in _PARAMETERS:
            kind = type(constraint).__name__.removesuffix("Constraint").lower()
            raise Refused("parameter", f"{name} is a {kind}, which has no Rust form")
        if isinstance(constraint, ConstantConstraint):
            # The dataclass is frozen, and its constructor keeps plain numbers only.
            object.__setattr__(constraint, "value", named(name, constraint.value))
    kept: list[tuple[Any, Any]] = []
    names: dict[str, str] = {}
    version = front.parse_bytecode_version(BYTECODE_VERSION)
    with front._compiler_lock, _hooks(kept, names):
        try:
            front.compile_tile(
                launch.kernel._annotated_function,
                [wanted],
                sm_arch=launch.arch,
                compiler_options=launch.kernel._compiler_options,
                bytecode_version=version,
                return_final_ir=True,
                return_cubin=False,
            )
        except Exception as error:
            raise CompileError(
                f"cuTile Python's front end refused kernel {launch.name} for {launch.arch}: {error}"
            ) from error
    [(body, flattened)] = kept
    pairs = iter(flattened)
    parameters = []
    for position, (name, constraint) in enumerate(zip(launch.parameters, wanted.parameters, strict=True)):
        if isinstance(constraint, ConstantConstraint):
            continue
        variables, _ = next(pairs)
        parameters.append(KernelParameter(name, position, constraint, tuple(variables)))
    return TypedKernel(body, tuple(parameters), names, dict(launch.constants))


@contextlib.contextmanager
def _hooks(kept: list[tuple[Any, Any]], names: dict[str, str]) -> Iterator[None]:
    import cuda.tile._compile as front
    from cuda.tile._ir import core_ops
    from cuda.tile._ir import type as types

    transform, eliminate = front._transform_ir, front.eliminate_assign_ops
    canonicalize = core_ops.canonicalize_const_value_for_type
    cache = types._tile_ty_cache

    def keeping(body: Any, version: Any, constraints: Any) -> Any:
        result = transform(body, version, constraints)
        kept.append((body, constraints))
        return result

    def recording(root: Any) -> None:
        _record_names(root, core_ops.Assign, names)
        eliminate(root)

    def keeping_expression(value: Any, ty: Any) -> Any:
        result = canonicalize(value, ty)
        # A number that wrapped around is no longer what the expression says.
        same = type(result) is float or result == value
        return with_expression(result, value.expression) if is_derived(value) and same else result

    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("cuda.tile") and getattr(module, "canonicalize_const_value_for_type", None) is canonicalize
    ]
    front._transform_ir, front.eliminate_assign_ops = keeping, recording
    types._tile_ty_cache = _Uncached()
    for module in users:
        module.canonicalize_const_value_for_type = keeping_expression  # type: ignore[attr-defined]
    try:
        yield
    finally:
        front._transform_ir, front.eliminate_assign_ops = transform, eliminate
        types._tile_ty_cache = cache
        for module in users:
            module.canonicalize_const_value_for_type = canonicalize  # type: ignore[attr-defined]


def _record_names(block: Any, assign: type, names: dict[str, str]) -> None:
    for operation in block:
        if isinstance(operation, assign):
            names.setdefault(operation.value.name, operation.result_var.get_original_name())  # type: ignore[attr-defined]
        for nested in operation.nested_blocks:
            _record_names(nested, assign, names)
