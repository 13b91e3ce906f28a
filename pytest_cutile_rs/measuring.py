# SPDX-License-Identifier: MIT
"""What a run's perf items share in one process: the clock, the machine's noise floor, and the turn on its GPU."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.result import CheckResult

if TYPE_CHECKING:
    from pytest_cutile_rs.session import ParitySession
    from pytest_cutile_rs.stats import NoiseFloor


class Measuring:
    """Belongs to a `ParitySession`; nothing is opened before the first perf item."""

    def __init__(self, session: ParitySession) -> None:
        self._session = session
        self._no_floor: Exception | None = None

    def check(self, suite: OpSuite, case: Case) -> CheckResult:
        """Measure and judge one case whose numbers are right, alone on the GPU."""
        from pytest_cutile_rs import gpus
        from pytest_cutile_rs.checks import perf
        from pytest_cutile_rs.noise import NoNoiseFloor
        from pytest_cutile_rs.timing import TimingUnavailable

        session = self._session
        options = session.options
        reason = session.peer.available()
        if reason:
            return perf.no_peer(case, reason)
        with self.turn(exclusive=True):
            try:
                terms = perf.Terms(
                    seed=options.seed,
                    threshold=options.threshold_of(case.op),
                    budget_s=options.perf_budget,
                    waivers=options.waivers,
                    noise_floor=self.noise_floor,
                    protocol=options.protocol,
                )
                return perf.check(session.backend, session.peer, suite, case, session.device, self.timer, terms)
            except TimingUnavailable as error:
                return perf.unavailable(case, error.code, str(error))
            except NoNoiseFloor as error:
                return perf.unavailable(case, "noise_floor_unknown", str(error))
            finally:
                gpus.release_memory()

    @cached_property
    def timer(self) -> Any:
        """The device timer, open until `close`; raises TimingUnavailable."""
        config = self._session.config
        found = config.hook.pytest_cutile_rs_timer(config=config)
        if found is None:
            from pytest_cutile_rs.timing import make_timer

            found = make_timer(self._session.options.timer, event_gates=True)  # asked for by name, so it may gate
        found.open()
        return found

    @cached_property
    def noise_floor(self) -> NoiseFloor | None:
        """Of this machine, measured when the first perf item asks for it; None with ``--cutile-rs-self-check 0``.

        The pairs are cases of our ops whose numbers were found right, ours on both sides.

        Raises:
            TimingUnavailable: there is no clock.
            NoNoiseFloor: no equal pair could be measured; it is not tried again.
        """
        from pytest_cutile_rs import noise
        from pytest_cutile_rs.checks.perf import no_grad

        options = self._session.options
        if not options.self_check:
            return None
        if self._no_floor is not None:
            raise self._no_floor
        kind = self._session.backend.kind
        ready = {op for op in self._session.ops_that_passed("numerics") if kind(op)}
        timed = [(suite, case) for check, suite, case in self._session.cases() if check == "perf" and case.op in ready]
        pairs = (
            (f"{case.op}[{case.id}]", functools.partial(self._side, suite, case))
            for suite, case in noise.candidates(timed, options.self_check)
        )
        try:
            with no_grad():
                return noise.measure(self.timer, pairs, options.self_check, seed=options.seed)
        except noise.NoNoiseFloor as error:
            self._no_floor = error
            raise

    def _side(self, suite: OpSuite, case: Case) -> Callable[[], object]:
        session = self._session
        call = suite.inputs(case, session.device.kind, case.seed(session.options.seed))
        return lambda: session.backend.call(suite, call)

    @contextlib.contextmanager
    def turn(self, *, exclusive: bool) -> Iterator[None]:
        """Numbers share a GPU with each other, a measurement with nobody, over all workers and runs of this host."""
        device = self._session.device
        if not device.timed:
            yield
            return
        from pytest_cutile_rs import gpus
        from tilegym_rs_backend.toolchain.dirs import lock_dir

        gpu = device.uuid or ",".join(gpus.visible(os.environ)) or "0"
        with gpus.turn(gpu, lock_dir(), exclusive=exclusive):
            yield

    def record(self) -> dict[str, Any]:
        """The timer's facts, the GPU, and the noise floor, as far as they exist by now."""
        timer, floor = self.__dict__.get("timer"), self.__dict__.get("noise_floor")
        found: dict[str, Any] = {"timer": timer.facts() if timer is not None else {}, "noise_floor": None}
        device = self._session.__dict__.get("device")
        found["gpu"] = (device.name or found["timer"].get("gpu")) if device is not None and device.timed else None
        found["gpu_uuid"] = (device.uuid or None) if device is not None else None
        if floor is not None:
            from pytest_cutile_rs import noise

            found["noise_floor"] = noise.to_json(floor, found["gpu_uuid"] or "")
        return found

    def close(self) -> None:
        """End the timer's session."""
        timer = self.__dict__.pop("timer", None)
        if timer is not None:
            timer.close()
