# SPDX-License-Identifier: MIT
"""Print all that is known of an op: signature, kernels with parameters and generics, cases, tolerances, policies."""

from __future__ import annotations

import argparse
import importlib
import inspect
from typing import Any

from . import print_json

HELP = "print all that is known of an op"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("op", metavar="OP", nargs="?", help="without one: the native ops")
    parser.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Print it."""
    from ..registration import native_ops

    if options.op is None:
        print_json(list(native_ops())) if options.json else print("\n".join(native_ops()))
        return 0
    if options.op not in native_ops():
        print(f"tilegym-rs describe: no native op {options.op!r}; there are: {', '.join(native_ops())}")
        return 2
    facts = describe(options.op)
    if options.json:
        print_json(facts)
    else:
        _print(facts)
    return 0


def describe(op: str) -> dict[str, Any]:
    """Return the facts about a native op, from their one source each."""
    from ..library import get_library
    from ..registration import implementation

    function = implementation(op)
    kernels = [entry for entry in get_library().describe["kernels"] if entry["source"].startswith(f"src/ops/{op}.rs")]
    facts: dict[str, Any] = {
        "op": op,
        "backend": "cutile_rs",
        "signature": f"{op}{inspect.signature(function)}",
        "documentation": inspect.getdoc(function),
        "formula": inspect.getdoc(importlib.import_module(function.__module__)),
        "kernels": kernels,
        "files": {
            **({"kernels": f"rust/src/ops/{op}.rs"} if kernels else {}),
            "op": f"tilegym_rs_backend/ops/{op}.py",
            "cases": f"pytest_cutile_rs/cases/{op}.py",
        },
    }
    facts.update(_cases(op))
    return facts


def _cases(op: str) -> dict[str, Any]:
    from pytest_cutile_rs.suites import suites

    suite = suites().get(op)
    if suite is None:
        return {}
    dtypes = sorted({case.dtype for case in suite.cases})
    return {
        "cases": [case.id for case in suite.cases],
        "dtypes": dtypes,
        "tolerance": {
            dtype: {"rtol": each.rtol, "atol": each.atol, "why": each.why} for dtype, each in suite.tolerance.items()
        },
        "nan_policy": suite.nan_policy,
        "rounding_policy": suite.rounding_policy,
    }


def _print(facts: dict[str, Any]) -> None:
    print(facts["signature"])
    print()
    print(facts["documentation"])
    print()
    for kernel in facts["kernels"]:
        print(f"kernel {kernel['name']} ({kernel['source']})")
        print(f"  {kernel['cdef']}")
    if "cases" in facts:
        print(f"\n{len(facts['cases'])} parity cases over {', '.join(facts['dtypes'])}")
        print(f"NaN: {facts['nan_policy']}")
        print(f"rounding: {facts['rounding_policy']}")
        for dtype, each in facts["tolerance"].items():
            print(f"tolerance {dtype}: rtol {each['rtol']:g}, atol {each['atol']:g} ({each['why']})")
