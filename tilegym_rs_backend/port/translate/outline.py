# SPDX-License-Identifier: MIT
"""Gathers and scatters as private functions: their address arithmetic is noise in the kernel's body.

All operations with the source location of one ``ct.gather`` or ``ct.scatter`` call whose results nothing else uses go
into a function; equal functions are shared. The front end inlines them again, so the Tile IR keeps the same order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tilegym_rs_backend.port.translate.emitter import ROOT_TOKEN
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.emitter import Value
from tilegym_rs_backend.port.translate.names import Names
from tilegym_rs_backend.port.translate.registry import dispatch
from tilegym_rs_backend.port.translate.statements import render
from tilegym_rs_backend.port.translate.statements import tail
from tilegym_rs_backend.port.translate.statements import tidy
from tilegym_rs_backend.port.translate.statements import words

_PURE = frozenset(
    {
        "TileReshape",
        "TileBroadcast",
        "TileAsType",
        "RawComparisonOperation",
        "RawBinaryArithmeticOperation",
        "RawBinaryBitwiseOperation",
        "PointerOffset",
        "TypedConst",
        "AssumeDivBy",
    }
)


class Outliner:
    """Decides which operations go into helpers, and writes them at the call."""

    def __init__(self, body: Any) -> None:
        self._members: set[int] = set()
        self._groups: dict[int, list[Any]] = {}
        self._known: dict[tuple[str, ...], str] = {}
        self._inside = False
        operations = list(_in_order(body))
        users: dict[str, list[Any]] = defaultdict(list)
        for operation in operations:
            for operand in operation.all_inputs():
                users[operand.name].append(operation)
        by_place: dict[Any, list[Any]] = defaultdict(list)
        for operation in operations:
            by_place[operation.loc].append(operation)
        for operation in operations:
            if type(operation).__name__ in ("LoadPointer", "StorePointer"):
                self._collect(operation, by_place[operation.loc], users)

    def _collect(self, access: Any, candidates: list[Any], users: dict[str, list[Any]]) -> None:
        group = {id(o): o for o in candidates if o is not access and type(o).__name__ in _PURE}
        changed = True
        while changed:
            changed = False
            for key, operation in list(group.items()):
                taken = [u for result in operation.result_vars for u in users[result.name]]
                if not taken or any(u is not access and id(u) not in group for u in taken):
                    del group[key]
                    changed = True
        if group:
            self._groups[id(access)] = [o for o in candidates if id(o) in group]
            self._members |= set(group)

    def __call__(self, emitter: Emitter, operation: Any) -> bool:
        """Whether the operation is dealt with: a member waits for its access, an access becomes a call."""
        if self._inside:
            return False
        if id(operation) in self._members:
            return True
        group = self._groups.get(id(operation))
        if group is None:
            return False
        emitter.enter(operation)
        self._write(emitter, operation, group)
        return True

    def _write(self, emitter: Emitter, access: Any, group: list[Any]) -> None:
        outside = _captured(emitter, access, group)
        arguments = [emitter.value(v).text for v in outside]
        is_load = type(access).__name__ == "LoadPointer"
        token = access.result_vars[-1]
        with_token = is_load and bool(emitter.uses.get(token.name))
        call_token = emitter.token(access.token)
        names = Names(emitter.generics.names)
        with emitter.function(names) as code:
            parameters = []
            for variable in outside:
                value = emitter.value(variable)
                of = emitter.type_of(variable, value.form)
                name = names.fresh(_role_name(of, value))
                parameters.append(f"{name}: {of}")
                emitter.values[variable.name] = Value(name, value.form)
            if access.token is not None:
                emitter.alias(access.token, ROOT_TOKEN, Form.TOKEN)
            self._inside = True
            try:
                for operation in [*group, access]:
                    dispatch(emitter, operation)
            finally:
                self._inside = False
            result = emitter.value(access.result_vars[0]).text
            returned = emitter.type_of(access.result_vars[0]) if is_load else "Token"
            if with_token:
                result, returned = f"({result}, {emitter.token(token)})", f"({returned}, Token)"
            statements = [s for s in tidy(code.statements, result) if not s.comment]
            statements, result = tail(statements, result)
        body = _numbered(render(statements, 2) + f"        {result}\n")
        signature = f"({', '.join([*parameters, f'{ROOT_TOKEN}: Token'])}) -> {returned}"
        name = self._name(emitter, "gather" if is_load else "scatter", signature, body)
        call = f"{name}({', '.join([*arguments, call_token])})"
        if not is_load:
            emitter.let_token(token, call)
        elif with_token:
            pair = emitter.names.fresh("ld")
            emitter.code.let(pair, returned, call)
            emitter.let(access.result_vars[0], f"{pair}.0")
            emitter.let_token(token, f"{pair}.1", pure=True)
        else:
            bound = emitter.name_of(access.result_vars[0])
            emitter.code.let(bound, emitter.type_of(access.result_vars[0]), call)
            emitter.alias(access.result_vars[0], bound)
            emitter.alias(token, ROOT_TOKEN, Form.TOKEN)

    def _name(self, emitter: Emitter, stem: str, signature: str, body: str) -> str:
        key = (stem, signature, body)
        if key not in self._known:
            name = self._known[key] = emitter.names.fresh(stem)
            generics = _generics(emitter, signature + body)
            declared = ["E: ElementType" if g == "E" else f"const {g}: i32" for g in generics]
            listed = f"<{', '.join(declared)}>" if declared else ""
            emitter.helpers[name] = f"    fn {name}{listed}{signature} {{\n{body}    }}\n"
        # What the parameters' types do not mention, rustc cannot infer.
        generics = _generics(emitter, signature + body)
        inferred = set(words(signature)) >= set(generics)
        return self._known[key] if inferred else f"{self._known[key]}::<{', '.join(generics)}>"


def _generics(emitter: Emitter, text: str) -> list[str]:
    """The generics that a function of this text needs, in the kernel's order."""
    used = set(words(text))
    names = ["E"] if emitter.generic_type else []
    return [name for name in [*names, *(g.name for g in emitter.generics.listed())] if name in used]


