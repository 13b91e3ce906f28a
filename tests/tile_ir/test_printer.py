# SPDX-License-Identifier: MIT
"""Tile IR as text, alone and side by side, and the command that shows it."""

from __future__ import annotations

import json
import struct

import ir_kernels
import pytest
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import tile
from ir_writer import write_module

from tilegym_rs_backend.cli import main
from tilegym_rs_backend.tile_ir import model
from tilegym_rs_backend.tile_ir.printer import Sources
from tilegym_rs_backend.tile_ir.printer import element_text
from tilegym_rs_backend.tile_ir.printer import lines
from tilegym_rs_backend.tile_ir.printer import place
from tilegym_rs_backend.tile_ir.printer import show
from tilegym_rs_backend.tile_ir.reader import read_module
from tilegym_rs_backend.tile_ir.side_by_side import side_by_side
from tilegym_rs_backend.tile_ir.types import ScalarType

SOFTMAX = """\
# Tile IR 13.4
entry @softmax(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>, %arg3: tile<i32>, %arg4: tile<ptr<f32>>, \
%arg5: tile<i32>, %arg6: tile<i32>, %arg7: tile<i32>) hints {sm_90: {occupancy: 2}} {
  %0 = make_token
  %1 = assume %arg0 {div_by<16>} : tile<ptr<f32>>
  %2 = assume %arg1 {bounded<0, ?>} : tile<i32>
  %3 = make_tensor_view %1, shape=[%2, %arg2], strides=[%arg3] : tensor_view<?x?xf32, strides=[?,1]>
  %4 = make_partition_view %3 : partition_view<tile=(1x64), padding_value = neg_inf, tensor_view<?x?xf32, \
strides=[?,1]>>
  %5 = make_tensor_view %arg4, shape=[%2, %arg2], strides=[%arg3] : tensor_view<?x?xf32, strides=[?,1]>
  %6 = make_partition_view %5 : partition_view<tile=(1x64), tensor_view<?x?xf32, strides=[?,1]>>
  %7, %8, %9 = get_tile_block_id : tile<i32>, tile<i32>, tile<i32>
  %10 = constant 0 : tile<i32>
  %11, %12 = load_view_tko %4, index=[%7, %10], token=%0 : tile<1x64xf32>
  %13 = reduce %11 {dim=1, identities=[-inf]} : tile<1xf32> {
   (%14: tile<f32>, %15: tile<f32>)
    %16 = maxf %14, %15 : tile<f32>
    yield %16
  }
  %17 = reshape %13 : tile<1x1xf32>
  %18 = broadcast %17 : tile<1x64xf32>
  %19 = subf %11, %18 : tile<1x64xf32>
  %20 = exp %19 : tile<1x64xf32>
  %21 = reduce %20 {dim=1, identities=[0.0]} : tile<1xf32> {
   (%22: tile<f32>, %23: tile<f32>)
    %24 = addf %22, %23 : tile<f32>
    yield %24
  }
  %25 = reshape %21 : tile<1x1xf32>
  %26 = broadcast %25 : tile<1x64xf32>
  %27 = divf %20, %26 : tile<1x64xf32>
  %28 = store_view_tko %27, %6, index=[%7, %10], token=%0 : tile<1x64xf32>
  return
}
"""


def test_a_kernel_as_text():
    module = ir_kernels.softmax().module()
    for _, op in module.entry().body.walk():
        op.loc = None
    module.entry().loc = None
    assert show(module) == SOFTMAX


def test_source_lines_stand_beside_the_operations(tmp_path):
    (tmp_path / "kernel.rs").write_text("fn kernel() {\n    let x = first();\n}\n")
    module = ir_kernels.scaled_copy().module()
    text = show(module, Sources([tmp_path])).splitlines()
    assert text[2].split("# ")[1] == "kernel.rs:1:1"
    assert text[3].split("# ")[1] == "kernel.rs:2:1: let x = first();"
    assert "for %1, %arg2, %2, init=[%0] {" in "\n".join(text)
    assert not any("absent" in line for line in show(module, Sources([tmp_path / "absent"])).splitlines())


def test_an_inlined_operation_names_its_callers():
    outer = model.SourceLoc("src/main.rs", 7, 3, "main")
    assert place(model.SourceLoc("/crate/src/helper.rs", 2, 5, "helper", outer)) == "helper.rs:2:5 < main.rs:7:3"


@pytest.mark.parametrize(
    ("data", "element", "text"),
    [
        (struct.pack("<f", 2.5), "f32", "2.5"),
        (struct.pack("<f", float("inf")), "f32", "inf"),
        (struct.pack("<e", -0.5), "f16", "-0.5"),
        (b"\x80\xbf", "bf16", "-1.0"),
        (struct.pack("<q", -7), "i64", "-7"),
        (b"\x01", "i1", "true"),
        (b"\xff", "i1", "true"),
        (b"\x00", "i1", "false"),
        (b"\x38", "f8E4M3FN", "0x38"),
        (b"\x01\x02\x03", "f32", "0x030201"),
    ],
)
def test_elements(data, element, text):
    assert element_text(data, ScalarType(element)) == text


def test_long_and_short_constants():
    b = Kernel()
    b("constant", to=tile("i32", 4), value=struct.pack("<4i", 1, 2, 3, 4))
    b("constant", to=tile("i8", 16), value=bytes(range(16)))
    b("constant", to=tile("f32", 16), value=b"")
    texts = [line.text.strip() for line in lines(b.finish())]
    assert texts[1] == "%0 = constant [1, 2, 3, 4] : tile<4xi32>"
    assert texts[2] == "%1 = constant [0, 1, 2, 3, 4, 5, 6, 7, ..] : tile<16xi8>"
    assert texts[3] == "%2 = constant [] : tile<16xf32>"


