# SPDX-License-Identifier: MIT
"""Find an op's fastest configurations for shapes, or show, carry and forget what was found.

`tune OP` measures on the GPU. `tune OP --offline --arch sm_90` needs none: it compiles the likeliest candidates into
the cubin store, drops those that spill or do not fit, and ranks the rest, so that a GPU host only measures
(`tilegym-rs bundle --tuned` carries it there). `tune show [OP]`, `tune export FILE`, `tune import FILE`,
`tune clear [OP]` treat what is stored.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from ..errors import TilegymRsError
from ..tuning.space import text
from . import print_json
from .warmup import parameters
from .warmup import shapes_of

if TYPE_CHECKING:
    from ..tune import Asked
    from ..tuning.choices import Choice

HELP = "measure an op's configurations, or prepare that without a GPU"
_STORED = ("show", "export", "import", "clear")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("what", metavar="OP|show|export|import|clear")
    parser.add_argument("name", nargs="?", metavar="OP|FILE", help="what to show or clear; the file of export, import")
    parser.add_argument("--shapes", metavar="4096x4096x4096,...", help="default: the shapes of the op's parity cases")
    parser.add_argument("--dtypes", default="f16,bf16", metavar="f16,bf16", help="default: %(default)s")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="keyword argument of the op")
    parser.add_argument("--offline", action="store_true", help="compile, prune and rank; launch nothing")
    parser.add_argument("--arch", metavar="sm_90", help="with --offline: the architecture (default sm_90)")
    parser.add_argument("--compiled", type=int, metavar="N", help="candidates to compile of each problem")
    parser.add_argument("--measured", type=int, metavar="N", help="candidates to measure of each problem")
    parser.add_argument("--again", action="store_true", help="also what the store has")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    if options.what in _STORED:
        return _stored(options)
    from ..registration import native_ops

    if options.what not in native_ops():
        raise TilegymRsError(f"no native op {options.what!r}; there are: {', '.join(native_ops())}")
    choices = [_one(asked, options) for asked in _problems(options)]
    if options.json:
        print_json([choice.to_json() for choice in choices])
    return 0


def _problems(options: argparse.Namespace) -> list[Asked]:
    """Return the distinct questions that the op asks for these shapes and dtypes."""
    from ..warm import questions

    arch = options.arch if options.offline else None
    try:
        found = questions(
            options.what,
            shapes_of(options.what, options.shapes),
            options.dtypes.split(","),
            arch=arch,
            **parameters(options.param),
        )
    except (TypeError, ValueError) as error:  # how an op refuses a shape or an argument
        raise TilegymRsError(str(error)) from error
    if not found:
        raise TilegymRsError(f"{options.what} has nothing to choose for these shapes and dtypes")
    return found


def _one(asked: Asked, options: argparse.Namespace) -> Choice:
    from ..tune import plan_offline
    from ..tune import search

    limits: dict[str, Any] = {}
    progress = _Progress(asked)
    if options.offline:
        if options.compiled:
            limits["compiled"] = options.compiled
        choice = plan_offline(asked, again=options.again, progress=progress, **limits)
    else:
        if options.measured:
            limits["measured"] = options.measured
        choice = search(_on_gpu(asked), again=options.again, progress=progress, **limits)
    progress.end()
    if not options.json:
        _print(choice, rows=12)
    return choice


def _on_gpu(asked: Asked) -> Asked:
    import dataclasses

    import torch

    from ..target import target_of_device

    if not torch.cuda.is_available():
        raise TilegymRsError("there is no GPU to measure on; --offline compiles, prunes and ranks without one")
    return dataclasses.replace(asked, target=target_of_device(torch.cuda.current_device()))


class _Progress:
    """One line that is written over, on a terminal; elsewhere every tenth candidate."""

    def __init__(self, asked: Asked) -> None:
        self._words = text(asked.space.bucket(asked.problem))
        self._name = asked.space.name
        self._open = False

    def __call__(self, done: int, count: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{self._name} {self._words}: {done} of {count} compiled", end="", file=sys.stderr, flush=True)
            self._open = True
        elif done % 10 == 0 or done == count:
            print(f"{self._name} {self._words}: {done} of {count} compiled", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        if self._open:
            print(file=sys.stderr)


def _stored(options: argparse.Namespace) -> int:
    from ..tune import forget
    from ..tuning.here import choices

    store = choices()
    name = options.name or ""
    if options.what == "clear":
        print(f"{store.clear(name)} choices and plans cleared")
        forget()
    elif options.what == "show":
        found = list(store.every(name))
        if options.json:
            print_json([choice.to_json() for choice in found])
        for choice in found if not options.json else ():
            _print(choice)
        if not found and not options.json:
            print("nothing is stored; `tilegym-rs tune OP` measures, `--offline` prepares it")
    elif not name:
        raise TilegymRsError(f"tune {options.what} needs a file: tilegym-rs tune {options.what} FILE")
    elif options.what == "export":
        print(f"{store.export(Path(name))} choices and plans written to {name}")
    else:
        print(f"{store.import_file(Path(name))} choices and plans taken over from {name}")
        forget()
    return 0


def _print(choice: Choice, rows: int = 0) -> None:
    """Print a choice or plan: where it holds, what was chosen; with `rows`, so many of the candidates tried."""
    key = choice.key
    where = f"{key.arch} plan" if key.planned else f"{key.gpu}, driver {key.driver}"
    print(f"{key.space} {text(key.bucket)} [{where}]")
    print(f"  {text(choice.config)}" + (f": {choice.us:g} us (default {choice.default_us:g})" if choice.us else ""))
    fit = sum(1 for each in choice.tried if not each.why)
    print(f"  {choice.space_size} configurations, {len(choice.tried)} compiled, {fit} fit; {choice.seconds:.1f} s")
    for each in choice.tried[:rows]:
        times = f"{each.us:9.2f}" if each.us else " " * 9
        print(f"  {times} us measured {each.predicted_us:9.2f} predicted  {text(each.config)}  {each.why}")
