# SPDX-License-Identifier: MIT
"""Rust parameters of a kernel: a tensor is one ``&Tensor``, or flattened where the text needs more than that gives.

cuTile Python passes a tensor as its pointer, extents and strides. A ``&Tensor`` does the same, but its strides cannot
be read and its extents are all dynamic: a tensor whose strides are used in arithmetic, or which has an axis of extent
1 or a unit stride before its last axis (facts that cuTile Python compiles in), is written as ``x: *mut E, x_n0: i32,
.., x_s0: i32, ..`` and marked ``#[tile::flattened(x = RANK)]``; the library then takes the same descriptor for it and
specializes it the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import Any

from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.emitter import Value
from tilegym_rs_backend.port.translate.origins import Origins
from tilegym_rs_backend.port.translate.typed_ir import KernelParameter
from tilegym_rs_backend.tensors import MAX_RANK

_ASSUMPTIONS = ("AssumeDivBy", "AssumeBounded")


@dataclass(frozen=True)
class Parameter:
    """One Rust parameter and how a launch fills it.

    Attributes:
        name: in the text.
        type: its Rust type.
        kind: ``"tensor"`` (a descriptor), ``"pointer"`` (a descriptor, flattened or of rank 0), ``"extent"`` and
            ``"stride"`` (part of the flattened descriptor before them), ``"scalar"``, or of a list of tensors
            ``"list"`` (a device tensor of i64 words) and ``"length"``.
        argument: index into the launch's arguments.
        axis: of an extent or stride.
        folded: an extent or stride that the tensor's descriptor brings. Above the rank of a descriptor, where cuTile
            Python assumes nothing of extents and strides either, they are scalars of their own.
    """

    name: str
    type: str
    kind: str
    argument: int
    axis: int = 0
    folded: bool = False


@dataclass(frozen=True)
class Holds:
    """What a launch's tensor must satisfy for the text to be right; the library refuses a launch that does not.

    Attributes:
        extents, strides: the value that is compiled in, None where any value may come.
        pointer_16: the address must be a multiple of 16 bytes.
        extents_16, strides_16: axes whose extent must be a multiple of 16, whose stride a multiple of 16 bytes.
    """

    extents: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    pointer_16: bool = False
    extents_16: tuple[int, ...] = ()
    strides_16: tuple[int, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether every launch satisfies it."""
        known = any(value is not None for value in (*self.extents, *self.strides))
        return not (known or self.pointer_16 or self.extents_16 or self.strides_16)


@dataclass(frozen=True)
class _Role:
    """What an IR variable that comes from a tensor parameter is."""

    tensor: str
    kind: str
    axis: int = 0


@dataclass
class Parameters:
    """The parameters of one kernel, declared to an emitter."""

    declared: list[Parameter] = field(default_factory=list)
    flattened: dict[str, int] = field(default_factory=dict)
    holds: dict[str, Holds] = field(default_factory=dict)
    _roles: dict[str, _Role] = field(default_factory=dict)
    _tensors: dict[str, KernelParameter] = field(default_factory=dict)
    _rust: dict[str, str] = field(default_factory=dict)

    @property
    def tensor_names(self) -> frozenset[str]:
        """Rust names of tensors."""
        return frozenset(self._rust.values())


def declare(emitter: Emitter, kernel_parameters: Sequence[KernelParameter]) -> Parameters:
    """Declare all parameters, bind their IR variables, and emit what the body needs of them first."""
    made = Parameters()
    for parameter in kernel_parameters:
        _roles(made, parameter)
    _through_assumptions(made, emitter.body)
    flat = {name for name, parameter in made._tensors.items() if not _fits_reference(parameter)}
    flat |= {role.tensor for role in _explicit_uses(made, emitter.body) if role.kind == "stride"}
    for parameter in kernel_parameters:
        _declare(made, emitter, parameter, parameter.name in flat)
    for name, parameter in made._tensors.items():
        made.holds[made._rust[name]] = _compiled_in(parameter) if name in flat else _anything(parameter)
    emitter.tensor_part = lambda variable: _part(made, variable)
    emitter.whole_tensor = lambda operation: _whole_tensor(made, operation)
    _bind_references(made, emitter, flat)
    _require_divisibility(made, emitter)
    return made


