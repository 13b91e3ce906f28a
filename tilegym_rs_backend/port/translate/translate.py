# SPDX-License-Identifier: MIT
"""The translation of one launch, step by step."""

from __future__ import annotations

import re
from typing import Any

# Registers the emitters.
from tilegym_rs_backend.port.capture import CapturedLaunch
from tilegym_rs_backend.port.translate import emit_arithmetic  # noqa: F401
from tilegym_rs_backend.port.translate import emit_constants  # noqa: F401
from tilegym_rs_backend.port.translate import emit_kernel  # noqa: F401
from tilegym_rs_backend.port.translate import emit_lists  # noqa: F401
from tilegym_rs_backend.port.translate import emit_pointers  # noqa: F401
from tilegym_rs_backend.port.translate import emit_shapes  # noqa: F401
from tilegym_rs_backend.port.translate import emit_views  # noqa: F401
from tilegym_rs_backend.port.translate.element_types import HALVES
from tilegym_rs_backend.port.translate.element_types import rust_name
from tilegym_rs_backend.port.translate.emit_control import emit_block
from tilegym_rs_backend.port.translate.emitter import ROOT_TOKEN
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import NeedsConcreteType
from tilegym_rs_backend.port.translate.generics import Generics
from tilegym_rs_backend.port.translate.names import RESERVED
from tilegym_rs_backend.port.translate.outline import Outliner
from tilegym_rs_backend.port.translate.parameters import declare
from tilegym_rs_backend.port.translate.refuse import Refused
from tilegym_rs_backend.port.translate.refuse import base_name
from tilegym_rs_backend.port.translate.render import source
from tilegym_rs_backend.port.translate.translation import Translation
from tilegym_rs_backend.port.translate.typed_ir import TypedKernel
from tilegym_rs_backend.port.translate.typed_ir import typed_kernel


def translate(launch: CapturedLaunch, *, plain: bool = False) -> Translation:
    """Translate the kernel of a captured launch for the launch's own specialization.

    Args:
        launch: the launch; its constants and the facts about its tensors decide the text.
        plain: name no parity pass: the passes that stay are part of a construct's form.

    Raises:
        Refused: a construct without a proven Rust form, with its Python file and line.
        CompileError: cuTile Python's front end refuses the kernel or an argument.
        ToolchainError: cuda-tile is missing or of a version whose internals are not known.
    """
    try:
        kernel = typed_kernel(launch)
        half = _half_type(kernel)
        if half is not None:
            try:
                return _translate(launch, kernel, half, plain)
            except NeedsConcreteType:
                pass
        return _translate(launch, kernel, None, plain)
    except Refused as error:
        code = launch.kernel._annotated_function.pyfunc.__code__
        file, line = (error.file, error.line) if error.file else (code.co_filename, code.co_firstlineno)
        raise Refused(error.construct, error.reason, file=file, line=line, kernel=launch.name) from error.__cause__


def _translate(launch: CapturedLaunch, kernel: TypedKernel, generic_type: str | None, plain: bool) -> Translation:
    entry = _rust_identifier(launch.name)
    generics = Generics(kernel.constants)
    taken = frozenset({entry, "E", *kernel.constants})
    emitter = Emitter(kernel.body, kernel.names, generics, generic_type or "", taken)
    emitter.code.let(ROOT_TOKEN, "Token", "new_token_unordered()", pure=True)
    parameters = declare(emitter, kernel.parameters)
    emitter.outliner = Outliner(kernel.body)
    emit_block(emitter, list(kernel.body))
    passes = [*(() if plain else sorted(emitter.parity_passes)), *sorted(emitter.passes)]
    if any(emitter.scan_axes):
        passes.append(f"scan_axes = [{', '.join(map(str, emitter.scan_axes))}]")
    code = launch.kernel._annotated_function.pyfunc.__code__
    file = base_name(code.co_filename)
    return Translation(
        source=source(entry, f"`{launch.name}` in {file}", emitter, parameters, passes),
        module=entry,
        entry=entry,
        parameters=tuple(parameters.declared),
        generics=generics.listed(),
        dtype_generic=generic_type,
        holds=parameters.holds,
        passes=tuple(passes),
        baked=generics.baked(),
        kernel=launch.name,
        file=file,
    )


def _half_type(kernel: TypedKernel) -> str | None:
    """The one half-precision type that tensors of the launch have, None if there is none or two."""
    found = set()
    for parameter in kernel.parameters:
        name = _element_name(parameter.constraint)
        if name in HALVES:
            found.add(name)
    return found.pop() if len(found) == 1 else None


def _element_name(constraint: Any) -> str | None:
    return rust_name(constraint.dtype) if type(constraint).__name__ == "ArrayConstraint" else None


def _rust_identifier(name: str) -> str:
    text = re.sub(r"_+", "_", re.sub(r"\W", "_", name)).strip("_") or "kernel"
    if text[0].isdigit() or text in RESERVED:
        text = f"kernel_{text}"
    return text
