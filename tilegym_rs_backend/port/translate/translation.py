# SPDX-License-Identifier: MIT
"""A translated kernel: the Rust text, and how a launch becomes one of it."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace

from tilegym_rs_backend.port.translate.generics import Generic
from tilegym_rs_backend.port.translate.parameters import Holds
from tilegym_rs_backend.port.translate.parameters import Parameter


@dataclass(frozen=True)
class Translation:
    """One kernel for one specialization, as Rust.

    Two launches whose sources are equal share an entry. A launch may use an entry only if translating it gives this
    very source: constants that are not generics, and facts about tensors, are part of the text.

    Attributes:
        source: the text of one Rust file.
        module, entry: the `#[cutile::module]` in it and the kernel in that.
        parameters: the entry's parameters in order, with the launch arguments that fill them.
        generics: const generics in order, with the values of the translated launch; the type generic comes first.
        dtype_generic: the element type that became ``E: ElementType``, None where the text is concrete.
        holds: by Rust tensor name, what the text takes for granted; the library checks it at each launch.
        passes: parity passes of the Rust front end that the entry names.
        baked: constants of the kernel whose values are in the text.
        kernel, file: the Python function and the base name of its file.
    """

    source: str
    module: str
    entry: str
    parameters: tuple[Parameter, ...]
    generics: tuple[Generic, ...]
    dtype_generic: str | None
    holds: dict[str, Holds]
    passes: tuple[str, ...]
    baked: tuple[str, ...]
    kernel: str
    file: str

    @property
    def descriptors(self) -> tuple[Parameter, ...]:
        """Parameters that the C interface takes as descriptors, in order."""
        return tuple(p for p in self.parameters if p.kind in ("tensor", "pointer", "list"))

    @property
    def scalars(self) -> tuple[Parameter, ...]:
        """Parameters that the C interface takes as scalars, in order; what a descriptor brings is not among them."""
        return tuple(p for p in self.parameters if p not in self.descriptors and not p.folded)

    @property
    def constants(self) -> tuple[int, ...]:
        """Values of the const generics for the translated launch."""
        return tuple(generic.value for generic in self.generics)

    def renamed(self, name: str) -> Translation:
        """Return the same text with another name of its module and entry."""
        source = self.source.replace(f"pub mod {self.module} {{", f"pub mod {name} {{", 1)
        source = source.replace(f"pub unsafe fn {self.entry}", f"pub unsafe fn {name}", 1)
        return replace(self, source=source, module=name, entry=name)
