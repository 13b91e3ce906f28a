# SPDX-License-Identifier: MIT
"""Compile (and, on a GPU, load-test) the kernels an op launches for the given shapes, before anything calls it.

A shape is the op's own: softmax ROWSxCOLUMNS, silu_and_mul the input's, matmul MxNxK, fmha BxHxH_kvxSxS_kvxD. Without
--shapes, those of the op's parity cases.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from ..errors import TilegymRsError

HELP = "compile an op's kernels into the store ahead of time"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("op", metavar="OP")
    parser.add_argument("--shapes", metavar="4096x4096,8x128", help="default: the shapes of the op's parity cases")
    parser.add_argument("--dtypes", default="f16,bf16,f32", metavar="f16,bf16", help="default: %(default)s")
    parser.add_argument("--arch", metavar="sm_90", help="default: the GPU's; sm_90 without one")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="keyword argument of the op")


def run(options: argparse.Namespace) -> int:
    """Compile and print one line per kernel."""
    from ..registration import native_ops
    from ..warm import warmup

    if options.op not in native_ops():
        raise TilegymRsError(
            f"no native op {options.op!r}; there are: {', '.join(native_ops())}. An op that runs translated kernels is "
            "warmed by calling it once; `tilegym-rs port OP` translates and builds them before"
        )
    total = 0.0
    shapes, dtypes = shapes_of(options.op, options.shapes), options.dtypes.split(",")
    try:
        done = warmup(options.op, shapes, dtypes, arch=options.arch, **parameters(options.param))
    except (TypeError, ValueError) as error:  # how an op refuses a shape or an argument
        raise TilegymRsError(str(error)) from error
    for each in done:
        print(f"{each.seconds:7.2f} s  {each.arch}  {each.spec_text}")
        total += each.seconds
    print(f"{len(done)} kernels ready in {total:.1f} s")
    return 0


def shapes_of(op: str, words: str | None) -> list[tuple[int, ...]]:
    """Return the shapes that ``--shapes`` names; without it, those of the op's parity cases.

    Raises:
        TilegymRsError: a word is no shape.
    """
    if words:
        texts = [text.strip() for text in words.split(",")]
        for text in texts:
            if not re.fullmatch(r"\d+(x\d+)*", text):
                raise TilegymRsError(f"--shapes: {text!r} is no shape; write extents with x between, as 4096x4096")
        return [tuple(int(extent) for extent in text.split("x")) for text in texts]
    from pytest_cutile_rs.suites import suites

    return sorted({case.shape for case in suites()[op].cases if not case.raises and not case.params})


def parameters(words: Sequence[str]) -> dict[str, Any]:
    """Return the op's keyword arguments that ``--param NAME=VALUE`` words give."""
    return dict(_param(word) for word in words)


def _param(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    named = {"true": True, "false": False, "none": None}
    if value.lower() in named:
        return name, named[value.lower()]
    return name, int(value) if value.lstrip("-").isdigit() else value
