# SPDX-License-Identifier: MIT
"""Machine code of two bytecodes that should be equal, where tileiras is not deterministic for every kernel."""

from __future__ import annotations

from ..artifacts import assemble
from ..tile_ir.cubin import read_cubin
from ..tile_ir.machine_code import Sameness
from ..tile_ir.machine_code import compare_code


def meeting(ours: bytes, theirs: bytes, cubins: tuple[bytes, bytes], arch: str, most: int) -> tuple[bytes, bytes]:
    """Return assemblies of two bytecodes with equal code if up to ``most`` of each side have some, else ``cubins``.

    A difference of length is no matter of chance in what was seen, and is not tried again.

    Args:
        ours, theirs: the bytecodes.
        cubins: the first assembly of each.
        arch: ``"sm_90"``.
        most: assemblies of each side.
    """
    seen = ([cubins[0]], [cubins[1]])
    first, second = (read_cubin(image).only() for image in cubins)
    while True:
        for mine in seen[0]:
            for peer in seen[1]:
                if compare_code(read_cubin(mine).only(), read_cubin(peer).only()) is Sameness.IDENTICAL:
                    return mine, peer
        if len(first.text) != len(second.text) or len(seen[0]) >= most:
            return cubins
        for images, code in zip(seen, (ours, theirs), strict=True):
            images.append(assemble(code, arch, fresh=True))
