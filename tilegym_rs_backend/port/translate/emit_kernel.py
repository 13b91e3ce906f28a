# SPDX-License-Identifier: MIT
"""Block indices, tokens, and facts about values."""

from __future__ import annotations

from typing import Any

from tilegym_rs_backend.port.translate.emit_constants import tile_constant
from tilegym_rs_backend.port.translate.emitter import ROOT_TOKEN
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import emits


@emits("TileBid", python="bid", rust="get_tile_block_id")
def block_index(emitter: Emitter, operation: Any) -> None:
    """The block's index."""
    emitter.let(operation.result_var, f"get_tile_block_id().{operation.axis}", Form.SCALAR, default="bid")


@emits("TileNumBlocks", python="num_blocks", rust="get_num_tile_blocks")
def block_count(emitter: Emitter, operation: Any) -> None:
    """The grid's extent."""
    emitter.let(operation.result_var, f"get_num_tile_blocks().{operation.axis}", Form.SCALAR, default="blocks")


@emits("MakeToken", python="(memory order)", rust="new_token_unordered")
def make_token(emitter: Emitter, operation: Any) -> None:
    """The token before all memory operations; the text has one."""
    emitter.alias(operation.result_var, ROOT_TOKEN, Form.TOKEN)


@emits("JoinTokens", python="(memory order)", rust="join_tokens")
def join_tokens(emitter: Emitter, operation: Any) -> None:
    """After all of several memory operations."""
    tokens = ", ".join(emitter.token(t) for t in operation.tokens)
    emitter.let_token(operation.result_var, f"join_tokens(&[{tokens}])", pure=True)


@emits("AssumeDivBy", python="(divisibility), assume_divisible_by", rust="assume_div_by")
def divisible(emitter: Emitter, operation: Any) -> None:
    """A fact about a computed value; those about parameters come from the specialization."""
    if emitter.tensor_part(operation.x) is not None:
        _same(emitter, operation)
        return
    _assume(emitter, operation, f"assume_div_by::<_, {int(operation.divisor)}>")


def _same(emitter: Emitter, operation: Any) -> None:
    """The result is the operand; a part of a tensor that the text never names has no value."""
    found = emitter.values.get(operation.x.name)
    if found is not None:
        emitter.values[operation.result_var.name] = found


@emits("AssumeBounded", python="(extents and strides are not negative)", rust="assume_bounds_lower")
def bounded(emitter: Emitter, operation: Any) -> None:
    """A bound of a value."""
    low, high = operation.lower_bound, operation.upper_bound
    # The front end promises as much for each `&Tensor` itself.
    of_reference = emitter.tensor_part(operation.x) is not None and operation.x.name not in emitter.values
    if (low is None and high is None) or of_reference or operation.result_var.name in emitter.values:
        _same(emitter, operation)
        return
    if low is not None and high is not None:
        function = f"assume_bounds::<_, {int(low)}, {int(high)}>"
    else:
        function = f"assume_bounds_{'upper' if low is None else 'lower'}::<_, {int(high if low is None else low)}>"
    _assume(emitter, operation, function)


def _assume(emitter: Emitter, operation: Any, function: str) -> None:
    value = emitter.value(operation.x)
    if value.form not in (Form.SCALAR, Form.TILE):
        raise refused(operation, f"a {value.form.value} carries no facts")
    # A fact about a parameter is said once, before the body, and the parameter keeps its name.
    keeps_name = emitter.tensor_part(operation.x) is not None and emitter.code.depth == 0
    stem = value.text if value.text.isidentifier() else "t"
    name = stem if keeps_name else emitter.names.fresh(stem)
    type = emitter.type_of(operation.result_var, value.form)
    emitter.code.let(name, type, f"unsafe {{ {function}({value.text}) }}", pure=True)
    emitter.alias(operation.result_var, name, value.form)


@emits("MakeDummy", python="(a variable that is not set on every path)", rust="constant")
def dummy(emitter: Emitter, operation: Any) -> None:
    """Any value: nothing reads it."""
    variable = operation.result_var
    ty = variable.get_type()
    if type(ty).__name__ == "TokenTy":
        emitter.alias(variable, ROOT_TOKEN, Form.TOKEN)
        return
    if type(ty).__name__ != "TileTy" or emitter.element(ty.dtype).startswith("*"):
        raise refused(operation, f"no undefined value of type {ty} can be written")
    emitter.let(variable, tile_constant(emitter, 0, ty, emitter.element(ty.dtype)), default="unset")
