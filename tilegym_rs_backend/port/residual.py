# SPDX-License-Identifier: MIT
"""The residual-performance report: what of a launch is not its peer's, first on the device, then on the host.

Equal machine code, grid, hints and arguments are equal device time; whatever is left of a difference is the host's:
how it launches, which configuration its tuner chose, what its wrapper does around the launch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..tile_ir.cubin import read_cubin
from ..tile_ir.features import MEMORY_FAMILY
from ..tile_ir.machine_code import differing_instructions
from ..tile_ir.model import Function
from ..tile_ir.verdict import compare
from . import files
from .comparison import kernel_of

DEVICE, HOST, NOTHING = "device", "host", "nothing"


def of_launch(
    result: dict[str, Any],
    cubins: dict[str, bytes],
    functions: tuple[Function, Function] | None,
    arch: str,
    launching: list[str],
) -> dict[str, Any]:
    """Return the report of one launch; JSON types.

    Args:
        result: the launch's row of the summary.
        cubins: ``"ours"`` and ``"theirs"``, where both were assembled.
        functions: both sides' Tile IR.
        arch: compiled for.
        launching: how grid, hints or order of the launches differ, as the host-side stage saw them.
    """
    device: dict[str, Any] = {"memory_family": [], "code": {}}
    if functions is not None:
        found = compare(*functions, arch, ordered=True).differences
        device["memory_family"] = [str(each) for each in found if each.category == MEMORY_FAMILY]
    if cubins:
        mine, peer = (read_cubin(cubins[side]).only() for side in ("ours", "theirs"))
        differing, count = differing_instructions(mine.text, peer.text)
        ours, theirs = mine.resources(), peer.resources()
        device["code"] = {"differing_instructions": differing, "instructions": count} | {
            name: [ours[name], theirs[name]] for name in ours if ours[name] != theirs[name]
        }
    same = result["verdict"] == "SASS-IDENTICAL"
    where = DEVICE if not same else HOST if launching else NOTHING
    return {
        "what": result["stem"],
        "where": where,
        "conclusion": _conclusion(where, device, launching),
        "device": device,
        "host": {"launch": launching, "tuning": [], "wrapper": []},
    }


def of_case(case: dict[str, Any], identical: bool) -> dict[str, Any]:
    """Return the report of one case that the gate did not pass.

    Args:
        case: one of the gate's results, as ``perf.json`` has it.
        identical: whether all the op's launches have equal machine code.
    """
    data = case.get("data", {})
    choices = data.get("choices") or {}
    mine, peer = ((choices.get(side) or {}).get("launches") or [] for side in ("rs", "py"))
    launching = [
        f"launch {i}: {name} ours {a.get(name)}, theirs {b.get(name)}"
        for i, (a, b) in enumerate(zip(mine, peer, strict=False))
        for name in ("grid", "hints")
        if a.get(name) != b.get(name)
    ]
    if len(mine) != len(peer):
        launching.append(f"ours launches {len(mine)} kernels, theirs {len(peer)}")
    tuning = [
        f"launch {i}: constants ours {a.get('constants')}, theirs {b.get('constants')}"
        for i, (a, b) in enumerate(zip(mine, peer, strict=False))
        if b.get("constants") and a.get("constants") != b.get("constants")
    ]
    host = data.get("host_us") or {}
    wrapper = [f"host time of a call: {side} {time:.1f} us" for side, time in host.items() if isinstance(time, float)]
    ratio = data.get("ratio")
    where = HOST if identical else DEVICE
    return {
        "what": str(case.get("case")),
        "where": where,
        "conclusion": f"{case.get('status')} at t_py/t_rs {ratio}: {case.get('reason')}; "
        + _conclusion(where, {"memory_family": [], "code": {}}, launching),
        "device": {"memory_family": [], "code": {}, "ratio": ratio, "us": data.get("us") or {}},
        "host": {"launch": launching, "tuning": tuning, "wrapper": wrapper},
    }


def _conclusion(where: str, device: dict[str, Any], launching: list[str]) -> str:
    if where == NOTHING:
        return "machine code, grid and hints are equal: no residual"
    if where == HOST:
        return f"the machine code is equal, what is left is the host's: {'; '.join(launching) or 'tuning or wrapper'}"
    if device["memory_family"]:
        return "other memory operations: " + "; ".join(device["memory_family"])
    code = device["code"]
    if not code:
        return "the machine code was not compared"
    return (
        f"{code['differing_instructions']} of {code['instructions']} instructions differ, memory operations are equal"
    )


def text_of(one: dict[str, Any]) -> str:
    """One report for people."""
    lines = [f"{one['what']}: {one['where']}: {one['conclusion']}"]
    for side in ("device", "host"):
        lines += [f"  {side} {name}: {value}" for name, value in one[side].items() if value]
    return "\n".join(lines) + "\n"


def of_files(folder: Path, result: dict[str, Any], arch: str, launching: list[str]) -> dict[str, Any]:
    """Return the report of a launch whose files lie in an op's folder."""
    stem = result["stem"]
    cubins = {side: (folder / files.cubin_file(stem, side)).read_bytes() for side in files.SIDES}
    ours, theirs = (kernel_of(folder / files.bytecode_file(stem, side)) for side in files.SIDES)
    return of_launch(result, cubins, (ours, theirs) if ours and theirs else None, arch, launching)


def text_of_all(found: list[dict[str, Any]]) -> str:
    """The text of residual.txt."""
    return "\n".join(text_of(one) for one in found) or files.NONE
