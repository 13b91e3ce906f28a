# SPDX-License-Identifier: MIT
"""A run that never took place: every verdict, all four checks, texts that try to break out of each format."""

from __future__ import annotations

import random
from typing import Any

from pytest_cutile_rs import record
from pytest_cutile_rs import stats
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import ordered
from pytest_cutile_rs.report.tilegym import TilegymResults
from pytest_cutile_rs.result import CheckResult

STARTED = 1_790_000_000.0
HOSTILE = '<script>alert("1")</script> & | `x` \n"y"'
FLOOR = {"name": "alpha[f16-4096x4096]", "us": 56.7, "ratio": 0.9996, "low": 0.9939, "high": 1.0028, "n": 20}
WAIVERS = [
    {"op": "beta", "case": "bf16-5*", "threshold": 0.7, "reason": "slow on purpose", "expires": "2026-12-24"},
    {"op": "alpha", "case": "i32-*", "threshold": "any", "reason": "not yet", "expires": "2026-12-31"},
]
GPU = {"name": "NVIDIA Example", "uuid": "GPU-1", "driver": "999.10"}


def report(
    *, ident: str = "0badcafe", started: float = STARTED, gain: float = 1.0, complete: bool = True, **chosen: Any
) -> Report:
    """The run; ``gain`` scales every ratio."""
    results = ordered([*_alpha(gain), *_beta(gain), *_gamma()])
    options = {
        **{"enabled": True, "min_cases": 1, "seed": 7, "threshold": 0.95, "thresholds": {"beta": 0.9}, "arch": ""},
        **{"perf_budget": 20.0, "waivers": WAIVERS},
        **chosen,
    }
    floor = {"gpu": "GPU-1", "relative": 0.0061, "cases": [FLOOR]}
    return Report(
        options=options,
        results=results,
        seconds={one.nodeid: round(0.25 + index / 100, 2) for index, one in enumerate(results)},
        complete=complete,
        started=started,
        finished=started + 61,
        command=["--cutile-rs", "--cutile-rs-seed", "7"],
        tilegym=TilegymResults(3, ["tests/ops/test_alpha.py::test_x[1]"]),
        facts={
            "python": "3.12.3",
            "gpus": [GPU],
            "gpu": GPU["name"],
            "driver": GPU["driver"],
            "arch": "sm_90",
            "packages": {"torch": "2.11.0", "tilegym": "1.5.1", "cuda-tile": "1.7.0"},
            "backend": {"library_build_id": "1234abcd", "tileiras": "13.4.92"},
            "library_build_id": "1234abcd",
        },
        selected=len(results) + (0 if complete else 2),
        run={"id": ident, "shard": options.get("shard", "1/1"), "seed": 7, "threshold": 0.95},
        extra=record.extras(options, results, record.noise_floor([{"noise_floor": floor}])),
    )


def _alpha(gain: float) -> list[CheckResult]:
    """An op at its best, one case of it slow, one undecided."""
    found = []
    for number, (case, ratio, status) in enumerate(
        [("f16-64x1024", 1.02, "PASS"), ("f16-4096x4096", 1.66, "PASS"), ("f32-256x2048", 0.88, "FAIL")]
    ):
        found += [_numbers("alpha", case), _ir("alpha", case), _sass("alpha", case)]
        found.append(_perf("alpha", case, ratio * gain, status, number))
    return [*found, _perf("alpha", "f32-8x8", 0.951 * gain, "AMBIGUOUS", 9, noise=0.06)]


def _beta(gain: float) -> list[CheckResult]:
    """A ported op with identical machine code, and every way of having no verdict."""
    case = "bf16-100x100-ported"
    same = CheckResult(
        "ir", "beta", case, "PASS", "IR-IDENTICAL in 1 kernel", {"equal": True, "launches": []}, "", "bf16"
    )
    return [
        _numbers("beta", case),
        same,
        _sass("beta", case, identical=True),
        _perf("beta", case, 1.0 * gain, "PASS", 4),
        _perf("beta", "bf16-5x5", 0.8 * gain, "WAIVED", 5),
        CheckResult(
            "perf", "beta", "bf16-1x1", "NO-DATA", "libcupti is not there", {"code": "cupti_missing"}, "", "bf16"
        ),
        CheckResult("perf", "beta", "bf16-2x2", "UNFAIR", "side py runs kernels that are not cuTile's", {}, "", "bf16"),
        CheckResult("perf", "beta", "bf16-3x3", "NOISY", "4 of 20 blocks were not usable", {}, "", "bf16"),
        CheckResult("perf", "beta", "bf16-4x4", "NOT-RUN", "numerics failed: 3 values differ", {}, "", "bf16"),
    ]


