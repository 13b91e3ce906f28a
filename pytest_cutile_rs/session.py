# SPDX-License-Identifier: MIT
"""The state of one parity run in one process: suites, both sides, the timer, and the results of its checks."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from typing import Any

import pytest

from pytest_cutile_rs.backend import DEFAULT_ARCH
from pytest_cutile_rs.backend import Backend
from pytest_cutile_rs.backend import CutileRsBackend
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.backend import Launch
from pytest_cutile_rs.backend import kind_of
from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.measuring import Measuring
from pytest_cutile_rs.options import Options
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NO_KERNEL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.size import size_of
from pytest_cutile_rs.suites import is_built_in
from pytest_cutile_rs.suites import suites
from tilegym_rs_backend.registration import native_ops

if TYPE_CHECKING:
    from pytest_cutile_rs.peers.base import Peer

# Packages whose absence makes a check impossible rather than wrong.
_OPTIONAL = frozenset({"torch", "tilegym", "cuda", "numpy", "cffi", "elftools"})


class ParitySession:
    """Runs checks; everything expensive is made at the first check that needs it."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config = config
        self.options = options
        self._results: dict[tuple[str, str, str], CheckResult] = {}
        self._launches: dict[tuple[str, str, str], tuple[Any, ...]] = {}
        self.measuring = Measuring(self)

    @cached_property
    def suites(self) -> dict[str, OpSuite]:
        """Built-in op suites and those of the hook, sorted by name."""
        extra = self.config.hook.pytest_cutile_rs_suites(config=self.config)
        return suites(suite for group in reversed(extra) for suite in group)

    @cached_property
    def backend(self) -> Backend:
        """The side under test, registered."""
        found: Backend = self._replaced_backend() or CutileRsBackend(self.options.variant)
        found.prepare()
        return found

    def get_ready(self, cases: Iterable[tuple[OpSuite, Case]], say: Callable[[str], None]) -> None:
        """Build what the cases need before the first of them runs, in one go and with progress.

        What fails here fails again, and is shown, at each case that needs it.
        """
        try:
            pairs = {
                (suite.name, case.id): (suite, case)
                for suite, case in cases
                if not case.raises and kind_of(self.backend, suite)
            }
            self.backend.ready(pairs.values(), self.arch, say)
        except Exception as error:
            say(f"preparation stopped ({type(error).__name__}: {error}); each case that needs it says more")

    def _replaced_backend(self) -> Backend | None:
        found: Backend | None = self.config.hook.pytest_cutile_rs_backend(config=self.config)
        return found

    @cached_property
    def peer(self) -> Peer:
        """The side compared with."""
        found: Peer | None = self.config.hook.pytest_cutile_rs_peer(config=self.config)
        if found is not None:
            return found
        from pytest_cutile_rs.peers.cutile_python import CutilePython

        return CutilePython()

    @cached_property
    def device(self) -> Device:
        """Where ops run."""
        return self.backend.device()

    @property
    def arch(self) -> str:
        """What is compiled for: the option's, else the GPU's, else sm_90."""
        return self.options.arch or self.device.arch or DEFAULT_ARCH

    def cases(self) -> Iterator[tuple[str, OpSuite, Case]]:
        """Every selected (check, suite, case), in the order of the report: checks, ops by name, cases as listed."""
        options = self.options
        for check in CHECKS:
            for name, suite in self.suites.items():
                if check not in options.checks or (options.ops and name not in options.ops):
                    continue
                quick = options.quick or self._is_brief(suite)
                for case in suite.cases:
                    if check in case.checks and case.dtype in options.dtypes and (case.quick or not quick):
                        yield check, suite, self._named(case)

    def _is_brief(self, suite: OpSuite) -> bool:
        """Whether an op that nobody asked for by name takes part with its quick cases alone.

        So do TileGym's ops without native kernels: there are a thousand cases of them, and what they launch is
        translated, with machine code that is compared in the quick cases.
        """
        options = self.options
        if options.all or options.ids or suite.name in options.ops or not is_built_in(suite):
            return False
        return suite.name not in native_ops()

    def _named(self, case: Case) -> Case:
        """A variant that was asked for is part of the id, so that results of two variants are never mixed."""
        if self.options.variant == "auto":
            return case
        return dataclasses.replace(case, id=f"{case.id}-{self.options.variant}")

    def run(self, check: str, suite: OpSuite, case: Case) -> CheckResult:
        """Runs one check of one case, once; a check that cannot run here is NOT-RUN with its reason.

        Raises:
            Exception: whatever the check raises for a fault of the op; a FAIL is kept for it.
        """
        key = (check, case.op, case.id)
        if key not in self._results:
            size = size_of(suite, case)
            try:
                self._results[key] = dataclasses.replace(self._run(check, suite, case), size=size)
            except Exception as error:
                reason = _impossible(error)
                status = NOT_RUN if reason else FAIL
                text = reason or f"{type(error).__name__}: {error}"
                self._results[key] = CheckResult(
                    check, case.op, case.id, status, text.splitlines()[0], {}, text, case.dtype, size
                )
                if not reason:
                    raise
        return self._results[key]

    def _run(self, check: str, suite: OpSuite, case: Case) -> CheckResult:
        replaced = self.config.hook.pytest_cutile_rs_check(config=self.config, check=check, suite=suite, case=case)
        if replaced is not None:
            found: CheckResult = replaced
            return found
        runners: dict[str, Callable[[OpSuite, Case], CheckResult]] = {
            "numerics": self._numerics,
            "ir": self._ir,
            "sass": self._sass,
            "perf": self._perf,
        }
        kind = kind_of(self.backend, suite)
        if check != "numerics" and not kind:
            return CheckResult(check, case.op, case.id, NOT_RUN, NO_KERNEL, dtype=case.dtype)
        return runners[check](suite, case)

    def _numerics(self, suite: OpSuite, case: Case) -> CheckResult:
        found = self._numbers(suite, case, alone=False)
        if found is None:
            gc.collect()  # what the first attempt held
            found = self._numbers(suite, case, alone=True)
        assert found is not None
        return found

    def _numbers(self, suite: OpSuite, case: Case, *, alone: bool) -> CheckResult | None:
        """Judge the numbers of a case; None where a GPU shared with other processes had not enough memory for it."""
        from pytest_cutile_rs import gpus
        from pytest_cutile_rs.checks import numerics

        with self.measuring.turn(exclusive=alone):
            try:
                seed = self.options.seed
                return numerics.check(
                    self.backend, lambda: self.peer, suite, case, self.device, self.arch, seed, alone=alone
                )
            except Exception as error:
                if alone or not gpus.out_of_memory(error):
                    raise
                return None
            finally:
                gpus.release_memory()

    def _ir(self, suite: OpSuite, case: Case) -> CheckResult:
        reason = self.peer.available()
        if reason:
            return CheckResult("ir", case.op, case.id, NOT_RUN, reason, dtype=case.dtype)
        from pytest_cutile_rs.checks import ir

        theirs, ours = self._both(suite, case)
        found: CheckResult = ir.check(case, ours, theirs, arch=suite.arch_for(self.arch))
        return found

    def _sass(self, suite: OpSuite, case: Case) -> CheckResult:
        reason = self.peer.available()
        if reason:
            return CheckResult("sass", case.op, case.id, NOT_RUN, reason, dtype=case.dtype)
        from pytest_cutile_rs.checks import sass

        kind = kind_of(self.backend, suite)
        theirs, ours = self._both(suite, case)
        found: CheckResult = sass.check(
            case,
            ours,
            theirs,
            arch=suite.arch_for(self.arch),
            assemble=self.backend.assemble,
            variant=kind,
        )
        return found

    def _perf(self, suite: OpSuite, case: Case) -> CheckResult:
        from pytest_cutile_rs.checks import perf

        if not self.device.timed:
            return perf.no_device(case, self.device)
        try:
            numbers = self.run("numerics", suite, case)  # where they ran in another process, they run here again
        except Exception as error:
            return CheckResult("perf", case.op, case.id, NOT_RUN, f"numerics failed: {error}", dtype=case.dtype)
        if numbers.status != PASS:
            reason = f"numerics {'failed' if numbers.status == FAIL else 'did not run'}: {numbers.reason}"
            return CheckResult("perf", case.op, case.id, NOT_RUN, reason, dtype=case.dtype)
        return self.measuring.check(suite, case)

    def ops_that_passed(self, check: str) -> frozenset[str]:
        """Ops of which some case passed this check in this process."""
        return frozenset(op for (name, op, _), found in self._results.items() if name == check and found.status == PASS)

    def _both(self, suite: OpSuite, case: Case) -> tuple[tuple[Any, ...], tuple[Launch, ...]]:
        """The peer's launches and ours. The peer comes first: what it refuses (fp8 for sm_80) is not ours to fail."""
        return self.theirs(suite, case), self.ours(suite, case)

    def ours(self, suite: OpSuite, case: Case) -> tuple[Launch, ...]:
        """Our launches of a case, captured once."""
        key = ("ours", case.op, case.id)
        if key not in self._launches:
            self._launches[key] = self.backend.launches(suite, case, suite.arch_for(self.arch))
        return self._launches[key]

    def theirs(self, suite: OpSuite, case: Case) -> tuple[Any, ...]:
        """The peer's launches of a case, captured once."""
        key = ("theirs", case.op, case.id)
        if key not in self._launches:
            self._launches[key] = tuple(self.peer.launches(suite, case, suite.arch_for(self.arch)))
        return self._launches[key]

    def record(self) -> dict[str, Any]:
        """What this process adds to the run's record; JSON types. Nothing is made for the report's sake."""
        parts = {name: self.__dict__.get(name) for name in ("backend", "peer")}
        facts = {name: part.facts() if part is not None else {} for name, part in parts.items()}
        return facts | self.measuring.record()

    def close(self) -> None:
        """Ends what was started: the timer's session, the peer's worker."""
        self.measuring.close()
        started = self.__dict__.pop("peer", None)
        if started is not None and hasattr(started, "close"):
            started.close()


def _impossible(error: Exception) -> str:
    """Why a check cannot run on this machine, or empty when the error is a fault."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in _OPTIONAL:
        return f"{error.name} is not installed: {error}"
    from pytest_cutile_rs.peers.base import PeerRefused
    from tilegym_rs_backend.errors import ToolchainError

    if type(error).__name__ == "Refused":  # by the translator; naming its class would import cuda-tile
        return f"no Rust kernel: {error}"
    return str(error) if isinstance(error, (PeerRefused, ToolchainError)) else ""