def _is_array(constraint: Any) -> bool:
    return type(constraint).__name__ == "ArrayConstraint"


def _roles(made: Parameters, parameter: KernelParameter) -> None:
    if not _is_array(parameter.constraint):
        return
    made._tensors[parameter.name] = parameter
    rank = parameter.constraint.ndim
    pointer, *rest = parameter.variables
    made._roles[pointer.name] = _Role(parameter.name, "pointer")
    for axis, (extent, stride) in enumerate(zip(rest[:rank], rest[rank:], strict=True)):
        made._roles[extent.name] = _Role(parameter.name, "extent", axis)
        made._roles[stride.name] = _Role(parameter.name, "stride", axis)


def _through_assumptions(made: Parameters, body: Any) -> None:
    """A parameter with a fact attached is still that parameter."""
    for operation in body:
        if type(operation).__name__ in _ASSUMPTIONS and operation.x.name in made._roles:
            made._roles[operation.result_var.name] = made._roles[operation.x.name]


def _fits_reference(parameter: KernelParameter) -> bool:
    constraint = parameter.constraint
    if not 0 < constraint.ndim <= MAX_RANK or str(constraint.index_dtype) != "int32":
        return False
    if any(extent is not None for extent in constraint.shape_constant):
        return False
    *before, last = constraint.stride_constant
    return all(stride is None for stride in before) and last in (None, 1)


def _is_whole(made: Parameters, operation: Any) -> bool:
    """Whether a MakeTensorView is just a parameter: its own address and extents."""
    if type(operation).__name__ != "MakeTensorView":
        return False
    base = made._roles.get(operation.base_ptr.name)
    if base is None or base.kind != "pointer":
        return False
    found = (made._roles.get(v.name) for v in operation.shape)
    return all(
        role is not None and (role.tensor, role.kind, role.axis) == (base.tensor, "extent", axis)
        for axis, role in enumerate(found)
    )


def _explicit_uses(made: Parameters, body: Any) -> Iterator[_Role]:
    """Uses of a tensor's parts outside views of the whole tensor and outside facts about them."""
    for operation in body.traverse():
        if type(operation).__name__ in _ASSUMPTIONS or _is_whole(made, operation):
            continue
        for operand in operation.all_inputs():
            if operand.name in made._roles:
                yield made._roles[operand.name]


def _declare(made: Parameters, emitter: Emitter, parameter: KernelParameter, flat: bool) -> None:
    constraint, position = parameter.constraint, parameter.position
    name = emitter.names.fresh(parameter.name)
    kind = type(constraint).__name__
    if kind == "ScalarConstraint":
        [variable] = parameter.variables
        made.declared.append(Parameter(name, emitter.type_of(variable, Form.SCALAR), "scalar", position))
        emitter.alias(variable, name, Form.SCALAR)
        return
    if kind == "ListConstraint":
        base, length = parameter.variables
        count = emitter.names.fresh(f"{name}_len")
        made.declared.append(Parameter(name, "*mut i64", "list", position))
        made.declared.append(Parameter(count, "i32", "length", position))
        emitter.alias(length, count, Form.SCALAR)
        pointer = emitter.temporary(f"{name}_ptr", "PointerTile<*mut i64, { [] }>", f"pointer_to_tile({name})")
        emitter.alias(base, pointer)
        return
    made._rust[parameter.name] = name
    element, rank = emitter.element(constraint.dtype), constraint.ndim
    if not flat:
        unknown = ", ".join("-1" for _ in range(rank))
        made.declared.append(Parameter(name, f"&Tensor<{element}, {{ [{unknown}] }}>", "tensor", position))
        return
    folded = 0 < rank <= MAX_RANK
    if folded:
        made.flattened[name] = rank
    made.declared.append(Parameter(name, f"*mut {element}", "pointer", position))
    pointer, *rest = parameter.variables
    for index, variable in enumerate(rest):
        part, axis = ("extent", index) if index < rank else ("stride", index - rank)
        short = f"{name}_{part[0] if part == 'stride' else 'n'}{axis}"
        emitter.names.take(short)
        made.declared.append(Parameter(short, emitter.type_of(variable, Form.SCALAR), part, position, axis, folded))
        emitter.alias(variable, short, Form.SCALAR)
    address = emitter.temporary(f"{name}_ptr", f"PointerTile<*mut {element}, {{ [] }}>", f"pointer_to_tile({name})")
    emitter.alias(pointer, address)


