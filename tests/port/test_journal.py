# SPDX-License-Identifier: MIT
"""State on disk, schemas, and the verdict lines: what makes stages restartable and checkable."""

from __future__ import annotations

import json

import pytest

from tilegym_rs_backend.port import files
from tilegym_rs_backend.port.journal import FAIL
from tilegym_rs_backend.port.journal import PASS
from tilegym_rs_backend.port.journal import STAGES
from tilegym_rs_backend.port.journal import Journal
from tilegym_rs_backend.port.journal import Verdict
from tilegym_rs_backend.port.schema import problems
from tilegym_rs_backend.port.schema import schema

DONE = Verdict("analyze", PASS, "2 launches of 1 kernels", {"n": 2})


def test_a_verdict_is_one_line():
    verdict = Verdict("translate", FAIL, "1 of 2\nrefused")
    assert verdict.line("relu") == "VERDICT: FAIL translate relu: 1 of 2 refused"


def test_a_stage_on_the_same_inputs_is_kept_by_another_process(tmp_path):
    files.write(tmp_path, "analysis.json", "{}")
    Journal(tmp_path).record(DONE, "inputs", ["analysis.json"])
    found = Journal(tmp_path).done("analyze", "inputs")
    assert found == DONE
    assert found.data == {"n": 2}
    assert Journal(tmp_path).done("analyze", "other inputs") is None
    assert Journal(tmp_path).done("translate", "inputs") is None


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_stage_whose_file_is_not_as_it_was_is_repeated(tmp_path, damage):
    files.write(tmp_path, "sources/a.rs", "fn a() {}")
    Journal(tmp_path).record(DONE, "inputs", ["sources/a.rs"])
    if damage == "gone":
        (tmp_path / "sources" / "a.rs").unlink()
    else:
        (tmp_path / "sources" / "a.rs").write_text("fn b() {}")
    assert Journal(tmp_path).done("analyze", "inputs") is None


def test_a_state_that_was_cut_off_counts_as_none(tmp_path):
    Journal(tmp_path).record(DONE, "inputs")
    path = tmp_path / files.STATE
    path.write_text(path.read_text()[:-20])
    assert Journal(tmp_path).done("analyze", "inputs") is None


def test_stages_are_listed_in_their_order(tmp_path):
    journal = Journal(tmp_path)
    for stage in reversed(STAGES):
        journal.record(Verdict(stage, PASS, "done"), "inputs")
    assert list(json.loads((tmp_path / files.STATE).read_text())["stages"]) == list(STAGES)


def test_a_file_is_never_half_written(tmp_path, monkeypatch):
    files.write(tmp_path, "summary.json", "old")
    monkeypatch.setattr(type(tmp_path), "replace", lambda self, target: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path, "summary.json", "new, and longer than the old one")
    assert (tmp_path / "summary.json").read_text() == "old"


def rules(**more):
    return {"type": "object", "required": ["n"], "additionalProperties": False, "properties": {"n": more}}


@pytest.mark.parametrize(
    ("value", "more", "problem"),
    [
        ({}, {}, "f: n is missing"),
        ({"n": 1, "m": 2}, {}, "f: m is unknown"),
        ({"n": "x"}, {"type": "integer"}, "f.n is no integer"),
        ({"n": True}, {"type": "integer"}, "f.n is no integer"),
        ({"n": -1}, {"minimum": 0}, "f.n is -1, less than 0"),
        ({"n": "b"}, {"enum": ["a"]}, "f.n is 'b', not one of a"),
        ({"n": "b"}, {"pattern": "^a$"}, "f.n is 'b', which does not match ^a$"),
        ({"n": []}, {"minItems": 1}, "f.n has 0 items, fewer than 1"),
        ({"n": [1, "x"]}, {"items": {"type": "integer"}}, "f.n[1] is no integer"),
    ],
)
def test_what_breaks_a_schema_is_named(value, more, problem):
    assert list(problems(value, rules(**more), "f")) == [problem]


def test_a_schema_with_a_word_that_nothing_checks_is_refused():
    with pytest.raises(ValueError, match=r"\['maximum'\] is not understood"):
        list(problems(1, {"maximum": 3}, "f"))


@pytest.mark.parametrize("name", ["analysis", "summary"])
def test_the_schemas_use_words_that_are_checked(name):
    def walk(rules):
        list(problems(None, {k: v for k, v in rules.items() if k != "type"}, name))
        for each in rules.get("properties", {}).values():
            walk(each)
        for key in ("items", "additionalProperties"):
            if isinstance(rules.get(key), dict):
                walk(rules[key])

    walk(schema(name))
    assert schema(name)["required"]
