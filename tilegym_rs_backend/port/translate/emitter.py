# SPDX-License-Identifier: MIT
"""What all emitters share: values and their Rust forms, types, bindings.

A value has a form: the front end knows 0-d tiles only, the DSL has Rust scalars too,
and which of both an operation takes decides the text but not the Tile IR, so values are converted where they are used.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilegym_rs_backend.port.translate.dimensions import Dimensions
from tilegym_rs_backend.port.translate.element_types import rust_name
from tilegym_rs_backend.port.translate.generics import Generics
from tilegym_rs_backend.port.translate.names import Names
from tilegym_rs_backend.port.translate.refuse import Refused
from tilegym_rs_backend.port.translate.refuse import base_name
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.statements import Code

ROOT_TOKEN = "tok"


class Form(enum.Enum):
    """How a value appears in the text."""

    SCALAR = "scalar"
    TILE = "tile"
    TOKEN = "token"
    TENSOR = "tensor"
    VIEW = "view"


@dataclass(frozen=True)
class Value:
    """The Rust expression of an IR variable."""

    text: str
    form: Form


class NeedsConcreteType(Exception):
    """The text needs an element type that it would rather leave generic; the translation starts over without."""


class Emitter:
    """One kernel on its way to Rust.

    Attributes:
        code: the function being written; outlining swaps it.
        values: IR variable -> its Rust value.
        definitions: IR variable -> the operation that computes it.
        uses: IR variable -> how many operands it is.
        helpers: name -> text of private functions.
        passes: names of the passes that the form of a construct in this text stands on.
        parity_passes: names of those without which the text means the same and compiles, though maybe not to the
            original's machine code.
    """

    def __init__(
        self,
        body: Any,
        python_names: dict[str, str],
        generics: Generics,
        generic_type: str = "",
        taken: frozenset[str] = frozenset(),
    ) -> None:
        self.body = body
        self.generics = generics
        self.generic_type = generic_type
        self.dimensions = Dimensions(body)
        self.names = Names(taken)
        self.code = Code()
        self.values: dict[str, Value] = {}
        self.helpers: dict[str, str] = {}
        self.passes: set[str] = set()
        self.parity_passes: set[str] = {"drop_bounds"}
        self.scan_axes: list[int] = []
        # Per loop: what it carries, and how many branches are open around it.
        self.loops: list[tuple[list[Value], int]] = []
        self.branches: list[list[Value]] = []
        # Set where the parameters are declared: a variable's part of a tensor ("pointer", "extent", "stride"), and the
        # `&Tensor` parameter that a MakeTensorView is.
        self.tensor_part: Callable[[Any], str | None] = _no_part
        self.whole_tensor: Callable[[Any], str | None] = _no_part
        self.outliner: Callable[[Emitter, Any], bool] | None = None
        self._python_names: dict[str, str] | None = python_names
        self._as_tile: list[dict[str, str]] = [{}]
        self.definitions: dict[str, Any] = {}
        self.uses: dict[str, int] = {}
        for operation in body.traverse():
            for result in operation.result_vars:
                self.definitions[result.name] = operation
            for operand in operation.all_inputs():
                self.uses[operand.name] = self.uses.get(operand.name, 0) + 1

    # Types

    def element(self, dtype: Any) -> str:
        """The Rust name of an element or pointer type; the type generic's where the text is generic in it."""
        name = rust_name(dtype)
        if name is not None:
            return "E" if name == self.generic_type else name
        from cuda.tile._datatype import PointerInfo
        from cuda.tile._datatype import is_pointer_dtype

        if is_pointer_dtype(dtype):
            return f"*mut {self.element(PointerInfo(dtype).pointee_dtype)}"
        reason = f"cutile-rs has no element type {dtype}"
        raise Refused("type", reason) if self.current is None else refused(self.current, reason, "type")

    def concrete(self, dtype: Any) -> str:
        """The Rust name of an element type whose identity the text needs."""
        name = self.element(dtype)
        if name == "E":
            raise NeedsConcreteType
        return name

    def type_of(self, variable: Any, form: Form = Form.TILE) -> str:
        """The Rust type of a variable in a form."""
        if form is Form.TOKEN:
            return "Token"
        ty = variable.get_type()
        element = self.element(ty.dtype)
        if form is Form.SCALAR:
            return element
        kind = "PointerTile" if element.startswith("*") else "Tile"
        return f"{kind}<{element}, {{ {self.extents(ty.shape)} }}>"

    def extents(self, shape: Sequence[int]) -> str:
        """``[ROWS, 64]``."""
        return f"[{', '.join(self.extent(d) for d in shape)}]"

    def extent(self, value: int) -> str:
        """An extent: a const generic, or a literal; 1 is always one, because broadcasting goes by it."""
        expression = self.dimensions.representative(value)
        if expression.is_number or int(value) == 1:
            return str(int(value))
        return self.generics.integer(expression)

    def shape(self, shape: Sequence[int]) -> str:
        """``shape![ROWS, 64]``."""
        return f"shape!{self.extents(shape)}"

    # Values

    def value(self, variable: Any) -> Value:
        """The Rust value of a variable."""
        found = self.values.get(variable.name)
        if found is None:
            made = self.definitions.get(variable.name)
            what = made.op if made is not None else "a parameter"
            raise refused(made or self.current, f"the result {variable.name} of {what} has no Rust form here")
        return found

    def is_scalar(self, *variables: Any) -> bool:
        """Whether all are Rust scalars."""
        return all(self.value(v).form is Form.SCALAR for v in variables)

    def scalar(self, variable: Any) -> str:
        """The value as a Rust scalar."""
        value = self.value(variable)
        if value.form is Form.SCALAR:
            return value.text
        name = self.names.fresh(f"{value.text}_s")
        self.code.let(name, self.type_of(variable, Form.SCALAR), f"tile_to_scalar({value.text})", pure=True)
        return name

    def tile(self, variable: Any) -> str:
        """The value as a tile."""
        value = self.value(variable)
        if value.form is not Form.SCALAR:
            return value.text
        for scope in self._as_tile:
            if variable.name in scope:
                return scope[variable.name]
        # A literal through scalar_to_tile keeps its value as a bound, and comparing two such tiles fails.
        literal = value.text[0].isdigit()
        name = self.names.fresh(f"{value.text}_t" if value.text.isidentifier() else "c")
        text = f"constant({value.text}, shape![])" if literal else f"scalar_to_tile({value.text})"
        self.code.let(name, self.type_of(variable), text, pure=True)
        self._as_tile[-1][variable.name] = name
        return name

    def token(self, variable: Any) -> str:
        """The token's expression; the root token where the operation has none."""
        return ROOT_TOKEN if variable is None else self.value(variable).text

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Conversions made inside a block are not visible after it."""
        self._as_tile.append({})
        try:
            yield
        finally:
            self._as_tile.pop()

    @contextlib.contextmanager
    def function(self, names: Names) -> Iterator[Code]:
        """Write another function meanwhile: fresh code, names and conversions; values are put back afterwards.

        Python's names stay out of it, so that what was written alike becomes one function.
        """
        saved = (self.code, self.names, self._as_tile, dict(self.values))
        python_names, self._python_names = self._python_names, None
        self.code, self.names, self._as_tile = Code(), names, [{}]
        try:
            yield self.code
        finally:
            self.code, self.names, self._as_tile, self.values = saved
            self._python_names = python_names

    # Bindings

    def name_of(self, variable: Any, default: str = "t") -> str:
        """A fresh identifier for a variable: its Python name if it has one."""
        if self._python_names is None:
            return self.names.fresh(default)
        wanted = self._python_names.get(variable.name) or self._python_names.get(variable.name.split(".")[0])
        wanted = wanted or variable.get_original_name()
        return self.names.fresh(default if not wanted or wanted.startswith("$") else wanted)

    def let(self, variable: Any, text: str, form: Form = Form.TILE, *, default: str = "t", unsafe: bool = False) -> str:
        """Bind the result of a pure operation."""
        name = self.name_of(variable, default)
        self.code.let(name, self.type_of(variable, form), f"unsafe {{ {text} }}" if unsafe else text, pure=True)
        self.values[variable.name] = Value(name, form)
        return name

    def let_token(self, variable: Any, text: str, *, unsafe: bool = False, pure: bool = False) -> None:
        """Bind a token; the operation stays even when nothing takes the token."""
        name = self.names.fresh(ROOT_TOKEN)
        self.code.let(name, "Token", f"unsafe {{ {text} }}" if unsafe else text, pure=pure)
        self.values[variable.name] = Value(name, Form.TOKEN)

    def alias(self, variable: Any, text: str, form: Form = Form.TILE) -> None:
        """Let a variable stand for an expression that needs no binding."""
        self.values[variable.name] = Value(text, form)

    def temporary(self, stem: str, type: str, text: str) -> str:
        """Bind an intermediate pure value and return its name."""
        name = self.names.fresh(stem)
        self.code.let(name, type, text, pure=True)
        return name

    # Operations

    @property
    def current(self) -> Any:
        """The operation being emitted, for refusals."""
        return self._current

    _current: Any = None

    def enter(self, operation: Any) -> None:
        """Note where the next statements come from."""
        self._current = operation
        place = operation.loc
        if place.filename and type(operation).__name__ not in _NO_PLACE:
            self.code.place(f"{base_name(place.filename)}:{place.line}")


def _no_part(_: Any) -> None:
    """No parameters are declared yet."""


_NO_PLACE = frozenset({"TypedConst", "MakeToken", "JoinTokens", "Continue", "Break", "EndBranch", "Return"})
