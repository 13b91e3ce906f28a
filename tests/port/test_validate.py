# SPDX-License-Identifier: MIT
"""`tilegym-rs port validate`: every file that is missing or was changed is found, hidden or not."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")
pytest.importorskip("tilegym")

from tilegym_rs_backend.port import files
from tilegym_rs_backend.port.validate import validate
from tilegym_rs_backend.tile_ir.cubin import read_cubin

pytestmark = [pytest.mark.cargo, pytest.mark.slow]


def damage(folder, name, change):
    path = next(iter(sorted(folder.glob(name))))
    path.write_bytes(change(path.read_bytes()))


def rehash(folder, name):
    """Let the state agree with a changed file, as somebody would who hides it."""
    state = json.loads((folder / files.STATE).read_text())
    for stage in state["stages"].values():
        if name in stage["files"]:
            stage["files"][name] = files.sha256(folder, name)
    (folder / files.STATE).write_text(json.dumps(state))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (
            "analysis.json",
            lambda text: text.replace(b'"rtol"', b'"rtal"').replace(b'"op": "outer"', b'"op": "inner"'),
            "op is not what",
        ),
        ("summary.json", lambda text: text.replace(b"SASS-IDENTICAL", b"SASS-DIFFERENT"), "is not what state.json"),
        ("sources/*.rs", lambda text: text.replace(b" * ", b" + "), "is not the one that its name stands for"),
        (
            "cubins/*.ours.cubin",
            lambda image: image.replace(code := read_cubin(image).only().text, code[:-16] + bytes(16)),
            "the cubins' code is not equal, the verdict is SASS-IDENTICAL",
        ),
        ("ir/*.ours.txt", lambda text: text.replace(b"mulf", b"addf"), "is not the text of"),
        ("ir/*.theirs.tileirbc", lambda text: text[:-40], "cannot be read"),
        (
            "correctness.log",
            lambda text: text.replace(b"] PASS BIT-EQUAL", b"] FAIL 3 of 4 bytes"),
            "its files say FAIL",
        ),
        ("host.log", lambda text: b"FAIL " + text, "host.log says otherwise"),
        ("performance.log", lambda text: b"VERDICT: PASS 9 cases\n", "does not end in"),
        ("differences.txt", lambda text: b"something\n", "is not the text of differences.json"),
        ("residual.txt", lambda text: b"something\n", "is not the text of residual.json"),
    ],
)
def test_validation_finds_what_was_changed(ported, name, change, problem):
    folder, _, _ = ported
    damage(folder, name, change)
    [path] = [path for path in sorted(folder.glob(name))][:1]
    relative = str(path.relative_to(folder))
    if name != files.SUMMARY:
        assert any(f"{relative} is not what stage" in line for line in validate(folder))
    rehash(folder, relative)
    found = validate(folder)
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("name", files.FIXED)
def test_a_file_that_is_missing_is_named(ported, name):
    folder, _, _ = ported
    (folder / name).unlink()
    assert validate(folder) == [f"{name} is missing"]


def test_a_state_that_skips_a_stage_is_found(ported):
    folder, _, _ = ported
    state = json.loads((folder / files.STATE).read_text())
    del state["stages"]["host-side"]
    (folder / files.STATE).write_text(json.dumps(state))
    assert any("the stages are" in line for line in validate(folder))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("differences.json", {}, "differences.json: launches is missing"),
        ("residual.json", {"reports": 3}, "residual.json.reports is no array"),
        ("state.json", {"stages": []}, "state.json: the stages are"),
        ("analysis.json", [], "analysis.json holds no JSON object"),
        ("summary.json", {"op": "outer"}, "summary.json: arch is missing"),
    ],
)
def test_a_file_of_another_form_is_named(ported, name, content, problem):
    folder, _, _ = ported
    (folder / name).write_text(json.dumps(content))
    assert any(line.startswith(problem) for line in validate(folder)), validate(folder)


@pytest.mark.parametrize("part", ["files", "data"])
def test_a_stage_of_another_form_is_named(ported, part):
    folder, _, _ = ported
    state = json.loads((folder / files.STATE).read_text())
    state["stages"]["perf"][part] = []
    (folder / files.STATE).write_text(json.dumps(state))
    assert "state.json: files and data of stage perf are no objects" in validate(folder)
