# SPDX-License-Identifier: MIT
"""The run's record besides its results: how it was run, on what, its noise floor, waivers, protocol, verdicts per op.

Pure functions from results and from what each process reports; keys are those of ``summary.json``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from pytest_cutile_rs import protocol
from pytest_cutile_rs import waivers
from pytest_cutile_rs.checks.perf import NO_DEVICE
from pytest_cutile_rs.checks.perf import NO_PEER
from pytest_cutile_rs.options import Options
from pytest_cutile_rs.result import CHECKED
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import FAILING
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import WAIVED
from pytest_cutile_rs.result import CheckResult

Line = tuple[str, dict[str, bool]]


def machine(known: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``machine``: what the controller knows, joined with what the processes that ran checks report.

    ``library_build_id``, ``driver`` and ``gpu`` (its model) are what two reports have to agree on to be merged; None
    where a run never came to know.
    """
    found = dict(known)
    for name in ("backend", "peer", "timer"):
        found[name] = next((dict(part[name]) for part in parts if part.get(name)), {})
    gpus = list(known.get("gpus") or ())
    models = [str(part["gpu"]) for part in parts if part.get("gpu")] or [gpu["name"] for gpu in gpus]
    found["gpu"] = models[0] if models else None
    found["gpu_uuids"] = sorted({str(part["gpu_uuid"]) for part in parts if part.get("gpu_uuid")})
    found["driver"] = found["timer"].get("driver") or next((gpu["driver"] for gpu in gpus), None)
    found["library_build_id"] = found["backend"].get("library_build_id")
    return found


def run(options: Options) -> dict[str, Any]:
    """``run``: the choices that decide what was checked and how it was judged."""
    return {
        "shard": str(options.shard),
        "seed": options.seed,
        "threshold": options.threshold,
        "thresholds": dict(options.thresholds),
        "ambiguous": options.ambiguous,
        "timer": options.timer,
        "protocol": options.protocol or None,
        "self_check": options.self_check,
    }


def noise_floor(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """``noise_floor``: the largest of all processes, and each one's; None where none was measured."""
    found = [dict(part["noise_floor"]) for part in parts if part.get("noise_floor")]
    return {"relative": max(one["relative"] for one in found), "measured": found} if found else None


def joined_floor(floors: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The noise floors of several runs as that of one."""
    return noise_floor([{"noise_floor": one} for floor in floors if floor for one in floor["measured"]])


def extras(
    options: Mapping[str, Any], results: Sequence[CheckResult], floor: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What ``summary.json`` has at its top level besides ``run``, from the run's options as the report has them."""
    known = waivers.read_waivers(list(options.get("waivers", ())), datetime.date.min)
    return {
        "noise_floor": floor,
        "waivers": waivers.used(known, results),
        "protocol": protocol.summary(results),
        "op_verdicts": op_verdicts(options, results),
    }


def op_verdicts(options: Mapping[str, Any], results: Iterable[CheckResult]) -> list[dict[str, Any]]:
    """``op_verdicts``: per op with a measured case, the geometric mean with its interval, judged by the op's threshold.

    Waived cases are counted and left out of the mean.
    """
    by_op: dict[str, list[CheckResult]] = {}
    for result in results:
        if result.check == "perf" and result.status != NOT_RUN:
            by_op.setdefault(result.op, []).append(result)
    return [_op_verdict(op, found, options) for op, found in sorted(by_op.items())]


def _op_verdict(op: str, found: Sequence[CheckResult], options: Mapping[str, Any]) -> dict[str, Any]:
    from pytest_cutile_rs import gate

    cases = [_case(result, gate) for result in found if result.status != WAIVED]
    waived = len(found) - len(cases)
    if not cases:
        text = f"{op}: {waived} {WAIVED}"
        return {"op": op, "verdict": WAIVED, "reason": "waived", "text": text, "counts": {WAIVED: waived}}
    threshold = float(options.get("thresholds", {}).get(op, options.get("threshold", gate.THRESHOLD)))
    verdict = gate.judge_op(op, cases, threshold=threshold, seed=int(options.get("seed", 0)))
    counts = dict(verdict.counts or {}) | ({WAIVED: waived} if waived else {})
    raw = vars(verdict) | {"counts": counts, "text": verdict.text + (f", {waived} {WAIVED}" if waived else "")}
    return {name: None if isinstance(value, float) and value != value else value for name, value in raw.items()}


def _case(result: CheckResult, gate: Any) -> Any:
    """The verdict on a case, from its result alone; one without samples of its own counts with its ratio."""
    data = result.data
    blocks = (data.get("record") or {}).get("blocks") or {}
    if blocks.get("rs") and blocks.get("py"):
        ratios = tuple(peer / subject for peer, subject in zip(blocks["py"], blocks["rs"], strict=True))
    else:
        ratios = (float(data["counted"]),) if data.get("counted") else ()
    status = result.status if ratios or result.status in FAILING else gate.NO_DATA
    return gate.CaseVerdict(
        result.case,
        status,
        str(data.get("code", "")),
        result.reason,
        counted=float(data.get("counted") or "nan"),
        floored=bool(data.get("floored")),
        ratios=ratios or (1.0,),
    )


def unmeasured(results: Iterable[CheckResult]) -> str:
    """Why device time is missing although there is a GPU to measure it on; empty when it is not."""
    perf = [result for result in results if result.check == "perf"]
    codes = {result.data.get("code") for result in perf if result.status == NOT_RUN}
    if any(result.status in CHECKED or result.status in FAILING for result in perf) or NO_DEVICE in codes:
        return ""
    reasons = [result.reason for result in perf if result.data.get("code") == NO_PEER]
    return f"there is a GPU, but none of {len(perf)} cases was measured: {reasons[0]}" if reasons else ""


def failing_ops(extra: Mapping[str, Any]) -> list[str]:
    """Texts of the ops that FAIL by their mean although no case of theirs does."""
    found = extra.get("op_verdicts", ())
    return [one["text"] for one in found if one["verdict"] == FAIL and one["reason"] == "geomean_below"]


def lines(extra: Mapping[str, Any]) -> list[Line]:
    """The summary's lines about all this, each with pytest's markup arguments."""
    found: list[Line] = []
    floor = extra.get("noise_floor")
    if floor is not None:
        cases = sum(len(one["cases"]) for one in floor["measured"])
        found.append((f"noise floor {floor['relative']:.2%}: equal sides, {cases} A/A cases", {}))
    for one in extra.get("op_verdicts", ()):
        found.append((f"{one['verdict']} {one['text']}", {"red": one["verdict"] in FAILING}))
    for one in extra.get("waivers", ()):
        name = f"{one['op']}[{one['case']}] down to {one['threshold']}, until {one['expires']}: {one['reason']}"
        if one["used"]:
            found.append((f"WAIVED {len(one['used'])} by {name}; {', '.join(one['used'])}", {"yellow": True}))
        else:
            found.append((f"unused waiver {name} ({one['note']})", {"yellow": True}))
    published = extra.get("protocol")
    if published is not None:
        mean, ours = published["geomean"], published["paired_geomean"]
        figures = f"geomean {mean:.3f}, ours {ours:.3f}" if mean is not None and ours is not None else "no figures"
        lost = f", {published['errors']} without a time" if published["errors"] else ""
        text = f"{published['name']} (never gates): {figures} over {published['cases']} cases{lost}"
        found.append((text, {}))
    return found
