# SPDX-License-Identifier: MIT
"""The process that captures and executes cuTile Python's launches: ``python -m pytest_cutile_rs.peers.worker FD``.

It patches ``torch.cuda`` while it captures, which must not happen in the process that runs tests. Requests and answers
are pickles on one inherited socket; what the op or TileGym prints goes to stderr. It ends when its parent does.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.peers.executing import Executed
from pytest_cutile_rs.peers.executing import execute


@dataclasses.dataclass(frozen=True)
class Request:
    """Capture one case: ``module`` is where the suite's class is defined, ``op`` the suite's name."""

    module: str
    op: str
    case: Case
    arch: str


@dataclasses.dataclass(frozen=True)
class Execute:
    """Execute one case on the CPU; the fields are `Request`'s, and the run's seed."""

    module: str
    op: str
    case: Case
    arch: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Failure:
    """The answer to a request that raised.

    Attributes:
        refused: whether the op itself raised, or cuTile Python's front end.
        message: the error in one line.
        trace: the traceback.
        kind: of a fault in one of the op's kernels, as in ``PeerFault``; empty for anything else.
    """

    refused: bool
    message: str
    trace: str
    kind: str = ""


def find_suite(module: str, op: str) -> OpSuite:
    """The suite of ``op``: the one that ``module`` holds, else the built-in one."""
    from pytest_cutile_rs.suites import suites

    held = vars(importlib.import_module(module)).values()
    for value in held:
        if isinstance(value, OpSuite) and value.name == op:
            return value
    return suites()[op]


def answer(request: Request) -> list[dict[str, Any]]:
    """Capture the launches of a case and compile each to bytecode."""
    from tilegym_rs_backend.port import capture as capturing
    from tilegym_rs_backend.port.signature import describe_arguments

    suite = find_suite(request.module, request.op)
    tilegym = capturing.import_tilegym()
    tilegym.set_backend("cutile")
    call = suite.inputs(dataclasses.replace(request.case, data="empty"), "meta", 0)
    sizes: list[int] = []

    def first(configs: Any) -> int:
        sizes.append(len(configs))
        return 0

    try:
        captured = capturing.capture(lambda: suite.call(call, backend="cutile"), request.arch, tuning=first)
        bytecodes = [capturing.bytecode(launch) for launch in captured]  # some architectures lack a dtype
    except Exception as error:
        raise Refusal(f"{type(error).__name__}: {error}") from error
    return [
        {
            "name": launch.name,
            "grid": launch.grid,
            "hints": dict(launch.hints),
            "bytecode": bytecode,
            "constants": {name: plain(value) for name, value in launch.constants.items()},
            "arguments": dict(describe_arguments(launch)),
            "configurations": sizes[0] if sizes else 0,
        }
        for launch, bytecode in zip(captured, bytecodes, strict=True)
    ]


def answer_execute(request: Execute) -> Executed:
    """Execute a case."""
    from tilegym_rs_backend.errors import CompileError
    from tilegym_rs_backend.tile_ir.execute import ExecutionError

    suite = find_suite(request.module, request.op)
    try:
        return execute(suite, request.case, request.arch, request.seed)
    except ExecutionError as error:
        raise Fault(error.kind, str(error)) from error
    except CompileError as error:
        raise Fault("compile", str(error)) from error
    except Exception as error:
        raise Refusal(f"{type(error).__name__}: {error}") from error


def plain(value: Any) -> Any:
    """A constant as JSON can carry it."""
    return value if isinstance(value, (bool, int, float, str)) else str(value)


class Refusal(Exception):
    """The op under cuTile Python raised, or its front end refused a kernel."""


class Fault(Exception):
    """A kernel of the op's has a fault, of this kind."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def serve(connection: Any) -> None:
    """Answer requests until the other end is closed."""
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        try:
            reply: Any = answer_execute(request) if isinstance(request, Execute) else answer(request)
        except Fault as error:
            reply = Failure(False, str(error), traceback.format_exc(), error.kind)
        except Refusal as error:
            reply = Failure(True, str(error), traceback.format_exc())
        except Exception as error:  # the worker outlives any single case
            reply = Failure(False, f"{type(error).__name__}: {error}", traceback.format_exc())
        connection.send(reply)


if __name__ == "__main__":
    os.dup2(2, 1)
    # Under its importable name, so that both ends pickle the same classes.
    importlib.import_module("pytest_cutile_rs.peers.worker").serve(Connection(int(sys.argv[1])))
