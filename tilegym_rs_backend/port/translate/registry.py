# SPDX-License-Identifier: MIT
"""Which function emits which operation of the front end's IR.

An emitter is a function of ``(Emitter, operation)`` that adds statements, registered with ``@emits``; the modules
``emit_*`` hold one family each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.refuse import refused

Handler = Callable[[Emitter, Any], None]


@dataclass(frozen=True)
class Emits:
    """A registered emitter: the IR operation it takes, Python's spelling and the Rust form, for the documentation."""

    operation: str
    python: str
    rust: str
    handler: Handler


EMITTERS: dict[str, Emits] = {}


def emits(operation: str, *, python: str, rust: str) -> Callable[[Handler], Handler]:
    """Register the emitter of an operation class of the front end's IR."""

    def register(handler: Handler) -> Handler:
        EMITTERS[operation] = Emits(operation, python, rust, handler)
        return handler

    return register


def dispatch(emitter: Emitter, operation: Any) -> None:
    """Emit one operation by its registered emitter, unless the outliner takes it."""
    if emitter.outliner is not None and emitter.outliner(emitter, operation):
        return
    found = EMITTERS.get(type(operation).__name__)
    emitter.enter(operation)
    if found is None:
        raise refused(operation, "no Rust form of this operation is known")
    try:
        found.handler(emitter, operation)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        # An attribute or type that the emitter was not written for.
        raise refused(operation, f"this form of it is not known ({type(error).__name__}: {error})") from error
