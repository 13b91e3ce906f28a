# SPDX-License-Identifier: MIT
"""One op on its way through the stages."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from ..errors import TilegymRsError
from . import files
from .analysis import analyze
from .analysis import captured_again
from .analysis import versions
from .journal import FAIL
from .journal import NOT_RUN
from .journal import PASS
from .journal import Journal
from .journal import Verdict
from .journal import digest_of
from .launches import Chosen
from .selfcheck import entry_from
from .stored import sources_hash

Say = Callable[[str], None]


@dataclass
class Work:
    """An op's folder, journal, and what its stages have found so far.

    Attributes:
        suite: the op's parity cases.
        arch: asked for; an op that needs a later one is compiled for that.
        folder: of the op.
        say: takes each verdict line.
        inputs: stage -> what it is made from.
        analysis: of analysis.json.
    """

    suite: Any
    arch: str
    folder: Path
    say: Say
    inputs: dict[str, str] = field(default_factory=dict)
    analysis: dict[str, Any] = field(default_factory=dict)
    _chosen: list[Chosen] | None = None

    def __post_init__(self) -> None:
        self.journal = Journal(self.folder)
        self.verdicts: dict[str, Verdict] = {}

    @property
    def name(self) -> str:
        """The op's name."""
        return str(self.suite.name)

    def kept(self, stage: str, *inputs: object, still: Callable[[Verdict], bool] = lambda _: True) -> bool:
        """Whether a stage ended on these inputs before, with a verdict that is ``still`` true; its line is said."""
        self.inputs[stage] = digest_of(stage, *inputs)
        found = self.journal.done(stage, self.inputs[stage])
        if found is None or not still(found):
            return False
        self.verdicts[stage] = found
        self.say(f"{found.line(self.name)} (kept)")
        return True

    def end(self, verdict: Verdict, names: list[str]) -> None:
        """Record a stage's end and say its verdict."""
        self.verdicts[verdict.stage] = verdict
        self.journal.record(verdict, self.inputs[verdict.stage], names)
        self.say(verdict.line(self.name))

    def analyze(self, per_kernel: int) -> None:
        """Say what there is to port, unless nothing it is made from has changed."""
        made_from = [sources_hash(name) for name in ("tilegym", "pytest_cutile_rs", "tilegym_rs_backend")]
        made_from += [files.sha256(path.parent, path.name) for path in getattr(self.suite, "sources", ())]
        if self.kept("analyze", self.arch, per_kernel, versions(), *made_from):
            self.analysis = files.read_json(self.folder, files.ANALYSIS)
            return
        self._analyze(per_kernel)

    def _analyze(self, per_kernel: int) -> None:
        self.analysis, self._chosen = analyze(self.suite, self.suite.arch_for(self.arch), per_kernel)
        name = files.write(self.folder, files.ANALYSIS, files.json_text(self.analysis))
        launches, kernels = len(self.analysis["launches"]), len(self.analysis["kernels"])
        if not launches:
            why = (self.analysis["unreachable"] or ["no case with a shape that launches"])[0]
            self.end(Verdict("analyze", FAIL, f"NO-LAUNCH {why}"), [name])
            return
        self.end(Verdict("analyze", PASS, f"{launches} launches of {kernels} kernels"), [name])

    def chosen(self) -> list[Chosen]:
        """The launches; captured again where an earlier run analyzed them."""
        if self._chosen is None:
            self._chosen = captured_again(self.suite, self.analysis)
            if len(self._chosen) != len(self.analysis["launches"]):
                raise TilegymRsError(
                    f"the launches of {self.name} are not those of {self.folder / files.ANALYSIS} any more, though no "
                    "source has changed; remove the folder to have the op analyzed again"
                )
        return self._chosen

    def pairs(self) -> list[tuple[dict[str, Any], Chosen]]:
        """The launches, each with its description in the analysis."""
        return list(zip(self.analysis["launches"], self.chosen(), strict=True))

    @property
    def failed(self) -> dict[str, tuple[str, str]]:
        """Key -> (verdict, detail) of launches that have no entry."""
        found = self.verdicts["translate"].data["failed"]
        return {key: (kind, detail) for key, (kind, detail) in found.items()}

    @property
    def supplied(self) -> dict[str, Any]:
        """Key -> the entry that somebody supplied for it."""
        return {key: entry_from(record) for key, record in self.verdicts["translate"].data["supplied"].items()}

    @property
    def results(self) -> list[dict[str, Any]]:
        """The launches' rows of the summary; empty before the self-check."""
        check = self.verdicts.get("self-check")
        return check.data.get("launches", []) if check else []

    def skip_all(self) -> None:
        """End the stages of an op that launches nothing, with the files that are always there."""
        empty = files.json_text({"launches": []})
        logs = {files.CORRECTNESS: "NOT-RUN no launches\n", files.HOST: "NOT-RUN no launches\n"}
        for name, text in {files.DIFFERENCES: empty, files.DIFFERENCES_TEXT: files.NONE, **logs}.items():
            files.write(self.folder, name, text)
        for stage in ("translate", "self-check", "host-side"):
            self.inputs[stage] = digest_of(stage, self.inputs["analyze"])
            self.end(Verdict(stage, NOT_RUN, "no launches"), [])

    def finish(self) -> None:
        """Write the summary and say the op's own verdict."""
        summary = summary_of(self.name, self.analysis["arch"], self.journal.verdicts(), self.results)
        files.write(self.folder, files.SUMMARY, files.json_text(summary))
        self.say(summary["verdict"])


def summary_of(op: str, arch: str, stages: dict[str, dict[str, str]], launches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of summary.json; a stage that did not run is named, and no PASS is made of it."""
    identical = sum(result["verdict"] == "SASS-IDENTICAL" for result in launches)
    notes = [f"{name} {each['status']}" for name, each in stages.items() if each["status"] != PASS]
    status = FAIL if any(each["status"] == FAIL for each in stages.values()) or not launches else PASS
    reason = ", ".join([f"{identical} of {len(launches)} launches SASS-IDENTICAL", *notes])
    return {
        "op": op,
        "arch": arch,
        "verdict": f"VERDICT: {status} port {op}: {reason}",
        "stages": stages,
        "launches": launches,
    }


def run_summary(arch: str, ready: Verdict, works: Sequence[Work], seconds: float) -> dict[str, Any]:
    """Return what a whole run came to: counts, what failed by op, what is not identical."""
    everything = [{"op": work.name, **result} for work in works for result in work.results]
    bad = [result for result in everything if result["verdict"] != "SASS-IDENTICAL"]
    kernels = {(result["module"], result["kernel"]) for result in everything}
    failed = {work.name: [v.line(work.name) for v in work.verdicts.values() if v.status == FAIL] for work in works}
    once = {(result["module"], result["kernel"]) for result in everything if result["verdict"] == "SASS-IDENTICAL"}
    return {
        "arch": arch,
        "preflight": {"status": ready.status, "reason": ready.reason},
        "seconds": seconds,
        "kernels": len(kernels),
        "kernels_identical": len(kernels - {(result["module"], result["kernel"]) for result in bad}),
        "kernels_identical_once": len(once),
        "launches": len(everything),
        "identical": len(everything) - len(bad),
        "failed": {name: lines for name, lines in failed.items() if lines},
        "not_identical": [{n: result[n] for n in ("op", "kernel", "case", "verdict", "detail")} for result in bad],
    }
