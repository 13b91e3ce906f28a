// SPDX-License-Identifier: MIT
"use strict";
(() => {
  const tools = document.querySelector(".tools");
  const cases = [...document.querySelectorAll("details.case")];
  const open = () => {
    const found = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (found && found.tagName === "DETAILS") {
      found.open = true;
      found.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
  for (const command of document.querySelectorAll("code.command")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(command.textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(command);
        button.textContent = "selected";
      }
    });
    command.after(button);
  }
  if (!tools) return;
  const text = tools.querySelector("#filter");
  const bad = tools.querySelector("#only-bad");
  const count = tools.querySelector("#count");
  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const one of cases) {
      const fits = words.every((word) => one.dataset.words.includes(word)) && !(bad.checked && one.dataset.passed === "yes");
      one.hidden = !fits;
      shown += fits;
    }
    for (const op of document.querySelectorAll("div.op")) op.hidden = !op.querySelector("details.case:not([hidden])");
    count.textContent = `${shown} of ${cases.length} cases`;
  };
  text.addEventListener("input", show);
  bad.addEventListener("change", show);
  tools.hidden = false;
  show();
})();
