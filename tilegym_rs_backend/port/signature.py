# SPDX-License-Identifier: MIT
"""From a captured launch's arguments to what cuTile Python's run-time front end would compile for them.

The front end itself derives this in C++ from live CUDA tensors; here the same facts are read off tensors on any
device, ``meta`` included. tests/port compares both, argument by argument.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from tilegym_rs_backend.errors import CompileError

if TYPE_CHECKING:
    from tilegym_rs_backend.port.capture import CapturedLaunch

BYTECODE_VERSION = "13.4"
# Above this rank the front end assumes nothing about extents and strides.
_MAX_SPECIALIZED_RANK = 5
_DIVISOR = 16
_I32_MAX = 2**31 - 1
_DTYPES = {
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float64": "float64",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "bool": "bool_",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "float8_e8m0fnu": "float8_e8m0fnu",
}


def constant_parameters(kernel: Any) -> list[bool]:
    """For each parameter of a ``cuda.tile.kernel``: whether it is a compile-time constant."""
    return [_is_constant(node) for node in kernel._annotated_function.parameter_annotations]


def _is_constant(node: Any) -> bool:
    if hasattr(node, "constant"):
        return bool(node.constant)
    inner = [node.each] if hasattr(node, "each") else list(node.items)
    return bool(inner) and all(_is_constant(item) for item in inner)


def resolve_hints(kernel: Any, arch: str) -> dict[str, int]:
    """The compiler hints of a kernel in force for ``arch``; hints left to the compiler are absent."""
    options = kernel._compiler_options
    hints: dict[str, int] = {}
    for name in ("occupancy", "num_ctas", "num_worker_warps", "opt_level"):
        value = getattr(options, name)
        if hasattr(value, "_by_target"):
            value = value._by_target.get(arch, value._default)
        if isinstance(value, int) and (name, value) != ("opt_level", 3):
            hints[name] = value
    return hints


def signature(launch: CapturedLaunch, *, singleton_extents: bool = True) -> Any:
    """Derive the ``KernelSignature`` that a launch with these arguments is compiled for.

    Args:
        launch: the captured launch.
        singleton_extents: extents of 1 become compile-time constants and leave the parameter list, as at run time;
            False keeps every extent a parameter (calling convention 1).

    Raises:
        CompileError: an argument that the front end would refuse, named with the kernel and the parameter.
    """
    import cuda.tile.compilation as compilation

    function = launch.kernel._annotated_function
    parameters = []
    for name, argument, node in zip(launch.parameters, launch.args, function.parameter_annotations, strict=True):
        try:
            parameters.append(_constraint(argument, node, singleton_extents))
        except (TypeError, ValueError, OverflowError) as error:
            raise CompileError(
                f"Argument {name!r} of cuTile Python kernel {launch.name} cannot be compiled for: {error}. "
                "cuTile Python refuses such a launch too; change the call."
            ) from error
    second = any(_needs_second_convention(parameter) for parameter in parameters)
    conventions = compilation.CallingConvention
    convention = conventions.cutile_python_v2() if second else conventions.cutile_python_v1()
    return compilation.KernelSignature(parameters, convention).with_mangled_symbol(launch.name)


def _needs_second_convention(constraint: Any) -> bool:
    if hasattr(constraint, "items"):
        return True
    array = getattr(constraint, "element", constraint)
    return any(extent is not None for extent in getattr(array, "shape_constant", ()))


def _constraint(argument: Any, node: Any, singletons: bool) -> Any:
    import cuda.tile as ct
    import cuda.tile.compilation as compilation
    import torch

    if isinstance(argument, tuple):
        nodes = (
            [node.each] * len(argument)
            if hasattr(node, "each")
            else list(getattr(node, "items", ())) or [node] * len(argument)
        )
        return compilation.TupleConstraint(
            [_constraint(a, n, singletons) for a, n in zip(argument, nodes, strict=True)]
        )
    if getattr(node, "constant", False):
        return compilation.ConstantConstraint(argument)
    if isinstance(argument, torch.Tensor):
        return _array([argument], node.array, singletons)
    if isinstance(argument, list):
        return compilation.ListConstraint(
            _array(argument, getattr(node.list, "element", None), singletons), alias_groups=(), elements_may_alias=True
        )
    if isinstance(argument, bool):
        return compilation.ScalarConstraint(ct.bool_)
    if isinstance(argument, int):
        dtype = node.scalar.dtype if node.scalar is not None else ct.int32
        bits = dtype.bitwidth - 1
        if not -(2**bits) <= argument < 2**bits:
            raise OverflowError(f"{argument} does not fit {dtype.name}")
        return compilation.ScalarConstraint(dtype)
    if isinstance(argument, float):
        return compilation.ScalarConstraint(ct.float32)
    raise TypeError(f"objects of type {type(argument).__name__} are not supported")


def _array(tensors: Sequence[Any], annotation: Any, singletons: bool) -> Any:
    """One constraint that holds for all of ``tensors`` (a list parameter has several)."""
    import cuda.tile as ct
    import cuda.tile.compilation as compilation

    if not tensors:
        raise ValueError("an empty list has no element type")
    first = tensors[0]
    rank, torch_dtype = first.ndim, str(first.dtype).removeprefix("torch.")
    if any(t.ndim != rank or t.dtype != first.dtype for t in tensors):
        raise TypeError("the tensors of a list differ in rank or dtype")
    if torch_dtype not in _DTYPES:
        raise TypeError(f"tensors of {torch_dtype} are not supported")
    index_dtype = annotation.index_dtype if annotation is not None else ct.int32
    if index_dtype.bitwidth == 32 and any(abs(n) > _I32_MAX for t in tensors for n in (*t.shape, *t.stride())):
        raise OverflowError("an extent or stride is beyond 32 bits")
    fixed_shape = {d % rank for d in getattr(annotation, "static_shape_dims", None) or ()}
    fixed_stride = {d % rank for d in getattr(annotation, "static_stride_dims", None) or ()}
    unit = 16 // first.element_size() if 16 % first.element_size() == 0 else 1
    known = rank <= _MAX_SPECIALIZED_RANK

    def every(test: Any) -> bool:
        return known and all(test(t) for t in tensors)

    stride_constant: list[int | None] = [None] * rank
    shape_constant: list[int | None] = [None] * rank
    for axis in range(rank):
        if fixed_stride:
            stride_constant[axis] = first.stride(axis) if axis in fixed_stride else None
        elif every(lambda t, a=axis: t.stride(a) == 1):
            stride_constant[axis] = 1
        if fixed_shape:
            shape_constant[axis] = first.shape[axis] if axis in fixed_shape else None
        elif singletons and every(lambda t, a=axis: t.shape[a] == 1):
            shape_constant[axis] = 1
    return compilation.ArrayConstraint(
        getattr(ct, _DTYPES[torch_dtype]),
        rank,
        index_dtype=index_dtype,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=not all(_disjoint(t) for t in tensors),
        stride_constant=stride_constant,
        shape_constant=shape_constant,
        stride_divisible_by=[unit if every(lambda t, a=a: t.stride(a) % unit == 0) else 1 for a in range(rank)],
        shape_divisible_by=[_DIVISOR if every(lambda t, a=a: t.shape[a] % _DIVISOR == 0) else 1 for a in range(rank)],
        base_addr_divisible_by=_DIVISOR if all(t.data_ptr() % _DIVISOR == 0 for t in tensors) else 1,
    )


def _disjoint(tensor: Any) -> bool:
    """Whether the front end can tell that no two indices share an element: strides nest without overlap."""
    axes = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    if axes and axes[0][0] <= 0:
        return False
    return all(after[0] >= before[0] * before[1] for before, after in itertools.pairwise(axes))


def bytecode(launch: CapturedLaunch, *, version: str = BYTECODE_VERSION, singleton_extents: bool = True) -> bytes:
    """Compile a captured launch's kernel to Tile IR bytecode of ``version``; no tileiras is needed.

    Raises:
        CompileError: the front end refused the kernel or an argument; its own message is kept.
    """
    import cuda.tile.compilation as compilation

    wanted = signature(launch, singleton_extents=singleton_extents)
    out = io.BytesIO()
    try:
        compilation.export_kernel(
            launch.kernel,
            [wanted],
            out,
            gpu_code=launch.arch,
            output_format="tileir_bytecode",
            bytecode_version=version,
        )
    except Exception as error:
        raise CompileError(
            f"cuTile Python's front end refused kernel {launch.name} for {launch.arch}: {error}"
        ) from error
    return out.getvalue()


def describe_arguments(launch: CapturedLaunch) -> Mapping[str, str]:
    """One line per parameter: shape, strides and dtype of a tensor, the value of anything else."""
    return {name: _argument_text(value) for name, value in zip(launch.parameters, launch.args, strict=True)}


def _argument_text(value: Any) -> str:
    if hasattr(value, "stride"):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{'x'.join(map(str, value.shape))}] strides {tuple(value.stride())}"
    return repr(value)
