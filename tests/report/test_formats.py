# SPDX-License-Identifier: MIT
"""Every format of one example run, word for word, and that no format lets a hostile text out of its place."""

from __future__ import annotations

import csv as csv_reader
import io
import json
from pathlib import Path

import pytest
from report_example import HOSTILE
from report_example import report

from pytest_cutile_rs.report import csv
from pytest_cutile_rs.report import github
from pytest_cutile_rs.report import junit
from pytest_cutile_rs.report import markdown
from pytest_cutile_rs.report import reference
from pytest_cutile_rs.report import terminal
from pytest_cutile_rs.report.model import worst_first
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.read import from_dict
from pytest_cutile_rs.report.read import load
from pytest_cutile_rs.report.repeat import repeat_command
from pytest_cutile_rs.report.write import json_text
from pytest_cutile_rs.report.write import write_all


def rounded(value):
    """Figures without the last digits, which are the processor's."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


def test_terminal(golden) -> None:
    golden("terminal.txt", "\n".join(line for line, _ in terminal.lines(report(), 1)) + "\n")


def test_an_incomplete_run_says_so_in_every_format(golden) -> None:
    part = report(complete=False)
    assert terminal.lines(part)[-1][0] == "the run is incomplete: not every selected check ended"
    assert "**The run is incomplete.**" in markdown.render(part)
    assert part.to_dict()["complete"] is False


def test_markdown(golden) -> None:
    golden("summary.md", markdown.render(report()))


def test_csv(golden) -> None:
    text = csv.render(report())
    golden("summary.csv", text)
    rows = list(csv_reader.DictReader(io.StringIO(text)))
    assert len(rows) == len(report().results)
    assert {row["reason"] for row in rows} >= {HOSTILE}  # quoted, not cut


def test_json(golden) -> None:
    golden("summary.json", json_text(rounded(report().to_dict())))


def test_json_reads_back_to_the_same_report() -> None:
    raw = json.loads(json_text(report().to_dict() | {"mine": {"branch": "x"}}))
    assert from_dict(raw).to_dict() == raw


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": {"name": "other", "version": 1}}, "its schema is 'other', not 'tilegym-rs.parity'"),
        ({"schema": {"name": "tilegym-rs.parity", "version": 99}}, "version 99 of the report's schema, this package"),
        ({"schema": "x"}, "its schema is None"),
        ({"results": [{"check": "ir"}]}, "a part of the report is missing or malformed (TypeError: CheckResult"),
        ({"started": "yesterday"}, "a part of the report is missing or malformed"),
    ],
)
def test_another_form_is_refused_by_name(change, text: str) -> None:
    with pytest.raises(ReportError) as refused:
        from_dict(report().to_dict() | change)
    assert text in str(refused.value)


def test_files_that_are_no_reports(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"summary.json: no such report. `pytest --cutile-rs --cutile-rs-out DIR`"):
        load(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(ReportError, match=r"summary.json is not JSON .* Give the summary.json of a run"):
        load(tmp_path)
    (tmp_path / "summary.json").write_text("[1]")
    with pytest.raises(ReportError, match=r"summary.json: this is no parity report"):
        load(tmp_path)


def test_annotations(golden, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert github.annotation_lines(report()) == []
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(tmp_path)
    Path("rust/src/ops").mkdir(parents=True)
    Path("rust/src/ops/alpha.rs").touch()
    lines = github.annotation_lines(report())
    golden("annotations.txt", "\n".join(lines) + "\n")
    assert all(line.startswith(("::error ", "::warning ")) for line in lines)  # a line break would end an annotation


def test_github_shows_ten_annotations_and_the_last_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    one = next(one for one in report().results if one.status == "FAIL")
    many = report()
    object.__setattr__(many, "results", [one] * 30)
    errors = [line for line in github.annotation_lines(many) if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[-1] == "::error title=cutile-rs parity::and 22 more: the step's summary lists all"


def test_a_step_summary_that_cannot_be_written_ends_no_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "nowhere" / "file"))
    assert github.append_step_summary(report()).startswith("the step's summary could not be written: ")


def test_junit_properties_of_a_measured_case() -> None:
    perf = next(one for one in report().results if one.nodeid == "cutile_rs::perf::alpha[f32-256x2048]")
    found = dict(junit.properties(perf))
    assert found["verdict"] == "FAIL"
    assert (found["threshold"], found["us_rs"], found["us_torch"], found["host_us_rs"]) == (0.95, 10.0, 30.0, 11.25)
    assert found["low"] < found["ratio"] < found["high"] < 0.95
    assert all(isinstance(value, (str, int, float)) for value in found.values())


def test_worst_first() -> None:
    order = [one.status for one in worst_first(report().results)]
    assert order[:2] == ["FAIL", "FAIL"]
    assert order[-1] == "PASS"
    groups = [(group.op, group.dtype) for group in report().groups()]
    assert groups == [("alpha", "f32"), ("gamma", "f16"), ("beta", "bf16"), ("alpha", "f16")]


def test_every_file_is_written_and_a_saved_run_never_changes(tmp_path: Path) -> None:
    first, second = report(ident="aaaa"), report(ident="bbbb", started=1_790_000_100.0)
    for one in (first, second):
        write_all(tmp_path, one, one.to_dict(), save=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    expected = [".gitignore", "alpha", "beta", "gamma", "runs"]
    assert names == [*expected, "summary.csv", "summary.html", "summary.json", "summary.md"]
    runs = sorted((tmp_path / "runs").iterdir())
    assert [path.name for path in runs] == ["20260921T141320Z-aaaa.json", "20260921T141500Z-bbbb.json"]
    assert load(runs[0]).to_dict() == first.to_dict()
    assert load(tmp_path).to_dict() == second.to_dict()


def test_the_documented_reference_is_the_schemas() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
    assert reference.put(page) == page, "run: python -m pytest_cutile_rs.report.reference docs/reports.md"
    assert "| `results[].status` | `FAIL`, `UNFAIR`" in page


def test_the_command_that_repeats_a_check_judges_as_the_run_did() -> None:
    plain = repeat_command("cutile_rs::ir::alpha[f16-2x8]", {"seed": 7, "threshold": 0.95, "variant": "auto"})
    assert plain == "pytest 'cutile_rs::ir::alpha[f16-2x8]' --cutile-rs-seed 7"
    chosen = {"seed": 0, "arch": "sm_100", "threshold": 0.9, "threshold_given": True, "perf_budget": 5.0}
    chosen |= {"variant": "ported", "timer": "event", "protocol": "best-of-4", "ambiguous": "fail"}
    assert repeat_command("x", chosen) == (
        "pytest x --cutile-rs-seed 0 --cutile-rs-threshold 0.9 --cutile-rs-arch sm_100 --cutile-rs-perf-budget 5 "
        "--cutile-rs-timer event --cutile-rs-protocol best-of-4 --cutile-rs-ambiguous fail --cutile-rs-variant ported"
    )
