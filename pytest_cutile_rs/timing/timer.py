# SPDX-License-Identifier: MIT
"""The measurement itself, the same for every clock: warm-up, calibration, mirrored blocks, what to keep."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from statistics import median
from typing import Any

from pytest_cutile_rs.gpus import out_of_memory
from pytest_cutile_rs.timing.activity import Attribution
from pytest_cutile_rs.timing.activity import Batch
from pytest_cutile_rs.timing.activity import attribute
from pytest_cutile_rs.timing.base import Collector
from pytest_cutile_rs.timing.base import Plan
from pytest_cutile_rs.timing.base import Record
from pytest_cutile_rs.timing.base import Side
from pytest_cutile_rs.timing.base import TimingUnavailable
from pytest_cutile_rs.timing.base import Until
from pytest_cutile_rs.timing.keep import Kept
from pytest_cutile_rs.timing.keep import Slot
from pytest_cutile_rs.timing.keep import keep

CALIBRATION_CALLS = 5
WARM_BATCH = 8
SENTINEL_TRIES = 3
LATE_DRAINS = 2
NO_RECORDS = (
    "no device activity was recorded. Likely causes: another profiler holds CUPTI (nsys, ncu, torch.profiler, DCGM); "
    "libcupti does not fit the driver; the work is launched from another process, or by a graph captured before"
)


class _SideError(Exception):
    def __init__(self, code: str, side: str, text: str) -> None:
        super().__init__(text)
        self.code = f"{code}:{side}"


class PairTimer:
    """A Timer over one collector; see :class:`pytest_cutile_rs.timing.base.Timer`."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._ident = 0
        self._opened = False

    @property
    def label(self) -> str:
        """See Timer."""
        return self._collector.label

    @property
    def gating(self) -> bool:
        """See Timer."""
        return self._collector.gating

    def open(self) -> None:
        """See Timer."""
        if self._opened:
            raise RuntimeError("the timing session is open already; one session serves the whole run")
        self._collector.open()
        try:
            self._expect_sentinel()
        except BaseException:
            self._collector.close()
            raise
        self._opened = True

    def close(self) -> None:
        """See Timer."""
        if self._opened:
            self._opened = False
            self._collector.close()

    def facts(self) -> dict[str, Any]:
        """See Timer."""
        return {"timer": self.label, "gating": self.gating} | self._collector.facts()

    def pair(
        self, name: str, sides: Mapping[str, Side], plan: Plan, *, seed: int = 0, until: Until | None = None
    ) -> Record:
        """See Timer."""
        if not self._opened:
            raise RuntimeError("the timing session is not open; call open() once before the first case")
        if not sides:
            raise ValueError("pair() needs at least one side")
        begin = self._collector.clock()
        before = self._collector.machine()
        kept = Kept({s: [] for s in sides}, {s: [] for s in sides}, {s: [] for s in sides})
        expected: dict[str, tuple[str, ...]] = {}
        error = detail = ""

        def record() -> Record:
            return Record(
                name=name,
                timer=self.label,
                gating=self.gating,
                seed=seed,
                sides=tuple(sides),
                blocks={s: list(v) for s, v in kept.blocks.items()},
                span={s: median(v) for s, v in kept.spans.items() if v},
                host_us={s: median(v) for s, v in kept.hosts.items() if v},
                kernels=dict(expected),
                attempted=kept.attempted,
                discarded=dict(kept.discarded),
                dropped=kept.dropped,
                invalid=kept.invalid,
                unattributed=dict(kept.unattributed),
                machine={"before": before, "after": self._collector.machine()},
                seconds=self._collector.clock() - begin,
                error=error,
                detail=detail,
            )

        try:
            sides, left_out = self._warm(sides, plan)
            detail = "; ".join(left_out)
            expected.update(self._calibrate(sides, plan))
            kept.restrict(sides)
            self._blocks(sides, plan, random.Random(seed), expected, kept, (lambda: until(record())) if until else None)
        except _SideError as problem:
            error, detail = problem.code, str(problem)
        except Exception as problem:  # a CUDA error sticks to the device: say so in the record, keep the run's report
            error, detail = "device_error", f"{type(problem).__name__}: {problem}"
        return record()

    def _expect_sentinel(self) -> None:
        """A session whose first kernel leaves no record is not one (records can be lost when a session starts)."""
        for _ in range(SENTINEL_TRIES):
            ident = self._push()
            self._collector.sentinel()
            self._collector.pop()
            if self._collect([ident]).call(ident).work:
                return
        raise TimingUnavailable("no_records", f"the sentinel kernel was launched, but {NO_RECORDS}.")

    def _warm(self, sides: Mapping[str, Side], plan: Plan) -> tuple[dict[str, Side], list[str]]:
        """Run every side by time, so that compilation, caches and clocks are behind us on all of them alike.

        Returns the sides that run, and why a reference does not.
        """
        running, left_out = {}, []
        for index, (side, call) in enumerate(sides.items()):
            try:
                self._guard(side, call)
            except _SideError as problem:
                if index < 2:
                    raise
                left_out.append(f"{problem.code}: {problem}")
            else:
                running[side] = call
        for side, call in running.items():
            begin = self._collector.clock()
            while self._collector.clock() - begin < plan.warm_s:
                self._guard(side, call, WARM_BATCH)
        self._collector.drain()
        return running, left_out

    def _guard(self, side: str, call: Side, times: int = 1) -> None:
        try:
            for _ in range(times):
                call()
            self._collector.synchronize()
        except Exception as problem:
            code = "out_of_memory" if out_of_memory(problem) else "side_error"
            raise _SideError(code, side, f"{type(problem).__name__}: {problem}") from problem

    def _calibrate(self, sides: Mapping[str, Side], plan: Plan) -> dict[str, tuple[str, ...]]:
        """The device work of one call of each side: what most of a few calls left."""
        order = [side for _ in range(CALIBRATION_CALLS) for side in sides]
        slots = [self._call(0, side, sides[side], plan.flush) for side in order]
        found = self._collect([slot.ident for slot in slots])
        expected = {}
        for side in sides:
            names = Counter(found.call(s.ident).names for s in slots if s.side == side and found.call(s.ident).work)
            if not names:
                strays = sorted({w.label for w in found.unattributed})
                seen = f" Work seen that belongs to no call: {', '.join(strays[:5])}." if strays else ""
                raise _SideError("no_kernels", side, f"side {side}: {NO_RECORDS}.{seen}")
            expected[side] = names.most_common(1)[0][0]
        return expected

    def _blocks(
        self,
        sides: Mapping[str, Side],
        plan: Plan,
        rng: random.Random,
        expected: Mapping[str, tuple[str, ...]],
        kept: Kept,
        enough: Any,
    ) -> None:
        begin = self._collector.clock()
        target = plan.min_blocks
        while kept.attempted < target:
            self._chunk(target - kept.attempted, sides, plan, rng, expected, kept)
            if target >= plan.max_blocks or (enough is not None and enough()):
                return
            each = (self._collector.clock() - begin) / kept.attempted
            affordable = int(plan.budget_s / each) if each > 0 else plan.max_blocks
            target = min(2 * target, plan.max_blocks, affordable)

    def _chunk(
        self,
        count: int,
        sides: Mapping[str, Side],
        plan: Plan,
        rng: random.Random,
        expected: Mapping[str, tuple[str, ...]],
        kept: Kept,
    ) -> None:
        slots: list[Slot] = []
        names = list(sides)
        for block in range(count):
            rng.shuffle(names)
            slots += [self._call(block, side, sides[side], plan.flush) for side in (*names, *reversed(names))]
        found = self._collect([slot.ident for slot in slots], kept)
        kept.attempted += count
        for block in range(count):
            keep([s for s in slots if s.block == block], found, expected, kept)

    def _call(self, block: int, side: str, call: Side, flush: bool) -> Slot:
        if flush:
            self._push()  # an id of its own: flushes are known work, not strays
            self._collector.flush_l2()
            self._collector.pop()
        ident = self._push()
        begin = self._collector.clock()
        try:
            call()
        except Exception as problem:
            raise _SideError("side_error", side, f"{type(problem).__name__}: {problem}") from problem
        finally:
            host = self._collector.clock() - begin
            self._collector.pop()
        return Slot(block, side, ident, host * 1e6)

    def _push(self) -> int:
        self._ident += 1
        self._collector.push(self._ident)
        return self._ident

    def _collect(self, idents: Sequence[int], kept: Kept | None = None) -> Attribution:
        self._collector.synchronize()
        batch = Batch()
        for _ in range(1 + LATE_DRAINS):
            batch.extend(self._collector.drain())
            found = attribute(batch)
            if all(ident in found.calls for ident in idents):
                break
        if kept is not None:
            kept.dropped += batch.dropped
            kept.invalid += found.invalid
            kept.unattributed.update(w.label for w in found.unattributed)
        return found
