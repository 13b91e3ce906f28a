# SPDX-License-Identifier: MIT
"""Runs of the port's stages on programs of our own, for the tests of the stages."""

from __future__ import annotations

import cuda.tile as ct
import refused_kernels
import torch
from own_ported import PROGRAMS

from tilegym_rs_backend.port.performance import judged
from tilegym_rs_backend.port.pipeline import Pipeline
from tilegym_rs_backend.port.program import ProgramSuite


def asked(grid, kernel, args):
    ct.launch(torch.cuda.current_stream(), grid, kernel, args)


def program(name):
    return ProgramSuite(lambda device: PROGRAMS[name](asked, device), name)


def waits(device):
    asked((4,), refused_kernels.waits, (torch.zeros(1024, device=device), 256))


class FakeGate:
    """A GPU that gives what it is told to."""

    def __init__(self, *cases):
        self.cases, self.asked = list(cases), 0

    def where(self, arch):
        return "a fake"

    def why(self, arch):
        return ""

    def measure(self, op, arch, folder):
        self.asked += 1
        return judged(self.cases)


def run(out, *suites, say=None, **options):
    lines = []

    def both(line):
        lines.append(line)
        if say is not None:
            say(line)

    summary = Pipeline("sm_90", out, **options).run({suite.name: suite for suite in suites}, both)
    return summary, lines


def without_map(kernels):
    """`known`, of what this process has entered alone."""
    return lambda key: kernels._entries.get(key)


def case(name, status, reason, **data):
    return {"case": name, "status": status, "reason": reason, "verdict": f"VERDICT: {status} {reason}", "data": data}


def timed(name):
    suite = program(name)
    suite.cases = (type(suite.cases[0])(name, perf=True),)
    return suite
