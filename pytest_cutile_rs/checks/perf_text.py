# SPDX-License-Identifier: MIT
"""The long message of a perf item that did not pass: everything one would ask next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from pytest_cutile_rs.gate import CaseVerdict
    from pytest_cutile_rs.timing import Record

MAX_TRIED = 12
"""Candidates of a search that the message lists, the fastest first."""

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
        interval = f"95 % interval {verdict.low:.3f} to {verdict.high:.3f}"
        why = f"threshold {verdict.threshold:g} ({verdict.reason}; {verdict.blocks} blocks)"
        lines.append(_row("speedup", f"{verdict.ratio:.3f}, {interval}, {why}"))
    for side in record.sides:
        lines.append(_row(NAMES.get(side, side), _side(record, side)))
        lines += [_row("", f"chosen: {_launch(launch)}") for launch in choices.get(side, {}).get("launches", ())]
        for search in choices.get(side, {}).get("tuning", ()):
            lines.append(_row("", f"tuned: {_search(search)}"))
            lines += [_row("", _candidate(each)) for each in search.get("tried", ())[:MAX_TRIED]]
    lines += [_row(when, _machine(record.machine.get(when) or {})) for when in ("before", "after")]
    floor = "not measured" if noise_floor is None else f"{noise_floor:.2%}"
    lost = dict(record.discarded) or "none"
    lines.append(_row("noise floor", f"{floor}; {record.attempted} blocks, discarded {lost}"))
    return "\n".join([*lines, _row("seed", f"{seed}; timer {record.timer}")])


def _row(name: str, text: str) -> str:
    return f"{name:<15}{text}"


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
    words = f"{search['chosen']} of {search['configurations']} configurations in {search['seconds']:g} s"
    if "tried" not in search:
        return words
    measured = sum(1 for each in search["tried"] if each["us"])
    return f"{words}, {search['compiled']} compiled, {measured} measured, {search['default_us']:g} us by default"


def _candidate(tried: Mapping[str, Any]) -> str:
    measured = f"{tried['us']:.2f} us (predicted {tried['predicted_us']:.2f})" if tried["us"] else ""
    return "  ".join(word for word in (measured or tried["why"] or "not measured", tried["config"]) if word)


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
