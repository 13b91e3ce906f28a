# SPDX-License-Identifier: MIT
"""The page in a real browser: how it lies at a given width, and what it looks like."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SCHEMES = {"dark": 0, "light": 1}

# Runs in the outer page, over a frame of the wanted width (a headless window cannot be narrower than 500 pixels).
_MEASURE = """
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument;
  for (const one of page.querySelectorAll("details")) one.open = OPEN;
  const root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && box.right > root.clientWidth + 1 && !one.closest("svg, pre, thead");
  });
  const names = "a, code, small, span, h1, h2, h3, h4, dt, dd, td, th, figcaption";
  const words = [...page.querySelectorAll(names)].filter((one) => one.childElementCount === 0 &&
    one.textContent.trim() && one.checkVisibility() && (root.clientWidth > 760 || !one.closest("thead")));
  const boxes = words.flatMap((one) => [...one.getClientRects()].map((box) => [one.textContent, box]));
  const clash = [];
  boxes.sort((a, b) => a[1].top - b[1].top);
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const [a, b] = [boxes[i][1], boxes[j][1]];
    if (b.top >= a.bottom - 2) break;
    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - b.top > 4)
      clash.push(boxes[i][0] + " / " + boxes[j][0]);
  }
  document.title = "done";
  document.querySelector("pre").textContent = JSON.stringify({
    width: root.clientWidth, content: root.scrollWidth, height: root.scrollHeight, boxes: boxes.length, clash,
    wide: wide.map((one) => one.outerHTML.slice(0, 80)), ink: page.defaultView.getComputedStyle(page.body).color,
  });
});
"""


@dataclass(frozen=True)
class Layout:
    """What the browser made of the page.

    Attributes:
        width: of the frame; ``content`` is what its content needs.
        height: of the whole page.
        wide: elements that stick out to the right.
        clash: texts that lie on each other.
        boxes: how many texts were looked at.
        ink: colour of the text.
    """

    width: int
    content: int
    height: int
    wide: list[str]
    clash: list[str]
    boxes: int
    ink: str


def layout(page: Path, width: int, scheme: str, *, everything: bool = False) -> Layout:
    """Measures a page in a frame of this width; with ``everything`` all its details are open."""
    outer = page.with_name(f"frame-{width}.html")
    script = _MEASURE.replace("OPEN", json.dumps(everything))
    frame = f'<iframe src="{page.name}" style="border:0;width:{width}px;height:900px"></iframe>'
    outer.write_text(f"<!DOCTYPE html><body style='margin:0'>{frame}<pre></pre><script>{script}</script>")
    dom = _run(scheme, max(width, 500), 1000, "--virtual-time-budget=5000", "--dump-dom", outer.as_uri())
    found = re.search(r"<pre>(\{.*?\})</pre>", dom, re.S)
    assert found, f"the browser did not answer: {dom[:2000]}"
    return Layout(**json.loads(html.unescape(found.group(1))))


def picture(page: Path, target: Path, width: int, height: int, scheme: str) -> None:
    """A screenshot of the page's top."""
    outer = page.with_name(f"frame-{width}-picture.html")
    outer.write_text(
        "<!DOCTYPE html><body style='margin:0'>"
        f'<iframe src="{page.name}" style="border:0;width:{width}px;height:{height}px"></iframe>'
    )
    _run(scheme, max(width, 500), height, f"--screenshot={target}", outer.as_uri())


def _run(scheme: str, width: int, height: int, *arguments: str) -> str:
    assert BROWSER
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--allow-file-access-from-files", f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}"]
    command += [f"--window-size={width},{height}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


if __name__ == "__main__":
    picture(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), *map(int, sys.argv[3:5]), sys.argv[5])
