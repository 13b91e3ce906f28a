# SPDX-License-Identifier: MIT
"""From a record to a verdict: pure logic, no clock, no device.

A case PASSes when its whole interval is at or above the threshold and FAILs when it is below; in between it is
AMBIGUOUS. NO-DATA, UNFAIR and NOISY say that the numbers do not support a verdict, and why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_cutile_rs import stats
from pytest_cutile_rs.result import WAIVED
from pytest_cutile_rs.timing.activity import MEMCPY
from pytest_cutile_rs.timing.activity import MEMSET
from pytest_cutile_rs.timing.base import Record
from pytest_cutile_rs.timing.base import Until
from pytest_cutile_rs.waivers import Waiver
from pytest_cutile_rs.waivers import waiver_for

PASS = "PASS"
FAIL = "FAIL"
AMBIGUOUS = "AMBIGUOUS"
NO_DATA = "NO-DATA"
UNFAIR = "UNFAIR"
NOISY = "NOISY"
VERDICTS = (PASS, AMBIGUOUS, FAIL, NOISY, UNFAIR, NO_DATA)
FAILING = frozenset({FAIL, NO_DATA, UNFAIR, NOISY})

THRESHOLD = 0.95
MAX_DISCARDED = 0.05
MAX_INVALID = 0.01
MIN_KEPT = 10
HALF_WIDTH = 0.01
# Of a kernel so short that one percent of it is below what the timer resolves.
PRECISION_US = 0.05
# Kernels of torch and of the libraries it calls: in a side that claims to be cuTile they are a fallback.
FOREIGN = re.compile(
    r"at::native|_ZN2at6native|anonymous namespace|_GLOBAL__N_|cutlass|cublas|cudnn|^nvjet|_xmma_|triton|flash_[fb]wd",
    re.I,
)


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on one case.

    ``ratio``, ``low``, ``high`` are measured (NaN without data); ``counted`` is what enters the op's mean: the ratio,
    or 1.0 when the sides differ by less than 0.5 us (``floored``).
    """

    name: str
    verdict: str
    reason: str
    text: str
    threshold: float = THRESHOLD
    ratio: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    counted: float = float("nan")
    floored: bool = False
    subject_us: float = float("nan")
    peer_us: float = float("nan")
    blocks: int = 0
    mild_outliers: int = 0
    severe_outliers: int = 0
    ratios: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON types; numbers that do not exist are None."""
        data = {k: None if isinstance(v, float) and v != v else v for k, v in asdict(self).items()}
        return data | {"ratios": list(self.ratios)}


@dataclass(frozen=True)
class OpVerdict:
    """The verdict on an op: its cases', and that of their geometric mean."""

    op: str
    verdict: str
    reason: str
    text: str
    threshold: float
    geomean: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    worst: str = ""
    counts: Mapping[str, int] | None = None


def no_data(reason: str, text: str, name: str = "") -> CaseVerdict:
    """The verdict when nothing could be measured."""
    return CaseVerdict(name, NO_DATA, reason, text)


def judge(
    record: Record,
    *,
    threshold: float = THRESHOLD,
    subject: str = "rs",
    peer: str = "py",
    expected: Mapping[str, Sequence[str]] | None = None,
    tileiras: Mapping[str, str] | None = None,
    noise_floor: stats.NoiseFloor | None = None,
    allow_non_gating: bool = False,
    unobserved: Mapping[str, str] | None = None,
    others: bool = False,
    one_wrapper: bool = False,
) -> CaseVerdict:
    """Judge one record.

    Args:
        expected: per side, the kernel names its launches must have, in order; a recorded name has to contain them.
            A side that is not in it may run any.
        tileiras: per side, the hash of the assembler that made its machine code; they have to be equal.
        noise_floor: of this machine; when it cannot resolve the threshold, nothing is decided.
        allow_non_gating: let a verdict rest on the event timer.
        unobserved: per side, why it is not known what it launched; then nothing shows that the comparison is fair.
        others: whether kernels and copies of torch's may run between those expected: they are part of the op.
        one_wrapper: both sides are one program but for their kernels, so what torch runs may too where it is the same.
    """
    parts = [[sorted(names) for names in _of_torch(record, side)] for side in (subject, peer)]
    others = others or (one_wrapper and parts[0] == parts[1])
    unseen = (unobserved or {}).items()
    for problem in (
        _missing(record, subject, peer, allow_non_gating),
        _unfair(record, subject, peer, expected or {}, tileiras or {}, others),
        *((UNFAIR, "unobserved", f"what side {side} launched is not known: {w}") for side, w in unseen),
        _noisy(record, threshold, noise_floor),
    ):
        if problem is not None:
            verdict, reason, text = problem
            return _measured(record, threshold, subject, peer, verdict, reason, text)
    case = _measured(record, threshold, subject, peer, "", "", "")
    numbers = f"{case.ratio:.3f} [{case.low:.3f}, {case.high:.3f}] against {threshold:g}"
    if case.low >= threshold:
        verdict, reason, text = PASS, "ci_above", f"speedup {numbers}"
    elif case.floored:
        verdict, reason = PASS, "below_floor"
        text = f"the sides differ by less than {stats.FLOOR_US} us and count as equal (measured {numbers})"
    elif case.high < threshold:
        verdict, reason, text = FAIL, "ci_below", f"speedup {numbers}"
    else:
        verdict, reason = AMBIGUOUS, "ci_straddles"
        text = f"speedup {numbers}: the interval contains the threshold after {case.blocks} blocks"
    return replace(case, verdict=verdict, reason=reason, text=f"{text}; {_times(case)}")


