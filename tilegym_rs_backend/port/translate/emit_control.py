# SPDX-License-Identifier: MIT
"""Loops and branches. A value that a block changes is a ``let mut`` before it, assigned inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilegym_rs_backend.port.translate.emit_constants import tile_constant
from tilegym_rs_backend.port.translate.emitter import ROOT_TOKEN
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.emitter import Value
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import dispatch
from tilegym_rs_backend.port.translate.registry import emits


@dataclass(frozen=True)
class _Yielded:
    """Stands among operations where a branch hands its results on to what follows in the same arm."""

    results: Sequence[Any]
    outputs: Sequence[Any]


def emit_block(emitter: Emitter, operations: Sequence[Any]) -> None:
    """Emit operations in order."""
    for index, operation in enumerate(operations):
        if isinstance(operation, _Yielded):
            for result, value in zip(operation.results, operation.outputs, strict=True):
                emitter.values[result.name] = emitter.value(value)
        elif type(operation).__name__ == "IfElse" and "Return" in (_end(b) for b in _arms(operation)):
            _branch_with_return(emitter, operation, operations[index + 1 :])
            return
        else:
            dispatch(emitter, operation)


def _arms(operation: Any) -> tuple[Any, Any]:
    return operation.then_block, operation.else_block


def _end(block: Any) -> str:
    return type(block[-1]).__name__ if len(block) else ""


def _branch_with_return(emitter: Emitter, operation: Any, rest: Sequence[Any]) -> None:
    """An early ``return`` is legal at the top level only: what follows the ``if`` goes into the arm that goes on.

    That is possible only where nothing else follows: not inside a loop, nor inside a branch that others continue.
    """
    emitter.enter(operation)
    for arm in _arms(operation):
        if _end(arm) == "Return":
            _check_return(emitter, arm[-1])
    _open_branch(emitter, emitter.scalar(operation.cond))
    for position, arm in enumerate(_arms(operation)):
        inside = list(arm)[:-1]
        if _end(arm) != "Return":
            inside += [_Yielded(operation.result_vars, arm[-1].outputs), *rest]
        with emitter.scope():
            emit_block(emitter, inside)
        if position == 0:
            emitter.code.otherwise()
    emitter.code.close()


def _check_return(emitter: Emitter, operation: Any) -> None:
    if emitter.loops:
        raise refused(operation, "a return inside a loop has no Rust form", "return")
    if emitter.branches:
        raise refused(operation, "a return inside a branch that others continue has no Rust form", "return")


@emits("Return", python="return", rust="the rest goes into the other arm")
def leave(emitter: Emitter, operation: Any) -> None:
    """The end of the kernel; there is nothing behind it."""
    _check_return(emitter, operation)


@emits("Loop", python="for i in range(..), while", rust="for i in a..b, loop")
def loop(emitter: Emitter, operation: Any) -> None:
    """A counted loop; without a range, a loop that breaks."""
    carried = []
    for inside, before in zip(operation.body_vars, operation.initial_values, strict=True):
        value = emitter.value(before)
        if value.form not in (Form.SCALAR, Form.TOKEN):
            value = Value(emitter.tile(before), Form.TILE)
        carried.append(_variable(emitter, inside, value))
    header = "loop"
    if operation.is_for_loop:
        start, stop, step = (emitter.scalar(v) for v in (operation.start, operation.stop, operation.step))
        counter = emitter.name_of(operation.induction_var, "i")
        emitter.alias(operation.induction_var, counter, Form.SCALAR)
        last = _only_turn(emitter, operation)
        if last is not None:
            # With bounds that it knows the DSL takes the counter for the number that it is, and folds what follows;
            # a loop of no turn it refuses.
            bound = emitter.temporary("stop", "Tile<i32, { [] }>", f"constant({last}i32, shape![])")
            stop = emitter.temporary("stop", "i32", f"tile_to_scalar({bound})")
        span = f"{start}..{stop}"
        header = f"for {counter} in {span if step == '1i32' else f'({span}).step_by({step} as usize)'}"
    emitter.code.open(header)
    emitter.loops.append((carried, len(emitter.branches)))
    with emitter.scope():
        emit_block(emitter, list(operation.body))
    emitter.loops.pop()
    emitter.code.close()
    for result, value in zip(operation.result_vars, carried, strict=True):
        emitter.values[result.name] = value


def _only_turn(emitter: Emitter, operation: Any) -> int | None:
    """The end of a counted loop whose bounds are known and allow one turn or none, None for another loop."""
    start, stop, step = (_known(emitter, v) for v in (operation.start, operation.stop, operation.step))
    if start is None or stop is None or step is None:
        return None
    return stop if 0 <= stop <= start + step else None


def _known(emitter: Emitter, variable: Any) -> int | None:
    """The number that an integer is, as far as the DSL knows it: a constant, or the lesser or greater of two."""
    found: Any = emitter.definitions.get(variable.name)
    if type(found).__name__ == "TypedConst":
        return int(found.value)
    if type(found).__name__ == "RawBinaryArithmeticOperation" and found.fn in ("min", "max"):
        one, other = _known(emitter, found.lhs), _known(emitter, found.rhs)
        if one is not None and other is not None:
            return min(one, other) if found.fn == "min" else max(one, other)
    return None


def _variable(emitter: Emitter, variable: Any, value: Value) -> Value:
    """Declare a variable that a block assigns; its value before the block is ``value``."""
    name = emitter.names.fresh(ROOT_TOKEN) if value.form is Form.TOKEN else emitter.name_of(variable)
    emitter.code.let(name, emitter.type_of(variable, value.form), value.text, mutable=True)
    emitter.values[variable.name] = Value(name, value.form)
    return emitter.values[variable.name]


def _in_form(emitter: Emitter, variable: Any, form: Form) -> str:
    if form is Form.TOKEN:
        return emitter.token(variable)
    return emitter.scalar(variable) if form is Form.SCALAR else emitter.tile(variable)


def _assign(emitter: Emitter, targets: Sequence[Value], variables: Sequence[Any]) -> None:
    """Assign all targets at once: a value that is itself a target is read before it is overwritten."""
    texts = [_in_form(emitter, v, t.form) for t, v in zip(targets, variables, strict=True)]
    names = {target.text for target in targets}
    for index, (target, text) in enumerate(zip(targets, texts, strict=True)):
        if text in names and text != target.text:
            type = emitter.type_of(variables[index], target.form)
            texts[index] = emitter.temporary(f"{text}_before", type, text)
    for target, text in zip(targets, texts, strict=True):
        if target.text != text:
            emitter.code.put(f"{target.text} = {text};")


@emits("Continue", python="(the end of a loop's body)", rust="assignments")
def go_on(emitter: Emitter, operation: Any) -> None:
    """The values of the next iteration."""
    carried, branches_outside = emitter.loops[-1]
    _assign(emitter, carried, operation.values)
    if len(emitter.branches) > branches_outside:
        emitter.code.put("continue;")


@emits("Break", python="break, while conditions", rust="break")
def leave_loop(emitter: Emitter, operation: Any) -> None:
    """The values after the loop, and out."""
    _assign(emitter, emitter.loops[-1][0], operation.values)
    emitter.code.put("break;")


@emits("IfElse", python="if, conditional expressions", rust="if .. else ..")
def branch(emitter: Emitter, operation: Any) -> None:
    """A branch whose results are variables that both arms assign."""
    condition = emitter.scalar(operation.cond)
    ends = [arm[-1] if len(arm) else None for arm in _arms(operation)]
    results = []
    for position, variable in enumerate(operation.result_vars):
        results.append(_variable(emitter, variable, _before(emitter, variable, ends, position)))
    _open_branch(emitter, condition)
    emitter.branches.append(results)
    for position, arm in enumerate(_arms(operation)):
        with emitter.scope():
            emit_block(emitter, list(arm))
        if position == 0:
            emitter.code.otherwise()
    emitter.branches.pop()
    emitter.code.close()
    for variable, value in zip(operation.result_vars, results, strict=True):
        emitter.values[variable.name] = value


def _open_branch(emitter: Emitter, condition: str) -> None:
    emitter.code.open(f"if {condition}")
    # The DSL's branch also yields the variables of the loop around it.
    emitter.parity_passes.add("unchanged_results")


def _before(emitter: Emitter, variable: Any, ends: Sequence[Any], position: int) -> Value:
    """A value that a result can have before the branch: an arm's, if it exists already, so that it needs no copy."""
    ty = variable.get_type()
    token = type(ty).__name__ == "TokenTy"
    for end in ends:
        outputs = getattr(end, "outputs", ())
        if outputs and outputs[position].name in emitter.values:
            output = outputs[position]
            return Value(emitter.token(output), Form.TOKEN) if token else Value(emitter.tile(output), Form.TILE)
    if token:
        return Value(ROOT_TOKEN, Form.TOKEN)
    element = emitter.element(ty.dtype)
    if element.startswith("*"):
        raise refused(emitter.current, "addresses that both arms compute have no Rust form")
    return Value(tile_constant(emitter, 0, ty, element), Form.TILE)


@emits("EndBranch", python="(the end of an arm)", rust="assignments")
def end_branch(emitter: Emitter, operation: Any) -> None:
    """The results of an arm."""
    _assign(emitter, emitter.branches[-1], operation.outputs)
