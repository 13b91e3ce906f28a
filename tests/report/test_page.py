# SPDX-License-Identifier: MIT
"""The HTML page: it holds together as markup, fetches nothing, and shows what the run found out."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from report_example import STARTED
from report_example import report

from pytest_cutile_rs.report import html
from pytest_cutile_rs.report.page.markup import join
from pytest_cutile_rs.report.page.markup import tag
from pytest_cutile_rs.report.page.strips import Scale
from pytest_cutile_rs.report.repeat import repeat_command

VOID = {"meta", "input", "line", "path"}


class Page(HTMLParser):
    """Elements with their attributes, texts per element, and whether every tag is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.stack: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.stack[-1], data))

    def of(self, name: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == name]

    def said(self, name: str) -> list[str]:
        return [text for found, text in self.texts if found == name]


def earlier():
    return [report(ident=f"run{i}", started=STARTED - 3600 * (3 - i), gain=0.9 + i / 50) for i in range(3)]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(html.render(report(), earlier()))


def test_page_word_for_word(golden) -> None:
    golden("summary.html", html.render(report(), earlier()))


def test_it_fetches_nothing(page) -> None:
    assert {name for name, _ in page.elements}.isdisjoint({"link", "img", "iframe", "object", "base", "image", "use"})
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    text = html.render(report())
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
    policy = next(one["content"] for one in page.of("meta") if one.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def test_links_lead_somewhere_and_ids_are_unique(page) -> None:
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert set(ids.values()) == {1}
    targets = {one["href"][1:] for one in page.of("a")}
    assert targets <= set(ids)
    assert len(targets) == 9


def test_a_hostile_message_stays_text(page) -> None:
    assert len(page.of("script")) == 1
    assert "alert" not in page.said("script")[0]
    assert any('<script>alert("1")</script>' in text for text in page.said("p"))


def test_ops_have_four_levels_and_a_variant(page) -> None:
    start = html.render(report()).index('id="ops"')
    section = html.render(report())[start:]
    rows = re.findall(r"<tr>(.*?)</tr>", section[: section.index("</section>")])
    cells = [re.findall(r'<td data-label="([^"]*)">(.*?)</td>', row) for row in rows[1:]]
    assert [name for name, _ in cells[0]][3:] == ["numbers", "Tile IR", "machine code", "device time (t_py/t_rs)"]
    plain = [[re.sub(r"<.*?>", "", text) for _, text in row] for row in cells]
    assert [row[:3] for row in plain] == [
        ["alpha", "f32", "native"],
        ["gamma", "f16", "peer only"],
        ["beta", "bf16", "ported"],
        ["alpha", "f16", "native"],
    ]
    assert plain[2][3:6] == ["1/1", "1/1: 1 equal", "1/1: 1 identical"]


def test_every_case_has_its_figures_samples_and_commands(page) -> None:
    cases = [one for one in page.of("details") if one.get("class") == "case"]
    assert len(cases) == len({(one.op, one.case) for one in report().results})
    commands = page.said("code")
    for one in report().results:
        assert repeat_command(one.nodeid, report().options) in commands
    assert "tilegym-rs ir diff alpha f16-64x1024 --arch sm_90" in commands
    samples = [one for one in page.of("svg") if one["class"] == "samples"]
    assert len(samples) == 2 * sum(1 for one in report().results if one.data.get("record"))
    dots = [one["d"] for one in page.of("path") if one["class"] == "dot ratio"]
    assert {path.count("M") for path in dots} == {20}
    assert any("load_view_tko" in text for text in page.said("pre"))


def test_the_plot_puts_ratio_interval_and_threshold_where_they_belong() -> None:
    scale = Scale.around([0.8, 1.6])
    assert 0 < scale.at(0.8) < scale.at(1.0) < scale.at(1.6) < 100
    assert scale.at(1.25) - scale.at(1.0) == pytest.approx(scale.at(1.0) - scale.at(0.8), abs=0.02)
    assert scale.at(1000) == 100
    assert scale.at(0) == 0
    ticks = Scale.around([0.5, 2.2]).ticks()
    assert {0.5, 1.0, 2.0} <= set(ticks)
    assert ticks == sorted(ticks)
    assert Scale.around([]).ticks() == [0.98, 0.99, 1.0, 1.01, 1.02]


def test_bars_lie_on_the_axis_by_value(page) -> None:
    strips = [one for one in page.of("svg") if one["class"] == "strip" and "interval" in one["aria-label"]]
    values = [float(one["aria-label"].partition(",")[0]) for one in strips]
    assert values == sorted(values)
    places = [
        float(one["d"][1:].split()[0]) for one in page.of("path") if one["class"].startswith("dot ") and "M" in one["d"]
    ]
    assert places[: len(values)] == sorted(places[: len(values)])


def test_history_has_this_run_and_those_before_it(page) -> None:
    assert "4 runs, oldest first, of 4 on this machine." in page.said("p")
    assert [text for text in page.said("td") if re.fullmatch("run.|0badcafe", text)] == [
        "0badcafe",
        "run2",
        "run1",
        "run0",
    ]
    later = report(ident="later", started=STARTED + 9)
    assert "No earlier run is saved. " in Page(html.render(report(), [later, report()])).said("p")


def test_gate_section(page) -> None:
    assert "Noise floor 0.61%: so far do two equal sides come apart on this machine." in page.said("p")
    assert "cutile_rs::perf::beta[bf16-5x5]" in page.said("td")
    assert "nothing: no timed case of this run matches" in page.said("td")
    assert any(text.startswith("TileGym's protocol best-of-4 (never gates): geomean") for text in page.said("p"))


def test_an_empty_run_has_a_page_too() -> None:
    empty = report(complete=False)
    object.__setattr__(empty, "results", [])
    object.__setattr__(empty, "extra", {})
    text = html.render(empty)
    assert Page(text).said("h1") == ["cutile-rs parity"]
    assert "This run is incomplete: 0 of" in text


def test_markup_escapes_everything_that_is_not_markup() -> None:
    assert join("<b>", tag("i", "&", None, 3)) == "&lt;b&gt;<i>&amp;3</i>"
    assert (
        tag("p", class_='"><x', hidden=True, title=None, data_a_b=1)
        == '<p class="&quot;&gt;&lt;x" hidden data-a-b="1"></p>'
    )