def _gamma() -> list[CheckResult]:
    """An op without a Rust kernel, and a failure with a hostile message."""
    bad = CheckResult("numerics", "gamma", "f16-2x2", "FAIL", HOSTILE, {}, f"got {HOSTILE}", "f16")
    alone = CheckResult("numerics", "gamma", "f16-4x4", "PASS", "max error 0.5 ulp", {"peer_only": True}, "", "f16")
    return [bad, alone]


def _dtype(case: str) -> str:
    return case.partition("-")[0]


def _numbers(op: str, case: str) -> CheckResult:
    errors = {"max_abs": 0.0004882, "max_rel": 0.001, "max_ulp": 0.5, "bad": 0, "total": 65536}
    data = {
        "ours": errors,
        "cutile_python": errors | {"max_ulp": 1.0},
        "tolerance": {"rtol": 0.001, "atol": 0.0001, "why": "one rounding to 11 bits"},
        "device": "cuda",
    }
    return CheckResult("numerics", op, case, "PASS", "max error 0.000488 abs, 0.5 ulp", data, "", _dtype(case))


def _ir(op: str, case: str) -> CheckResult:
    difference = {
        "category": "hint",
        "what": f"{op}.rs:25:8 against {op}.py:247:0",
        "ours": "occupancy 16",
        "theirs": "occupancy 8",
    }
    launch = {
        "ours": {"kernel": f"{op}_row", "grid": [64, 1, 1], "hints": {}},
        "theirs": {"kernel": f"_{op}_kernel", "grid": [64, 1, 1], "hints": {}},
        "verdict": "DIFFERS",
        "differences": [difference],
        "launch_differences": ["occupancy: ours 16, theirs 8"],
        "side_by_side": f"ours: {op}_row    theirs: _{op}_kernel\n%1 = load_view_tko < |  %1 = load_ptr_tko",
    }
    data = {"arch": "sm_90", "launches": [launch], "equal": False, "categories": ["hint"]}
    return CheckResult("ir", op, case, "PASS", "differs in hint", data, "", _dtype(case))


def _sass(op: str, case: str, identical: bool = False) -> CheckResult:
    ours = {"kernel": f"{op}_row", "grid": [64, 1, 1], "text_bytes": 2048, "registers": 40, "frame_bytes": 0}
    theirs = ours | {"kernel": f"_{op}_kernel"} | ({} if identical else {"text_bytes": 2176, "registers": 48})
    launch = {"ours": ours, "theirs": theirs, "verdict": "IDENTICAL" if identical else "DIFFERENT", "assemblies": 1}
    data = {
        "arch": "sm_90",
        "variant": "ported" if identical else "native",
        "launches": [launch],
        "identical": identical,
    }
    reason = f"SASS-IDENTICAL _{op}_kernel (2048 B)" if identical else f"{op}_row / _{op}_kernel differ"
    return CheckResult("sass", op, case, "PASS", reason, data, "", _dtype(case))


def _perf(op: str, case: str, ratio: float, status: str, seed: int, noise: float = 0.004) -> CheckResult:
    rng = random.Random(seed)
    ours = [round(10.0 * rng.gauss(1.0, noise), 4) for _ in range(20)]
    theirs = [round(10.0 * ratio * rng.gauss(1.0, noise), 4) for _ in range(20)]
    found = stats.estimate(stats.ratios(theirs, ours), seed=seed)
    data = {
        "threshold": 0.95,
        "ratio": round(found.ratio, 6),
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "counted": round(found.ratio, 6),
        "code": "ci_above" if status == "PASS" else "ci_below",
        "us": {"py": round(10.0 * ratio, 3), "rs": 10.0, "torch": 30.0},
        "host_us": {"py": 61.5, "rs": 11.25, "torch": 9.0},
        "gbytes_per_s": 2348.5,
        "tflops": 2.9,
        "timer": "cupti",
        "protocol": {"name": "best-of-4", "us": {"py": 9.9 * ratio, "rs": 9.9}, "ratio": ratio},
        "choices": {"rs": {"launches": [], "tuning_s": 0.0}, "py": {"tuning_s": 1.5, "tuning": []}},
        "tileiras": {"rs": "a" * 64, "py": "a" * 64},
        "record": {
            "name": f"{op}[{case}]",
            "blocks": {"py": theirs, "rs": ours, "torch": [30.0] * 20},
            "kernels": {"py": [f"_{op}_kernel"], "rs": [f"{op}_row"], "torch": ["at::native::f<4, float>"]},
            "attempted": 20,
            "discarded": {},
            "machine": {"before": {"sm_mhz": 1980}, "after": {"sm_mhz": 1965}},
        },
    }
    reason = f"speedup {found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}] against 0.95"
    return CheckResult(
        "perf", op, case, status, reason, data, "the long message" if status == "FAIL" else "", _dtype(case)
    )
