# SPDX-License-Identifier: MIT
"""What a load or a store must not do: read what nobody wrote, race with another block, overtake a store.

A store is an event, numbered through the launch. A token is the set of events that what hangs on it is ordered after;
a load (or a further store) of an element that its own block stored must have that event in its token. An element that
another block stored in the same launch must not be touched at all, unless this block has synchronized: an acquiring
atomic or load came before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegym_rs_backend.tile_ir.execute.access import Access
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.memory import Allocation

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.program import Run

ATOMIC = -1


def before_load(run: Run, allocation: Allocation, access: Access, size: int, token: int, site: Site) -> None:
    """Raise ExecutionError unless these elements may be read."""
    if allocation.written is None and allocation.shadow is None:
        return
    access = _granular(allocation, access, size)
    if allocation.written is not None:
        filled = access.get(allocation.written)
        if not filled.all():
            raise site.error(
                "uninitialized",
                f"reads {allocation.name or 'memory'} where nobody has written: store it first, or mask the load",
                run.coordinates(_first(~filled, access.blocks)),
            )
    if allocation.shadow is None:
        return
    writer = access.get(allocation.shadow.writer)
    if not writer.any():
        return
    own = access.blocks + 1
    foreign = (writer != 0) & (writer != own)
    if foreign.any():
        _foreign(run, allocation, foreign, writer, access, site, "reads")
    _ordered(run, allocation, writer == own, access, token, site, "load")


def before_store(run: Run, allocation: Allocation, access: Access, size: int, token: int, site: Site) -> None:
    """Raise ExecutionError unless these elements may be stored, and note that they are."""
    known = allocation.shadow is not None
    shadow = allocation.shadowed()
    allocation.refine(size)
    shadow = allocation.shadowed()
    access = _granular(allocation, access, size)
    own = (access.blocks + 1).astype(np.int32)
    if known:
        writer = access.get(shadow.writer)
        if writer.any():
            foreign = (writer != 0) & (writer != own)
            if foreign.any():
                _foreign(run, allocation, foreign, writer, access, site, "writes")
            _ordered(run, allocation, writer == own, access, token, site, "store")
    access.set(shadow.writer, own)
    if not access.distinct:
        writer = access.get(shadow.writer)
        foreign = writer != own
        if foreign.any():
            _foreign(run, allocation, foreign, writer, access, site, "writes")
    access.set(shadow.event, run.event)
    if allocation.written is not None:
        access.set(allocation.written, True)


def before_atomic(run: Run, allocation: Allocation, access: Access, size: int, site: Site) -> None:
    """Raise ExecutionError unless these elements may be changed atomically, and note that they are."""
    allocation.refine(size)
    shadow = allocation.shadowed()
    access = _granular(allocation, access, size)
    if allocation.written is not None and not access.get(allocation.written).all():
        missing = ~access.get(allocation.written)
        raise site.error(
            "uninitialized",
            f"changes {allocation.name or 'memory'} where nobody has written: fill it first",
            run.coordinates(_first(missing, access.blocks)),
        )
    writer = access.get(shadow.writer)
    foreign = (writer > 0) & (writer != access.blocks + 1)
    if foreign.any():
        _foreign(run, allocation, foreign, writer, access, site, "changes")
    access.set(shadow.writer, ATOMIC)
    access.set(shadow.event, run.event)


def _granular(allocation: Allocation, access: Access, size: int) -> Access:
    allocation.refine(size)
    factor = size // allocation.granule
    return access if factor == 1 else access.scaled(factor)


def _foreign(
    run: Run, allocation: Allocation, foreign: Array, writer: Array, access: Access, site: Site, verb: str
) -> None:
    blocks = np.broadcast_to(access.blocks, foreign.shape)
    foreign = foreign & ~run.synchronized(blocks)
    if not foreign.any():
        return
    other = _first(foreign, writer)
    who = "an atomic operation changed" if other == ATOMIC else f"block {run.coordinates(other - 1)} wrote"
    raise site.error(
        "race",
        f"{verb} an element of {allocation.name or 'memory'} that {who} in the same launch, and nothing orders the "
        "two: blocks must write disjoint elements, or use atomics",
        run.coordinates(_first(foreign, access.blocks)),
    )


def _ordered(run: Run, allocation: Allocation, own: Array, access: Access, token: int, site: Site, what: str) -> None:
    if not own.any() or allocation.shadow is None:
        return
    events = np.broadcast_to(access.get(allocation.shadow.event), own.shape)
    for event in np.unique(events[own]).tolist():
        if not token >> (event - run.first_event) & 1:
            late = own & (events == event)
            raise site.error(
                "unordered",
                f"the {what} touches an element of {allocation.name or 'memory'} that this block stored before, and "
                f"its token does not come from that store: join the store's token into the {what}'s",
                run.coordinates(_first(late, access.blocks)),
            )


def _first(wrong: Array, values: Array) -> int:
    wrong, values = np.broadcast_arrays(wrong, values)
    return int(values[wrong].flat[0])
