# SPDX-License-Identifier: MIT
"""The page in a real browser, where there is one: nothing sticks out, no text lies on another, in both schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_browser import BROWSER
from report_browser import layout
from report_example import STARTED
from report_example import report

from pytest_cutile_rs.report import html

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "summary.html"
    path.write_text(html.render(report(), [report(ident="before", started=STARTED - 60)]), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (380, "dark")])
def test_nothing_overlaps_or_sticks_out(page: Path, width: int, scheme: str) -> None:
    for everything in (False, True):
        found = layout(page, width, scheme, everything=everything)
        assert found.boxes > (500 if everything else 100)  # it did look
        assert found.width == width
        assert found.content == width
        assert found.wide == []
        assert found.clash == []
        assert found.ink == ("rgb(27, 31, 36)" if scheme == "light" else "rgb(230, 233, 237)")


def test_what_sticks_out_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        "<body style='margin:0'><p style='width:2000px'>x</p>"
        "<span>under</span><span style='margin-left:-40px'>over</span>"
    )
    found = layout(path, 380, "light")
    assert found.content > 380
    assert len(found.wide) == 1
    assert found.clash == ["under / over"]
