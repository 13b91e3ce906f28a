# SPDX-License-Identifier: MIT
"""What docs/kernels.md shows of porting is what porting does: both languages side by side, an IR difference, refusals.

python tests/port/test_side_by_side.py      prints the section, after a change that is meant
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "own")]

import refused_kernels  # noqa: E402
import side_by_side as kernels  # noqa: E402

from tilegym_rs_backend.errors import ToolchainError  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.signature import bytecode  # noqa: E402
from tilegym_rs_backend.port.translate import Refused  # noqa: E402
from tilegym_rs_backend.port.translate import translate  # noqa: E402
from tilegym_rs_backend.tile_ir import verdict  # noqa: E402
from tilegym_rs_backend.tile_ir.reader import read_module  # noqa: E402
from tilegym_rs_backend.tile_ir.side_by_side import side_by_side  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "kernels.md"
WIDTH = 118


def captured(program):
    def launch(grid, kernel, args):
        ct.launch(torch.cuda.current_stream(), grid, kernel, args)

    [found] = capture(lambda: program(launch, "meta"))
    return found


def function_of(program):
    module = read_module(bytecode(captured(program)))
    return next(function for function in module.functions if function.is_entry)


def section() -> str:
    """The generated part of the page."""
    parts = []
    for name, program in kernels.PROGRAMS.items():
        python = inspect.getsource(getattr(kernels, name)._pyfunc)
        rust = translate(captured(program)).source
        parts.append(f"#### `{name}`\n\n```python\n{python}```\n\n```rust\n{rust}```\n")
    sides = function_of(kernels.unshifted_launch), function_of(kernels.softmax_launch)
    found = verdict.compare(*sides, "sm_90")
    lines = "\n".join(line.rstrip() for line in side_by_side(*sides, WIDTH, only_differences=True).splitlines())
    named = "\n".join(f"- {difference}" for difference in found.differences)
    parts.append(f"#### An IR difference\n\n```\n{found}\n{named}\n\n{lines}\n```\n")
    rows = ["#### What is refused, and how\n", "| Python | answer |", "|---|---|"]
    for name in refused_kernels.launches():
        with pytest.raises(Refused) as caught:
            translate(refused_kernels.refused_launch(name))
        error = caught.value
        line = Path(error.file).read_text().splitlines()[error.line - 1].split("#")[0].strip().replace("|", "\\|")
        rows.append(f"| `{line}` | {str(error).split(': ', 1)[1].replace(f' in kernel {name}', '')} |")
    return "\n".join([*parts, *rows]) + "\n"


def test_the_page_shows_what_is_made():
    shown = PAGE.read_text().split("<!-- side by side -->\n")[1].split("<!-- end of side by side -->")[0]
    assert shown == section(), f"python {Path(__file__).name} prints it: paste its output into docs/kernels.md"


@pytest.mark.cargo
@pytest.mark.slow
def test_both_languages_are_one_machine_code(tmp_path):
    from tilegym_rs_backend.port.cached import CachedCrate
    from tilegym_rs_backend.port.comparison import compare_launch
    from tilegym_rs_backend.port.ported import PortedKernels

    ported, launches = PortedKernels(CachedCrate(tmp_path)), [captured(each) for each in kernels.PROGRAMS.values()]
    try:
        assert ported.prepare(launches) == {}
    except ToolchainError as error:
        pytest.skip(str(error))
    assert [compare_launch(ported, launch).verdict for launch in launches] == ["SASS-IDENTICAL"] * 2


CENSUS = (
    *("bid", "num_blocks", "range", "load", "store", "gather", "scatter", "arange", "//", "%", "astype", "full", "sum"),
    *("zeros", "ones", "static if", "mma", "matmul", "where", "[None]", "cdiv", "reshape", "expand_dims", "exp2"),
    *("truediv", "helper functions", "max", "min", "if", "exp", "maximum", "minimum", "transpose", "permute", "rsqrt"),
    *("tanh", "extract", "log2", "log", "cumsum", "return", "conditional expressions", "abs", "num_tiles", "item"),
    *("while", "atomic_add", "atomic_store_add", "array.slice", "sigmoid", "^", "<< >>", "bitcast", "broadcast_to"),
    *("pack_to_bytes", "static_assert", "a list of arrays"),
)
"""Every construct of TileGym's kernels, as counted from their syntax trees."""


def test_the_page_has_every_construct_of_the_census():
    page = PAGE.read_text().split("## From cuTile Python")[1]
    missing = [name for name in CENSUS if name not in page]
    assert missing == []


if __name__ == "__main__":
    print(section(), end="")