def waive(
    verdict: CaseVerdict, waivers: Sequence[Waiver], op: str, case: str, judge: Callable[[float], CaseVerdict]
) -> tuple[str, str, dict[str, Any] | None]:
    """Apply the waiver about a case to a FAIL or AMBIGUOUS; ``judge`` judges the same record by another threshold.

    Returns the status, its text, and for a waiver that counted what it waived. One that asks for a ratio which the
    case does not reach waives nothing: the verdict by that ratio stands.
    """
    waiver = waiver_for(waivers, op, case) if verdict.verdict in (FAIL, AMBIGUOUS) else None
    if waiver is None:
        return verdict.verdict, verdict.text, None
    until = f"waiver {waiver}, until {waiver.expires}: {waiver.reason}"
    if waiver.threshold is not None:
        again = judge(waiver.threshold)
        if again.verdict != PASS:
            return again.verdict, f"{again.text}; not even the waived {waiver.limit} is reached ({until})", None
    was = {"status": verdict.verdict, "code": verdict.reason, "waiver": waiver.to_dict()}
    return WAIVED, f"{verdict.verdict} {verdict.text}; {until}", was


def decided(
    threshold: float = THRESHOLD, *, half_width: float = HALF_WIDTH, subject: str = "rs", peer: str = "py"
) -> Until:
    """A stop rule for Timer.pair: a clear verdict, and an interval that is narrow (half of it, relative) or tiny."""

    def enough(record: Record) -> bool:
        case = judge(record, threshold=threshold, subject=subject, peer=peer, allow_non_gating=True)
        if case.verdict in (NOISY, NO_DATA):
            return False
        wide = (case.high - case.low) / 2
        return case.verdict != AMBIGUOUS and (wide <= half_width or wide * case.peer_us <= PRECISION_US)

    return enough


def judge_op(op: str, cases: Sequence[CaseVerdict], *, threshold: float = THRESHOLD, seed: int = 0) -> OpVerdict:
    """Judge an op by its cases: the worst case's verdict, and FAIL or AMBIGUOUS by the geometric mean's interval."""
    if not cases:
        return OpVerdict(op, NO_DATA, "no_cases", f"{op}: no case was measured", threshold)
    counts = {v: n for v in VERDICTS if (n := sum(c.verdict == v for c in cases))}
    worst = max(cases, key=lambda c: (VERDICTS.index(c.verdict), -c.counted if c.counted == c.counted else 0.0))
    judged = [c for c in cases if c.verdict in (PASS, FAIL, AMBIGUOUS)]
    tally = ", ".join(f"{n} {v}" for v, n in counts.items())
    if not judged:
        return OpVerdict(op, worst.verdict, worst.reason, f"{op}: {tally}", threshold, worst=worst.name, counts=counts)
    mean = stats.geomean([np.array([1.0]) if c.floored else np.array(c.ratios) for c in judged], seed=seed)
    numbers = f"geomean {mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}] over {mean.n} cases"
    text = f"{op}: {numbers} against {threshold:g}; {tally}"
    verdict, reason = worst.verdict, worst.reason
    if verdict == PASS:
        if mean.high < threshold:
            verdict, reason = FAIL, "geomean_below"
        elif mean.low < threshold:
            verdict, reason = AMBIGUOUS, "geomean_straddles"
        else:
            reason = "geomean_above"
    return OpVerdict(op, verdict, reason, text, threshold, mean.value, mean.low, mean.high, worst.name, counts)


