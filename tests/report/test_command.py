# SPDX-License-Identifier: MIT
"""``tilegym-rs report``: what it prints, and that it never gates."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from report_example import STARTED
from report_example import report
from test_merge import content
from test_merge import parts

from pytest_cutile_rs.report import csv
from pytest_cutile_rs.report import markdown
from pytest_cutile_rs.report.read import load
from pytest_cutile_rs.report.write import write_all
from tilegym_rs_backend.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two saved runs, the second of them failing more slowly."""
    monkeypatch.chdir(tmp_path)
    for number, gain in enumerate((1.0, 1.05)):
        one = report(ident=f"run{number}", started=STARTED + 60 * number, gain=gain)
        write_all(Path(".cutile_rs"), one, one.to_dict(), save=True)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["report", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["report", *words]) == 2
    return capsys.readouterr().err


def test_show_prints_the_newest_run(folder, capsys) -> None:
    text = printed(capsys, "show")
    assert text.splitlines()[0].startswith("op     dtype  variant")
    assert text.endswith("VERDICT: FAIL failed: 1 numerics, 4 perf, 1 of TileGym's tests\n")


@pytest.mark.parametrize("name", ["run0", "last~1", ".cutile_rs/runs/20260921T141320Z-run0.json"])
def test_a_run_has_several_names(folder, capsys, name: str) -> None:
    first = report(ident="run0")
    assert printed(capsys, "show", name, "--format", "markdown") == markdown.render(first)
    assert printed(capsys, "show", name, "--format", "csv") == csv.render(first)
    assert json.loads(printed(capsys, "show", name, "--format", "json"))["run"] == first.run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run", "run: 2 saved runs match. Saved in .cutile_rs/runs: 20260921T141320Z-run0, 20260921T141420Z-run1."),
        ("last~2", "last~2: there is no such file, and no saved run matches."),
        ("other.json", "other.json: there is no such file, and no saved run matches."),
    ],
)
def test_a_name_that_fits_none_or_several(folder, capsys, name: str, text: str) -> None:
    found = refused(capsys, "show", name)
    assert text in found
    assert "`pytest --cutile-rs --cutile-rs-save` saves a run." in found


def test_html_goes_where_it_is_told(folder, capsys) -> None:
    assert printed(capsys, "html", "last", "--to", "page.html") == "page.html\n"
    page = Path("page.html").read_text()
    assert page == printed(capsys, "html", "last", "--to", "-")
    assert page == Path(".cutile_rs/summary.html").read_text()


def test_merge_writes_every_format(folder, capsys) -> None:
    whole = report(shard="1/1")
    for number, one in enumerate(parts(whole)):
        write_all(Path(f"part{number}"), one, one.to_dict())
    text = printed(capsys, "merge", "part0", "part1", "part2/summary.json", "--to", "all", "--save")
    assert text.splitlines()[0] == "3 reports, 24 results: all"
    assert content(load(Path("all"))) == content(whole)
    assert {path.name for path in Path("all").iterdir()} >= {"summary.md", "summary.csv", "summary.html", "runs"}
    text = printed(capsys, "merge", "part0", "part2", "--to", "some")
    assert text.splitlines()[0] == "shards missing: 2/3; the joined report is incomplete"


def test_merge_refuses_and_writes_nothing(folder, capsys) -> None:
    text = refused(capsys, "merge", ".cutile_rs", ".cutile_rs", "--to", "all")
    assert "results are in two reports" in text
    assert not Path("all").exists()


def test_compare_and_trend_never_gate(folder, capsys) -> None:
    text = printed(capsys, "compare", "last~1", "last")
    assert text.splitlines()[0] == "24 of 24 results have the same outcome"
    assert "alpha[f16-4096x4096]" in text
    assert "+5.0%" in text
    raw = json.loads(printed(capsys, "compare", "run0", "run1", "--format", "json"))
    assert raw["changes"][0]["factor"] == pytest.approx(1.05, rel=1e-3)
    text = printed(capsys, "trend", "--op", "alpha", "--format", "markdown")
    assert text.strip().splitlines()[0] == "| t_py/t_rs | 2026-09-21 14:13 | 2026-09-21 14:14 | change |"
    assert [run["id"] for run in json.loads(printed(capsys, "trend", "--format", "json"))["runs"]] == ["run0", "run1"]


def test_trend_without_saved_runs(tmp_path: Path, capsys) -> None:
    text = refused(capsys, "trend", "--out", str(tmp_path))
    assert f"no run is saved in {tmp_path / 'runs'}. `pytest --cutile-rs --cutile-rs-save` saves one." in text


def test_help_is_the_documented_one(golden, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for words in ([], ["show"], ["html"], ["merge"], ["compare"], ["trend"]):
        with pytest.raises(SystemExit):
            main(["report", *words, "--help"])
    text = re.sub(r"(-\w) [A-Z]+(, --)", r"\1\2", capsys.readouterr().out)  # before Python 3.13: -o DIR, --out DIR
    golden("help.txt", re.sub(r"(?<=\S)(?: {2,}|\n {8,})", "  ", text))