def _in_order(block: Any) -> Iterator[Any]:
    for operation in block:
        yield operation
        for nested in operation.nested_blocks:
            yield from _in_order(nested)


def _captured(emitter: Emitter, access: Any, group: list[Any]) -> list[Any]:
    """Operands from outside, in order of use; literals and const generics are visible everywhere."""
    inner = {result.name for operation in group for result in operation.result_vars}
    found: dict[str, Any] = {}
    for operation in [*group, access]:
        for operand in operation.all_inputs():
            if operand.name in inner or operand.name in found or operand.name not in emitter.values:
                continue
            value = emitter.value(operand)
            visible = not value.text.isidentifier() or value.text in emitter.generics.names
            if value.form is Form.TOKEN or (value.form is Form.SCALAR and visible):
                continue
            found[operand.name] = operand
    return list(found.values())


def _role_name(type: str, value: Value) -> str:
    """A parameter's name by what it is, so that equal helpers have equal texts."""
    if type.startswith("PointerTile"):
        return "base"
    if value.form is Form.SCALAR or "{ [] }" in type:
        part = re.search(r"_([ns]\d)(?:_\d+)?$", value.text)
        return part[1] if part else "i"
    if type.startswith("Tile<bool"):
        return "mask"
    return "idx" if re.match(r"Tile<[iu]", type) else "v"


def _numbered(body: str) -> str:
    """Number nameless intermediates from one on, whatever their numbers in the front end were."""
    seen: dict[str, str] = {}
    return re.sub(r"\bt_?\d*\b", lambda found: seen.setdefault(found[0], f"t{len(seen) + 1}"), body)