def test_what_is_usual_is_left_out_and_the_rest_is_not():
    b = Kernel(tile("f32", 8), I32)
    x, i = b.params
    b("addf", x, x, to=x.type)
    b("addf", x, x, to=x.type, rounding_mode="zero", flush_to_zero=True)
    b("divi", i, i, to=I32)
    b("divi", i, i, to=I32, rounding="negative_inf", signedness="unsigned")
    b("assert", b.constant(1, tile("i1")), message="i < n")
    texts = [line.text.strip() for line in lines(b.finish())][1:]
    assert texts[0] == "%0 = addf %arg0, %arg0 : tile<8xf32>"
    assert texts[1] == "%1 = addf %arg0, %arg0 {flush_to_zero, zero} : tile<8xf32>"
    assert texts[2] == "%2 = divi %arg1, %arg1 {signed} : tile<i32>"
    assert texts[3] == "%3 = divi %arg1, %arg1 {unsigned, negative_inf} : tile<i32>"
    assert texts[5] == "assert %4 {message='i < n'}"


def test_branches_and_globals():
    b = Kernel(tile("i1"))
    blocks = []
    for _ in range(2):
        with b.region() as block:
            b("yield", b("make_token", to=TOKEN))
        blocks.append(block)
    b("if", b.params[0], to=TOKEN, regions=blocks)
    module = b.module()
    module.globals.append(model.Global("lookup", tile("i32", 2), bytes(8), constant=True))
    text = show(module)
    assert "public constant @lookup : tile<2xi32> = 8 bytes" in text
    assert [line.split("#")[0].rstrip() for line in text.splitlines()][3:9] == [
        "  %0 = if %arg0 {",
        "    %1 = make_token",
        "    yield %1",
        "  } else {",
        "    %2 = make_token",
        "    yield %2",
    ]


def test_side_by_side():
    ours, theirs = ir_kernels.softmax().finish(), ir_kernels.softmax(128, name="other").finish()
    text = side_by_side(ours, theirs, 160).splitlines()
    assert text[0].startswith("ours: softmax ")
    assert text[0].endswith("theirs: other")
    assert all(len(line) <= 160 for line in text)
    marks = {line[79]: line for line in text[1:] if len(line) > 79}
    assert set(marks) == {" ", "|"}
    assert "kernel.rs:" in marks["|"][:78]
    assert "kernel.rs:" in marks["|"][80:]
    short = side_by_side(ours, theirs, 160, only_differences=True).splitlines()
    assert len(short) < len(text)
    assert any("equal lines" in line for line in short)


def test_lines_that_one_side_has_alone():
    ours, theirs = ir_kernels.scaled_copy().finish(), ir_kernels.scaled_copy().finish()
    extra = ours.body.ops[0]
    theirs.body.ops.insert(1, model.Op("make_token", results=[model.Value(TOKEN)], loc=extra.loc))
    text = side_by_side(ours, theirs, 120)
    assert sum(line[59:60] == ">" for line in text.splitlines()) == 1
    # Nothing uses it, so it is no difference.
    assert ">" not in {line[59:60] for line in side_by_side(ours, theirs, 120, only_differences=True).splitlines()}


@pytest.fixture
def files(tmp_path):
    found = {}
    for name, kernel in (
        ("plain", ir_kernels.scaled_copy()),
        ("hoisted", ir_kernels.scaled_copy(hoist=True)),
        ("unordered", ir_kernels.scaled_copy(carry_store=False)),
    ):
        path = tmp_path / f"{name}.bc"
        path.write_bytes(write_module(kernel.module()))
        found[name] = str(path)
    return found


def test_the_command_shows_a_file(files, capsys):
    assert main(["ir", "show", files["plain"]]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Tile IR 13.4\nentry @copy(")
    assert "store_ptr_tko" in out


def test_the_command_compares_files(files, capsys):
    assert main(["ir", "diff", files["plain"], files["plain"]]) == 0
    assert capsys.readouterr().out.strip().endswith(": IDENTICAL")
    assert main(["ir", "diff", files["plain"], files["hoisted"]]) == 0
    assert ": EQUIVALENT\n" in capsys.readouterr().out
    assert main(["ir", "diff", files["plain"], files["unordered"], "--json"]) == 1
    [found] = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "DIFFERS"
    [difference] = found["differences"]
    assert difference["category"] == "control"
    assert difference["our_line"].startswith("kernel.rs:")
    assert main(["ir", "diff", files["plain"], files["unordered"]]) == 1
    out = capsys.readouterr().out
    assert "DIFFERS in control" in out
    assert "ours: copy" in out


def test_the_command_names_what_there_is(tmp_path, capsys):
    assert main(["ir", "show", "no_such_op"]) == 2
    assert "ops: " in capsys.readouterr().err
    assert main(["ir", "show", "softmax", "no-such-case"]) == 2
    assert "matches none of softmax's cases; choose one of: " in capsys.readouterr().err
    assert main(["ir", "show", "softmax", "f"]) == 2
    assert " more." in capsys.readouterr().err
    bad = tmp_path / "bad.bc"
    bad.write_bytes(b"\x7fTileIR\0\x0d\x05\0\0")
    assert main(["ir", "show", str(bad)]) == 2
    assert "format 13.5 is not read here" in capsys.readouterr().err


def test_text_survives_being_read_back():
    for build in (ir_kernels.softmax, ir_kernels.scaled_copy, ir_kernels.product):
        module = build().module()
        assert show(read_module(write_module(module))) == show(module)
