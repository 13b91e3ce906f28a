# SPDX-License-Identifier: MIT
"""Put a mutation's wrong emitter in the right one's place."""

from __future__ import annotations

import contextlib
import dataclasses
import re

from tilegym_rs_backend.port.entries import entry_of
from tilegym_rs_backend.port.translate import emit_control
from tilegym_rs_backend.port.translate import translate
from tilegym_rs_backend.port.translate.emitter import Value
from tilegym_rs_backend.port.translate.registry import EMITTERS


def edited(handler, mutation):
    """A handler whose lines are changed, and a list that holds how many were."""
    changed = []

    def substitute(text):
        found, count = re.subn(mutation.pattern, mutation.replacement, text)
        changed.extend([text] * count)
        return found

    def wrong(emitter, operation, *rest):
        start = len(emitter.code.statements)
        handler(emitter, operation, *rest)
        statements = emitter.code.statements
        if mutation.forgets == "scan_axes":
            emitter.scan_axes[-1] = 0
            changed.append("axis")
        elif mutation.forgets:
            changed.extend(emitter.passes & {mutation.forgets})
            emitter.passes.discard(mutation.forgets)
        if not mutation.pattern:
            return
        bound = {statement.name for statement in statements}
        for index in range(start, len(statements)):
            statement = statements[index]
            if not statement.comment:
                text, type = substitute(statement.text), re.sub(mutation.pattern, mutation.replacement, statement.type)
                statements[index] = dataclasses.replace(statement, text=text, type=type)
        for result in operation.result_vars:
            value = emitter.values.get(result.name)
            if value is not None and value.text not in bound:
                emitter.values[result.name] = Value(substitute(value.text), value.form)

    return wrong, changed


@contextlib.contextmanager
def mutated(mutation):
    """Put the wrong emitter in the right one's place, for the block."""
    if mutation.emitter == "Return":  # what follows an early return is written by the branch around it
        original = emit_control._branch_with_return
        emit_control._branch_with_return, changed = edited(original, mutation)
        try:
            yield changed
        finally:
            emit_control._branch_with_return = original
        return
    found = EMITTERS[mutation.emitter]
    handler, changed = edited(found.handler, mutation)
    EMITTERS[mutation.emitter] = dataclasses.replace(found, handler=handler)
    try:
        yield changed
    finally:
        EMITTERS[mutation.emitter] = found


def written(mutation, launch):
    """The entry and the text that the wrong emitter makes of a launch."""
    with mutated(mutation) as changed:
        found = translate(launch)
    assert changed, f"{mutation.id}: no line of its emitter has {mutation.pattern or mutation.forgets!r}"
    return entry_of(found)
