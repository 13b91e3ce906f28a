# SPDX-License-Identifier: MIT
"""What is to be ported of an op: its launches, variants, constants, dtypes, tolerances, tuning spaces and baselines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..toolchain import packages
from .capture import CapturedLaunch
from .keys import key_of
from .launches import Chosen
from .launches import case_launches
from .launches import chosen
from .launches import representatives
from .signature import describe_arguments

PACKAGES = ("cuda-tile", "tilegym", "tilegym-rs", "torch")
PEERS = ("cutile-python",)
"""Implementations that a measurement compares with; the fastest of them is a variant's baseline."""
NOT_COMPARED = {"triton-tileir": "not compared: its peer does not exist yet"}


def versions() -> dict[str, str]:
    """Versions of the packages that an analysis depends on."""
    return {name: packages.installed(name) or "not installed" for name in PACKAGES}


def analyze(suite: Any, arch: str, per_kernel: int) -> tuple[dict[str, Any], list[Chosen]]:
    """Capture an op's launches and say what there is to port; see analysis.schema.json.

    Args:
        suite: the op's parity cases.
        arch: to port for.
        per_kernel: launches that are compared of each kernel.
    """
    unreachable: list[str] = []

    def failed(case: Any, error: Exception) -> None:
        unreachable.append(f"{case.id}: {type(error).__name__}: {error}".splitlines()[0])

    found = chosen(suite, arch, per_kernel, failed)
    variants, tuning = _variants(suite, suite.arch_for(arch))
    numbers: dict[str, itertools.count[int]] = {}
    launches = []
    for each in found:
        number = next(numbers.setdefault(each.launch.name, itertools.count()))
        launches.append(_launch(each, f"{each.launch.name.strip('_')}-{number}"))
    analysis = {
        "op": suite.name,
        "arch": arch,
        "versions": versions(),
        "launches": launches,
        "kernels": _kernels(found),
        "variants": variants,
        "dtypes": sorted({case.dtype for case in representatives(suite)}),
        "tolerances": {dtype: vars(each) for dtype, each in suite.tolerance.items()},
        "tuning": tuning,
        "unreachable": unreachable,
    }
    return analysis, found


def captured_again(suite: Any, analysis: dict[str, Any]) -> list[Chosen]:
    """Capture an earlier analysis's launches; empty where they are not the same ones any more."""
    arch = suite.arch_for(analysis["arch"])
    cases = {case.id: case for case in suite.cases}
    seen: dict[tuple[str, int], Sequence[Any]] = {}
    found = []
    for kept in analysis["launches"]:
        name, tuning = kept["case"], kept["tuning"]
        if name not in cases:
            return []
        if (name, tuning) not in seen:
            seen[name, tuning] = case_launches(suite, cases[name], arch, tuning)
        launches, position = seen[name, tuning], kept["position"]
        if position >= len(launches) or key_of(launches[position]) != kept["key"]:
            return []
        found.append(Chosen(cases[name], tuning, position, launches[position]))
    return found


def _launch(each: Chosen, stem: str) -> dict[str, Any]:
    launch = each.launch
    return {
        "stem": stem,
        "kernel": launch.name,
        "module": launch.module,
        "case": each.case.id,
        "tuning": each.tuning,
        "position": each.position,
        "key": key_of(launch),
        "grid": list(launch.grid),
        "hints": dict(launch.hints),
        "constants": {name: _plain(value) for name, value in launch.constants.items()},
        "arguments": {n: t for n, t in describe_arguments(launch).items() if n not in launch.constants},
    }


def _kernels(found: Sequence[Chosen]) -> list[dict[str, Any]]:
    kernels: dict[tuple[str, str], dict[str, Any]] = {}
    for each in found:
        launch = each.launch
        code = launch.kernel._annotated_function.pyfunc.__code__
        entry = kernels.setdefault(
            (launch.module, launch.name),
            {
                "kernel": launch.name,
                "module": launch.module,
                "file": code.co_filename,
                "line": code.co_firstlineno,
                "grids": [],
                "constants": {},
            },
        )
        _add(entry["grids"], list(launch.grid))
        for name, value in launch.constants.items():
            _add(entry["constants"].setdefault(name, []), _plain(value))
    return list(kernels.values())


def _variants(suite: Any, arch: str) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """The ways to call an op, the kernels of each one's smallest case, and what those kernels' tuners would search."""
    cases: dict[str, list[Any]] = {}
    for case in suite.cases:
        if not case.raises:
            cases.setdefault(_variant(case), []).append(case)
    smallest: dict[str, Any] = {}
    for case in representatives(suite):
        smallest.setdefault(_variant(case), case)
    spaces: dict[str, list[dict[str, Any]]] = {}
    variants = []
    for name, of_variant in cases.items():
        launches = _tuned(suite, smallest.get(name), arch)
        here: dict[str, list[dict[str, Any]]] = {}
        for launch in launches:
            if launch.candidate:
                here.setdefault(launch.name, []).append(_configuration(launch.config))
        for kernel, space in here.items():
            spaces.setdefault(kernel, space)
        variants.append(
            {
                "variant": name,
                "cases": len(of_variant),
                "kernels": sorted({launch.name for launch in launches}),
                "baseline": {"peer": PEERS[0], "peers": list(PEERS), "not_compared": dict(NOT_COMPARED)},
            }
        )
    return variants, spaces


def _tuned(suite: Any, case: Any, arch: str) -> list[CapturedLaunch]:
    """A case's launches with every candidate of its tuners; none where it cannot be captured."""
    if case is None:
        return []
    try:
        return case_launches(suite, case, arch, "all")
    except Exception:  # what the op raises
        return []


def _variant(case: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in case.params) or "default"


def _configuration(config: Any) -> dict[str, Any]:
    members = config if isinstance(config, dict) else getattr(config, "__dict__", None) or {"configuration": config}
    return {str(name): _plain(value) for name, value in members.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _add(values: list[Any], value: Any) -> None:
    if value not in values:
        values.append(value)