Problem = tuple[str, str, str]


def _missing(record: Record, subject: str, peer: str, allow_non_gating: bool) -> Problem | None:
    if record.error and record.error.partition(":")[2] in ("", subject, peer):
        return NO_DATA, record.error.partition(":")[0], record.detail
    absent = [side for side in (subject, peer) if side not in record.sides]
    if absent:
        return NO_DATA, "side_missing", f"side {', '.join(absent)} was not measured"
    if not record.gating and not allow_non_gating:
        return NO_DATA, "not_gating", f"the {record.timer} timer does not gate; ask for it by name to let it"
    if record.error:
        return NO_DATA, record.error.partition(":")[0], f"{record.error}: {record.detail}"
    return None


def _unfair(
    record: Record,
    subject: str,
    peer: str,
    expected: Mapping[str, Sequence[str]],
    tileiras: Mapping[str, str],
    others: bool,
) -> Problem | None:
    for side in (subject, peer):
        names = record.kernels.get(side, ())
        copies, foreign = _of_torch(record, side)
        if copies and not others:
            return UNFAIR, "stray_copy", f"side {side} enqueues {', '.join(copies)} besides its kernels: {_list(names)}"
        if foreign and not others:
            return UNFAIR, "foreign_kernel", f"side {side} runs kernels that are not cuTile's: {_list(foreign)}"
        wanted = tuple(expected.get(side, names))
        own = _found(wanted, names) if others else names
        if len(wanted) != len(own) or any(w not in n for w, n in zip(wanted, own, strict=True)):
            return UNFAIR, "kernel_mismatch", f"side {side} should run {_list(wanted)}, ran {_list(names)}"
    if subject in tileiras and peer in tileiras and tileiras[subject] != tileiras[peer]:
        return UNFAIR, "tileiras_differs", f"the sides were assembled by different tileiras: {dict(tileiras)}"
    return None


def _of_torch(record: Record, side: str) -> tuple[list[str], list[str]]:
    """A side's copies, and its kernels that are not cuTile's."""
    names = record.kernels.get(side, ())
    return [n for n in names if n in (MEMCPY, MEMSET)], [n for n in names if FOREIGN.search(n)]


def _found(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return those of `names` that are `wanted`, in this order, as far as they are there."""
    rest = iter(names)
    return [found for each in wanted if (found := next((name for name in rest if each in name), None)) is not None]


def _noisy(record: Record, threshold: float, floor: stats.NoiseFloor | None) -> Problem | None:
    calls = max(1, 2 * len(record.sides) * record.attempted)
    lost = sum(record.discarded.values())
    if record.invalid > MAX_INVALID * calls:
        return NOISY, "invalid_records", f"{record.invalid} records of {calls} calls end before they start"
    if lost > MAX_DISCARDED * record.attempted:
        why = ", ".join(f"{n} {reason}" for reason, n in sorted(record.discarded.items()))
        reason = "dropped_records" if record.dropped else "discards"
        text = f"{lost} of {record.attempted} blocks were not usable ({why}; {record.dropped} records dropped)"
        return NOISY, reason, text
    if record.kept < MIN_KEPT:
        return NO_DATA, "too_few_blocks", f"{record.kept} usable blocks, {MIN_KEPT} are needed"
    if floor is not None and not floor.resolves(threshold):
        text = f"two equal sides come {floor.counted:.1%} apart here, so {threshold:g} cannot be told from 1"
        return NOISY, "noise_floor", text
    return None


def _measured(
    record: Record, threshold: float, subject: str, peer: str, verdict: str, reason: str, text: str
) -> CaseVerdict:
    """The verdict with whatever numbers there are."""
    base = CaseVerdict(record.name, verdict, reason, text, threshold)
    if not record.blocks.get(subject) or not record.blocks.get(peer):
        return base
    values = stats.ratios(record.blocks[peer], record.blocks[subject])
    found = stats.estimate(values, seed=record.seed)
    peer_us, subject_us = record.median_us(peer), record.median_us(subject)
    floored = stats.below_floor(peer_us, subject_us)
    return replace(
        base,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        counted=1.0 if floored else found.ratio,
        floored=floored,
        subject_us=subject_us,
        peer_us=peer_us,
        blocks=found.n,
        mild_outliers=found.mild_outliers,
        severe_outliers=found.severe_outliers,
        ratios=tuple(float(v) for v in values),
    )


def _times(case: CaseVerdict) -> str:
    return f"peer {case.peer_us:.2f} us, subject {case.subject_us:.2f} us, {case.blocks} blocks"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
