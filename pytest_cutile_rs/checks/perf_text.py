# SPDX-License-Identifier: MIT
"""The long message of a perf item that did not pass: everything one would ask next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from pytest_cutile_rs.gate import CaseVerdict
    from pytest_cutile_rs.timing import Record

NAMES = {"py": "cuTile Python", "rs": "ours", "torch": "torch"}


def details(
    text: str,
    verdict: CaseVerdict,
    record: Record,
    choices: Mapping[str, Mapping[str, Any]],
    seed: int,
    noise_floor: float | None,
) -> str:
    """Ratio with its interval and threshold, times and kernels of each side, clocks, seed."""
    lines = [text, ""]
    if verdict.ratio == verdict.ratio:
        lines.append(
            f"speedup   {verdict.ratio:.3f}, 95 % interval {verdict.low:.3f} to {verdict.high:.3f}, "
            f"threshold {verdict.threshold:g} ({verdict.reason}; {verdict.blocks} blocks)"
        )
    for side in record.sides or ("py", "rs"):
        lines.append(f"{NAMES.get(side, side):<9} {_side(record, side)}")
        lines += [f"          chosen: {_launch(launch)}" for launch in choices.get(side, {}).get("launches", ())]
        lines += [f"          tuned: {_search(search)}" for search in choices.get(side, {}).get("tuning", ())]
    for when in ("before", "after"):
        lines.append(f"{when:<9} {_machine(record.machine.get(when) or {})}")
    floor = "not measured" if noise_floor is None else f"{noise_floor:.2%}"
    lines.append(f"noise     floor {floor}; {record.attempted} blocks, discarded {dict(record.discarded) or 'none'}")
    lines.append(f"seed      {seed}; timer {record.timer}")
    return "\n".join(lines)


def _side(record: Record, side: str) -> str:
    names = ", ".join(record.kernels.get(side, ())) or "no kernel seen"
    time = record.median_us(side)
    host = record.host_us.get(side)
    shown = f"{time:.2f} us" if time == time else "no time"
    return f"{shown}{'' if host is None else f' (host {host:.1f} us)'}; kernels: {names}"


def _launch(launch: Mapping[str, Any]) -> str:
    words = [f"{launch['kernel']} grid {launch.get('grid')}"]
    words += [f"{key} {dict(launch[key])}" for key in ("hints", "constants") if launch.get(key)]
    return ", ".join(words)


def _search(search: Mapping[str, Any]) -> str:
    return f"{search['chosen']} of {search['configurations']} configurations in {search['seconds']:g} s"


def _machine(state: Mapping[str, Any]) -> str:
    if not state:
        return "clocks unknown (no NVML)"
    units = (("sm_mhz", "SM {} MHz"), ("mem_mhz", "memory {} MHz"), ("temperature_c", "{} C"), ("power_w", "{:.0f} W"))
    words = [form.format(state[key]) for key, form in units if key in state]
    if state.get("throttle"):
        words.append(f"throttled by {', '.join(state['throttle'])}")
    if state.get("other_processes"):
        words.append(f"{state['other_processes']} other processes on the GPU")
    if state.get("mig"):
        words.append("MIG on")
    return ", ".join(words) or str(dict(state))
