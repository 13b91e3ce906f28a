# SPDX-License-Identifier: MIT
"""`--on-refused CMD`: what the command is given, and what comes of each way in which it can go wrong."""

from __future__ import annotations

import json
import shlex
import sys
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import refused_kernels as kernels

from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.port.entries import supplied
from tilegym_rs_backend.port.external import Command
from tilegym_rs_backend.port.external import ExternalError
from tilegym_rs_backend.port.external import module_of
from tilegym_rs_backend.port.translate import Refused
from tilegym_rs_backend.port.translate import translate

SOURCE = """#[cutile::module]
pub mod any {
    use cutile::core::*;
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn any<const WIDTH: i32>(x: &Tensor<f32, { [-1] }>) {}
}
"""


def command(text, seconds=30.0):
    return Command(f"{shlex.quote(sys.executable)} -c {shlex.quote(text)}", seconds)


@pytest.fixture
def ask(tmp_path):
    launch = kernels.refused_launch("waits")
    with pytest.raises(Refused) as caught:
        translate(launch)
    return lambda each: each.supply(tmp_path / "waits-0", launch, caught.value, '{"op": "waits"}')


def test_the_command_finds_the_refusal_and_its_text_is_taken(ask, tmp_path):
    text = "import json, os; r = json.load(open('refusal.json')); assert os.environ['TILEGYM_RS_PORT_FOLDER'] == "
    text += "os.getcwd(); open('kernel.rs', 'w').write('// ' + r['construct'] + r['kernel'])"
    assert ask(command(text)) == "// grid_dependency_control_waitwaits"
    folder = tmp_path / "waits-0"
    asked = json.loads((folder / "refusal.json").read_text())
    assert (asked["file"], asked["constants"]) == (kernels.__file__, {"WIDTH": "256"})
    lines = (folder / "original.py").read_text().splitlines()
    assert lines[asked["line"] - 1].endswith("REFUSED")
    assert json.loads((folder / "analysis.json").read_text()) == {"op": "waits"}
    assert "gdc_wait" in (folder / "original.txt").read_text()


@pytest.mark.parametrize(
    ("each", "diagnosis"),
    [
        (Command("no-such-command-at-all"), "cannot be run"),
        (Command("'unbalanced"), "cannot be run"),
        (command("import sys; print('not today'); sys.exit(3)"), "ended with status 3: not today"),
        (command("pass"), "left no readable kernel.rs"),
    ],
)
def test_a_command_that_fails_is_diagnosed(ask, each, diagnosis):
    with pytest.raises(ExternalError, match=diagnosis):
        ask(each)


def test_a_command_that_takes_too_long_is_stopped_with_its_children(ask, tmp_path):
    child = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print('x'); time.sleep(60)"
    began = time.monotonic()
    with pytest.raises(ExternalError, match=r"took more than 0\.5 s and was stopped.*--on-refused-seconds"):
        ask(command(child, 0.5))
    assert time.monotonic() - began < 20


def test_what_an_earlier_run_left_is_not_taken(ask, tmp_path):
    ask(command("open('kernel.rs', 'w').write('old')"))
    with pytest.raises(ExternalError, match="left no readable"):
        ask(command("pass"))


def test_a_supplied_module_is_named_by_its_text():
    name, text = module_of(SOURCE, "_waits")
    assert name.startswith("waits_")
    assert f"pub mod {name} {{" in text
    assert f"pub unsafe fn {name}<const WIDTH" in text
    assert module_of(SOURCE.replace("f32", "f16"), "_waits")[0] != name


@pytest.mark.parametrize("text", ["", SOURCE + SOURCE, SOURCE.replace("#[tile::entry(unchecked_accesses = true)]", "")])
def test_a_source_without_one_entry_is_refused(text):
    with pytest.raises(ExternalError, match="has to hold one"):
        module_of(text, "waits")


def described(params, generics=()):
    return {
        "name": "waits_1",
        "params": [{"name": name, "kind": kind} for name, kind in params],
        "generics": [{"name": name, "kind": "i32"} for name in generics],
    }


def test_a_supplied_entry_is_matched_by_names():
    entry = supplied(described([("x", "tensor")], ["WIDTH"]), kernels.refused_launch("waits"))
    assert (entry.arguments, entry.constants) == ((("tensor", 0, 0),), {"WIDTH": 256})


def test_lists_lengths_and_floats_are_matched_too():
    import port_launches

    found = supplied(
        described([("out", "tensor"), ("xs", "pointer"), ("xs_len", "scalar")], ["WIDTH"]),
        port_launches.launches()["add_all"],
    )
    assert found.arguments == (("tensor", 0, 0), ("list", 1, 0), ("length", 1, 0))
    clipped = port_launches.launches()["clipped"]
    found = supplied(described([("out", "tensor"), ("limit", "scalar")], ["HALF_SCALE_BITS", "FLIP"]), clipped)
    assert found.constants == {"HALF_SCALE_BITS": 0x3DCCCCCD, "FLIP": 0}


@pytest.mark.parametrize(
    ("each", "what"),
    [
        (described([("y", "tensor")]), "parameter y is no argument of waits, which takes x, WIDTH"),
        (described([("WIDTH", "scalar")]), "parameter WIDTH is no argument"),
        (described([("x", "tensor")], ["HEIGHT"]), "const generic HEIGHT is no argument"),
    ],
)
def test_a_name_that_is_no_parameter_is_refused(each, what):
    with pytest.raises(CompileError, match=what):
        supplied(each, kernels.refused_launch("waits"))
