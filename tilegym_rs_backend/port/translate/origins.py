# SPDX-License-Identifier: MIT
"""From which tensors' parts a computed value was computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegym_rs_backend.port.translate.emitter import Emitter


class Origins:
    """Walks definitions backwards; loop-carried values are followed through everything that enters their loop."""

    def __init__(self, emitter: Emitter, roles: Mapping[str, Any]) -> None:
        self._definitions, self._roles = emitter.definitions, roles
        self._carried: dict[str, set[str]] = {}
        for operation in emitter.body.traverse():
            if type(operation).__name__ == "Loop":
                self._loop(operation)

    def _loop(self, operation: Any) -> None:
        inputs = {v.name for v in operation.all_inputs()}
        for inner in operation.body.traverse():
            if type(inner).__name__ in ("Continue", "Break"):
                inputs |= {v.name for v in inner.all_inputs()}
        for parameter in operation.body.params:
            self._carried.setdefault(parameter.name, set()).update(inputs)

    def of(self, variable: str) -> set[str]:
        """Names of the tensor parameters whose address, extents or strides reach a variable."""
        found: set[str] = set()
        visited: set[str] = set()
        stack = [variable]
        while stack:
            name = stack.pop()
            if name in visited:
                continue
            visited.add(name)
            operation = self._definitions.get(name)
            if name in self._roles:
                found.add(self._roles[name].tensor)
            elif operation is None:
                stack.extend(self._carried.get(name, ()))
            else:
                stack.extend(v.name for v in operation.all_inputs())
                for block in operation.nested_blocks:
                    for inner in block.traverse():
                        stack.extend(v.name for v in inner.all_inputs())
        return found
