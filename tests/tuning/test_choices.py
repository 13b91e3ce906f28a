# SPDX-License-Identifier: MIT
"""Choices on disk: what makes a key, what is read back, what counts as absent, and carrying them to another host."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tuning.choices import Choice
from tilegym_rs_backend.tuning.choices import Choices
from tilegym_rs_backend.tuning.choices import Key
from tilegym_rs_backend.tuning.choices import Tried

KEY = Key("matmul", "k1", "sm_90", "NVIDIA H200", "580.159.04", "13.4.92", {"dtype": "bf16", "m": 4096, "bulk": True})
CHOICE = Choice(
    KEY,
    {"bm": 128, "bn": 256},
    us=174.3,
    default_us=180.0,
    tried=(
        Tried({"bm": 128, "bn": 256}, 170.0, 174.3, "", "matmul_tile<bf16> BM=128", {"registers": 168}),
        Tried({"bm": 256, "bn": 256}, 0.0, 0.0, "spills: 8 bytes of stack for each thread"),
    ),
    space_size=4000,
    left_out={"persistent: no more tiles than blocks": 12},
    seconds=9.5,
    compile_s=7.0,
    when="2026-11-30 04:00:00 UTC",
)


@pytest.fixture
def store(tmp_path):
    return Choices(tmp_path / "tune")


def test_a_choice_is_read_back_whole(store):
    assert store.get(KEY) is None
    store.put(CHOICE)
    assert store.get(KEY) == CHOICE
    assert Choices(store.root).get(KEY) == CHOICE


@pytest.mark.parametrize(
    "change",
    [
        {"kernels": "k2"},
        {"arch": "sm_100"},
        {"gpu": "NVIDIA H100"},
        {"driver": "590.1"},
        {"tileiras": "13.5.0"},
        {"bucket": {"dtype": "f16", "m": 4096, "bulk": True}},
        {"bucket": {"dtype": "bf16", "m": 5120, "bulk": True}},
        {"space": "fmha"},
        {"version": 0},
    ],
)
def test_each_part_of_the_key_counts(store, change):
    store.put(CHOICE)
    assert store.get(dataclasses.replace(KEY, **change)) is None


def test_a_plan_is_a_choice_without_gpu_and_driver(store):
    plan = dataclasses.replace(CHOICE, key=KEY.plan("m1"), us=0.0)
    store.put(CHOICE)
    store.put(plan)
    assert (KEY.planned, KEY.plan("m1").planned) == (False, True)
    assert store.get(KEY.plan("m1")) == plan
    assert store.get(KEY) == CHOICE
    assert dataclasses.replace(KEY, gpu="other").plan("m1") == KEY.plan("m1")
    assert store.get(KEY.plan("m2")) is None  # another model ranks anew


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": {}}', '{"version": 1}'])
def test_a_damaged_file_counts_as_absent(store, damage):
    store.put(CHOICE)
    [path] = store.root.glob("matmul/*.json")
    path.write_text(damage)
    assert store.get(KEY) is None
    assert list(store.every()) == []


def test_a_file_under_another_keys_name_is_not_believed(store):
    store.put(CHOICE)
    [path] = store.root.glob("matmul/*.json")
    other = dataclasses.replace(KEY, driver="590.1")
    path.rename(path.with_name(f"{other.digest}.json"))
    assert store.get(other) is None


def test_an_unwritable_store_loses_the_choice_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("")
    store = Choices(tmp_path / "file")
    store.put(CHOICE)
    assert store.get(KEY) is None


def test_choices_are_carried_by_one_file(store, tmp_path):
    other = dataclasses.replace(CHOICE, key=dataclasses.replace(KEY, space="fmha"))
    store.put(CHOICE)
    store.put(other)
    assert store.export(tmp_path / "all.json") == 2
    assert store.export(tmp_path / "fmha.json", "fmha") == 1
    away = Choices(tmp_path / "away")
    assert away.import_file(tmp_path / "all.json") == 2
    assert [each.key.space for each in away.every()] == ["fmha", "matmul"]
    assert away.get(KEY) == CHOICE
    assert away.clear("fmha") == 1
    assert list(away.every()) == [CHOICE]
    assert away.clear() == 1


def test_a_file_that_is_no_export_is_refused_by_name(store, tmp_path):
    path = tmp_path / "x.json"
    for text, why in (
        ("", "is no file that `tilegym-rs tune export` wrote"),
        ('{"choices": []}', "is no file"),
        ('{"version": 99, "choices": []}', "has version 99 of the format, this package reads 1"),
    ):
        path.write_text(text)
        with pytest.raises(TilegymRsError, match=why):
            store.import_file(path)
    with pytest.raises(TilegymRsError, match="is no file"):
        store.import_file(tmp_path / "absent.json")


def test_an_export_cannot_write_outside_of_the_store(store, tmp_path):
    store.put(CHOICE)
    path = tmp_path / "x.json"
    store.export(path)
    data = json.loads(path.read_text())
    data["choices"][0]["key"]["space"] = "../../outside"
    path.write_text(json.dumps(data))
    with pytest.raises(TilegymRsError, match="no name of a space"):
        store.import_file(path)


def test_what_a_report_shows(store):
    shown = CHOICE.report()
    assert (shown["configurations"], shown["compiled"], shown["failed"]) == (4000, 2, 1)
    assert (shown["chosen"], shown["us"], shown["default_us"]) == ("bm=128 bn=256", 174.3, 180.0)
    assert shown["tried"][1] == {
        "config": "bm=256 bn=256",
        "predicted_us": 0.0,
        "us": 0.0,
        "why": "spills: 8 bytes of stack for each thread",
    }
    assert json.loads(json.dumps(shown)) == shown