def _anything(parameter: KernelParameter) -> Holds:
    return Holds((None,) * parameter.constraint.ndim, (None,) * parameter.constraint.ndim)


def _compiled_in(parameter: KernelParameter) -> Holds:
    constraint = parameter.constraint
    return Holds(tuple(constraint.shape_constant), tuple(constraint.stride_constant))


def _bind_references(made: Parameters, emitter: Emitter, flat: set[str]) -> None:
    """Read address and extents of `&Tensor` parameters once, before the body, where it uses them."""
    parts: dict[_Role, str] = {}
    used = set(_explicit_uses(made, emitter.body))
    for variable, role in made._roles.items():
        if role.tensor in flat:
            continue
        if role in used and role not in parts:
            parts[role] = _read_part(made, emitter, role)
        if role in parts:
            form = Form.SCALAR if role.kind == "extent" else Form.TILE
            emitter.values[variable] = Value(parts[role], form)


def _read_part(made: Parameters, emitter: Emitter, role: _Role) -> str:
    name = made._rust[role.tensor]
    if role.kind == "extent":
        return emitter.temporary(f"{name}_n{role.axis}", "i32", f"get_shape_dim({name}.shape(), {role.axis}i32)")
    element = emitter.element(made._tensors[role.tensor].constraint.dtype)
    return emitter.temporary(f"{name}_ptr", f"PointerTile<*mut {element}, {{ [] }}>", f"get_tensor_base({name})")


def _part(made: Parameters, variable: Any) -> str | None:
    """``"pointer"``, ``"extent"`` or ``"stride"`` of a tensor parameter, None for anything else."""
    role = made._roles.get(variable.name)
    return role.kind if role else None


def _whole_tensor(made: Parameters, operation: Any) -> str | None:
    """The Rust name of the `&Tensor` that a MakeTensorView is, None if it has to be made."""
    if not _is_whole(made, operation):
        return None
    name = made._rust[made._roles[operation.base_ptr.name].tensor]
    references = {p.name for p in made.declared if p.kind == "tensor"}
    return name if name in references else None


def _require_divisibility(made: Parameters, emitter: Emitter) -> None:
    """A divisor in the text, of a computed value, is right only for launches of the same divisibility class.

    The tensors whose parts the value was computed from must then be as divisible as this launch's.
    """
    origins = Origins(emitter, made._roles)
    for operation in emitter.body.traverse():
        if type(operation).__name__ != "AssumeDivBy" or operation.x.name in made._roles:
            continue
        for tensor in origins.of(operation.x.name):
            name, constraint = made._rust[tensor], made._tensors[tensor].constraint
            made.holds[name] = replace(
                made.holds[name],
                pointer_16=constraint.base_addr_divisible_by == 16,
                extents_16=_divisible(constraint.shape_divisible_by, constraint.shape_constant),
                strides_16=_divisible(constraint.stride_divisible_by, constraint.stride_constant),
            )


def _divisible(divisors: Sequence[int], known: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(
        axis for axis, (by, value) in enumerate(zip(divisors, known, strict=True)) if by and by > 1 and value is None
    )
