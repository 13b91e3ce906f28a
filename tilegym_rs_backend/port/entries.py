# SPDX-License-Identifier: MIT
"""Entries of the crate of translated kernels: what a launch needs to know of one, and how one is made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from ..errors import CompileError
from .translate.generics import float_bits

if TYPE_CHECKING:
    from .capture import CapturedLaunch
    from .translate import Translation

_BITS = "_BITS"


@dataclass(frozen=True)
class Entry:
    """A kernel of the crate, for one key.

    Attributes:
        name: of the module and of the kernel in it.
        arguments: (kind, index into the launch's arguments, axis) of each parameter that is passed, in order.
        constants: const generics by name.
        passes: passes of the front end that the entry names.
        baked: constants whose values are in the text.
        plain: whether it was written for the plain front end, without the parity passes.
        supplied: whether somebody else wrote it (`external.py`).
    """

    name: str
    arguments: tuple[tuple[str, int, int], ...]
    constants: dict[str, int]
    passes: tuple[str, ...] = ()
    baked: tuple[str, ...] = ()
    plain: bool = False
    supplied: bool = False


def named(stem: str, text: str) -> str:
    """Return a module name that says what the text is, so that equal texts share an entry."""
    return f"{stem}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def translated(launch: CapturedLaunch, *, plain: bool = False) -> tuple[Entry, str]:
    """Translate a launch: its entry and the text of that entry's module.

    Raises:
        Refused, CompileError: see ``translate``.
    """
    from .translate import translate

    return entry_of(translate(launch, plain=plain), plain=plain)


def entry_of(translation: Translation, *, plain: bool = False) -> tuple[Entry, str]:
    """Return a translation's entry, named by its text, and the text with that name."""
    made = translation.renamed(named(translation.entry, translation.source))
    entry = Entry(
        name=made.entry,
        arguments=tuple(
            (p.kind, p.argument, p.axis) for p in made.parameters if p in made.descriptors or p in made.scalars
        ),
        constants={generic.name: generic.value for generic in made.generics},
        passes=made.passes,
        baked=made.baked,
        plain=plain,
    )
    return entry, made.source


def supplied(described: dict[str, Any], launch: CapturedLaunch) -> Entry:
    """Return the entry of a module that somebody else wrote, its parameters matched to the launch's by name.

    A tensor, a scalar and a const generic have the name of the Python parameter; ``<list>_len`` is the length of a list
    of tensors, ``<NAME>_BITS`` the bits of a float constant.

    Args:
        described: the kernel as the library describes it (``Library.kernel``).
        launch: the launch that it is to answer.

    Raises:
        CompileError: a parameter or generic that is none of the launch's.
    """
    positions = {name.lower(): index for index, name in enumerate(launch.parameters)}
    arguments = []
    for param in described["params"]:
        name = param["name"].lower()
        kind = "scalar" if param["kind"] == "scalar" else "pointer" if param["kind"] == "pointer" else "tensor"
        if name not in positions and name.removesuffix("_len") in positions:
            name, kind = name.removesuffix("_len"), "length"
        if name not in positions or launch.parameters[positions[name]] in launch.constants:
            raise _unmatched(described, f"parameter {param['name']}", launch)
        if kind == "pointer" and isinstance(launch.args[positions[name]], list):
            kind = "list"
        arguments.append((kind, positions[name], 0))
    constants = {}
    by_name = {name.upper(): value for name, value in launch.constants.items()}
    for generic in described["generics"]:
        if generic["kind"] == "type":
            continue
        name = generic["name"].upper()
        if name in by_name:
            constants[generic["name"]] = int(by_name[name])
        elif name.removesuffix(_BITS) in by_name:
            constants[generic["name"]] = float_bits(float(by_name[name.removesuffix(_BITS)]), "f32")
        else:
            raise _unmatched(described, f"const generic {generic['name']}", launch)
    return Entry(described["name"], tuple(arguments), constants, supplied=True)


def _unmatched(described: dict[str, Any], what: str, launch: CapturedLaunch) -> CompileError:
    return CompileError(
        f"{described['name']}: {what} is no argument of {launch.name}, which takes {', '.join(launch.parameters)} "
        f"(constants: {', '.join(launch.constants) or 'none'}). Name it like the Python parameter; "
        "NAME_len is the length of a list of tensors, NAME_BITS the bits of a float constant."
    )
