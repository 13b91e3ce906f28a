# SPDX-License-Identifier: MIT
"""Check the platform, packages, cargo, cc, libclang, toolkit, driver, GPU and cache; each finding comes with its fix.

Exit status: 0 the backend can work, 1 it can on a CPU only, 2 it cannot.
"""

from __future__ import annotations

import argparse

from . import print_json

HELP = "check everything the backend stands on"

_MARKS = {"ok": "ok  ", "note": "note", "no-gpu": "CPU ", "fail": "FAIL"}
_VERDICTS = ("the backend can work here", "the backend can work here, on a CPU only", "the backend cannot work here")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Examine and print."""
    from ..toolchain import doctor

    findings = doctor.examine()
    status = doctor.verdict(findings)
    if options.json:
        print_json({"exit": status, "verdict": _VERDICTS[status], "findings": [vars(each) for each in findings]})
        return status
    for finding in findings:
        print(f"{_MARKS[finding.status]}  {finding.layer:<16} {finding.text}")
        if finding.fix:
            print(f"{'':22} fix: {finding.fix}")
    print(_VERDICTS[status])
    return status
