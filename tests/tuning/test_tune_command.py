# SPDX-License-Identifier: MIT
"""`tilegym-rs tune` without a GPU: real kernels compiled, pruned and ranked; what is stored shown, carried, bundled."""

from __future__ import annotations

import json

import pytest
import torch

from tilegym_rs_backend import bundle
from tilegym_rs_backend.cli import main
from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.library import get_library
from tilegym_rs_backend.ops import _matmul_space
from tilegym_rs_backend.tuning import here
from tilegym_rs_backend.tuning.compile import compile_launches
from tilegym_rs_backend.tuning.machine import FAMILIES
from tilegym_rs_backend.tuning.machine import machine

pytestmark = pytest.mark.cargo
WORDS = ["matmul", "--offline", "--arch", "sm_90", "--dtypes", "f16", "--shapes", "256x512x256"]


@pytest.fixture
def tune_folder(monkeypatch, tmp_path):
    """The tuner's files in a folder of their own; cubins stay in the cache that all tests share."""
    folder = tmp_path / "tune-of-test"
    monkeypatch.setattr(here, "choices", lambda: here.Choices(folder))
    return folder


def test_a_plan_is_compiled_pruned_and_ranked(tune_folder, capsys):
    assert main(["tune", *WORDS, "--compiled", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "4 of 4 compiled" in err
    [plan] = json.loads(out)
    assert (plan["key"]["arch"], plan["key"]["gpu"], plan["key"]["driver"]) == ("sm_90", "", "")
    assert plan["key"]["bucket"] == {
        "dtype": "f16",
        "m": 256,
        "n": 512,
        "k": 256,
        "trans_a": False,
        "trans_b": False,
        "bulk": True,
    }
    assert len(plan["tried"]) == 4
    default = {"bm": 64, "bn": 64, "bk": 64, "group": 8, "num_worker_warps": 4}
    assert any(default.items() <= each["config"].items() for each in plan["tried"])
    fit = [each for each in plan["tried"] if not each["why"]]
    assert plan["config"] == fit[0]["config"]
    assert all(each["resources"]["registers"] and each["predicted_us"] > 1 for each in fit)
    assert sum(plan["left_out"].values()) > 1000
    # A second time nothing is compiled.
    assert main(["tune", *WORDS, "--compiled", "4"]) == 0
    out, err = capsys.readouterr()
    assert "compiled" not in err
    assert "us measured" in out
    assert main(["tune", "show"]) == 0
    assert "matmul dtype=f16 m=256 n=512 k=256 bulk=True [sm_90 plan]" in capsys.readouterr().out


def test_transposes_and_alignment_have_plans_of_their_own(tune_folder, capsys):
    words = [*WORDS[:-1], "256x512x256,256x512x255", "--compiled", "1", "--json"]
    assert main(["tune", *words, "--param", "trans_b=false"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert [each["key"]["bucket"]["bulk"] for each in plans] == [True, False]


def test_what_is_stored_is_carried_and_cleared(tune_folder, tmp_path, capsys):
    main(["tune", *WORDS, "--compiled", "1"])
    file = tmp_path / "choices.json"
    assert main(["tune", "export", str(file)]) == 0
    assert main(["tune", "clear", "matmul"]) == 0
    assert main(["tune", "show"]) == 0
    assert main(["tune", "import", str(file)]) == 0
    out = capsys.readouterr().out
    assert f"1 choices and plans written to {file}" in out
    assert "1 choices and plans cleared" in out
    assert "nothing is stored" in out
    assert f"1 choices and plans taken over from {file}" in out
    assert len(list(here.choices().every("matmul"))) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nope"], "no native op 'nope'; there are: "),
        (["matmul", "--offline", "--shapes", "4x4"], "a shape is M, N, K"),
        (["matmul", "--offline", "--shapes", "0x4x4", "--dtypes", "f16"], "matmul has nothing to choose"),
        (["export"], "tune export needs a file"),
        (["import", "/nowhere/choices.json"], "is no file that `tilegym-rs tune export` wrote"),
    ],
)
def test_words_that_cannot_be_meant(tune_folder, capsys, words, text):
    assert main(["tune", *words]) == 2
    assert text in capsys.readouterr().err


def test_measuring_needs_a_gpu(tune_folder, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["tune", "matmul", "--shapes", "64x64x64", "--dtypes", "f16"]) == 2
    assert "there is no GPU to measure on; --offline" in capsys.readouterr().err


def test_a_bundle_carries_plans_that_are_current_and_their_cubins(tune_folder, tmp_path, capsys):
    said: list[str] = []
    with pytest.raises(TilegymRsError, match="nothing is tuned or planned for sm_90: run `tilegym-rs tune"):
        bundle._copy_tuned(tmp_path, "sm_90", said.append)
    main(["tune", *WORDS, "--compiled", "3", "--json"])
    [plan] = json.loads(capsys.readouterr().out)
    [path] = tune_folder.glob("matmul/*.json")
    stale = json.loads(path.read_text())
    stale["key"]["kernels"] = "of another time"
    (tune_folder / "matmul" / "stale.json").write_text(json.dumps(stale))
    bundle._copy_tuned(tmp_path, "sm_90", said.append)
    fit = [each["spec_text"] for each in plan["tried"] if not each["why"]]
    [text] = said
    assert text.startswith(f"sm_90: 1 choices and plans, {len(fit)} candidates, ")
    carried = list(here.Choices(tmp_path / "tune").every())
    assert [each.key.digest for each in carried] == [path.stem]
    assert len(list((tmp_path / "store" / "lookup").glob("*/*"))) == len(fit)
    assert len(list((tmp_path / "store" / "cubins").glob("*/*"))) == len(fit)


@pytest.mark.slow
@pytest.mark.parametrize("arch", FAMILIES)
def test_every_shipped_default_of_matmul_compiles_and_fits(arch):
    library, here_machine = get_library(), machine(arch)
    kinds = {"f32": torch.float32, "half": torch.bfloat16, "fp8": torch.float8_e5m2}
    for kind, dtype in kinds.items():
        if (arch, kind) == ("sm_80", "fp8"):
            continue  # no such tensor cores
        operand = _matmul_space.Operand((4096, 4096), (4096, 1), True, False)
        problem = _matmul_space.Problem(4096, 4096, 4096, operand, operand, dtype)
        configs = [row.config for row in _matmul_space.DEFAULTS[arch][kind]]
        launches = [_matmul_space.launch(problem, config, here_machine) for config in configs]
        for config, found in zip(configs, compile_launches(library, launches, arch), strict=True):
            assert found.resources is not None, found.why
            assert found.resources.unfit(config.occupancy, here_machine) == "", (arch, kind, config)
