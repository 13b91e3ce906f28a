# SPDX-License-Identifier: MIT
"""Device time from CUPTI's activity records: one session per run, calls told apart by external correlation ids."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_cutile_rs.timing.activity import KERNEL
from pytest_cutile_rs.timing.activity import MEMCPY
from pytest_cutile_rs.timing.activity import MEMSET
from pytest_cutile_rs.timing.activity import Batch
from pytest_cutile_rs.timing.activity import Work
from pytest_cutile_rs.timing.base import TimingUnavailable
from pytest_cutile_rs.timing.cupti_load import LoadedCupti
from pytest_cutile_rs.timing.cupti_load import load_cupti
from pytest_cutile_rs.timing.torch_device import TorchDevice

BUFFER_BYTES = 8 << 20
FLUSH_FORCED = 1
# DRIVER and RUNTIME both: an external id is tied to API records, and cutile launches through the driver API while
# torch launches through the runtime. Copies and memsets are there to see strays.
KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "DRIVER", "RUNTIME", "EXTERNAL_CORRELATION")
# torch's own profiler uses CUSTOM0 and CUSTOM1.
EXTERNAL_KIND = "CUSTOM2"
HOLDERS = ("CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH")
ADVICE = {
    "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED": (
        "cupti_held",
        "another tool in this process or on this GPU holds CUPTI (nsys, ncu, compute-sanitizer, DCGM, torch.profiler). "
        "Fix: run without it",
    ),
    "ERROR_INSUFFICIENT_PRIVILEGES": (
        "cupti_privileges",
        "the driver keeps profiling to administrators. Fix: load the module with "
        "NVreg_RestrictProfilingToAdminUsers=0, or give the container --cap-add=SYS_ADMIN",
    ),
}
_session = threading.Lock()


class CuptiCollector:
    """The gating clock. ``prefix`` is the folder that holds ``cupti/`` and ``nvidia/``; see load_cupti."""

    label = "cupti"
    gating = True

    def __init__(self, prefix: Path | None = None) -> None:
        self._prefix = prefix
        self._records = Batch()
        self._guard = threading.Lock()
        self._dropped = ctypes.c_size_t(0)
        self._loaded: LoadedCupti | None = None
        self._device: TorchDevice | None = None

    def open(self) -> None:
        """See Collector. The CUDA context exists afterwards; a second session in the process is refused."""
        holders = [name for name in HOLDERS if os.environ.get(name)]
        if holders:
            raise TimingUnavailable(
                "cupti_held", f"a profiler is attached ({', '.join(holders)} is set). Fix: run without it."
            )
        if not _session.acquire(blocking=False):
            raise RuntimeError("a CUPTI session is open in this process already; close it first")
        try:
            self._device = TorchDevice()
            self._loaded = load_cupti(self._prefix)
            self._start(self._loaded.module)
        except BaseException:
            _session.release()
            raise

    def _start(self, cupti: Any) -> None:
        self._external = int(cupti.ExternalCorrelationKind[EXTERNAL_KIND])
        self._kinds = {int(cupti.ActivityKind[kind]): kind for kind in KINDS}
        try:
            cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self._completed)
            for kind in self._kinds:
                cupti.activity_enable(kind)
        except cupti.cuptiError as problem:
            name = getattr(cupti.Result(problem.status), "name", str(problem.status))
            code, text = ADVICE.get(name, ("cupti_error", "CUPTI could not be started"))
            raise TimingUnavailable(code, f"{text} (CUPTI says {name}).") from problem

    def close(self) -> None:
        """See Collector."""
        cupti = self._module
        try:
            self.synchronize()
            cupti.activity_flush_all(FLUSH_FORCED)
            for kind in self._kinds:
                cupti.activity_disable(kind)
        finally:
            self._records = Batch()
            _session.release()

    @property
    def _module(self) -> Any:
        if self._loaded is None:
            raise RuntimeError("the CUPTI session is not open")
        return self._loaded.module

    @property
    def _gpu(self) -> TorchDevice:
        if self._device is None:
            raise RuntimeError("the CUPTI session is not open")
        return self._device

    def push(self, ident: int) -> None:
        """See Collector. The id belongs to the calling thread: work that another thread enqueues is unattributed."""
        self._module.activity_push_external_correlation_id(self._external, ident)

    def pop(self) -> None:
        """See Collector."""
        self._module.activity_pop_external_correlation_id(self._external)

    def flush_l2(self) -> None:
        """See Collector."""
        self._gpu.flush_l2()

    def sentinel(self) -> None:
        """See Collector."""
        self._gpu.sentinel()

    def synchronize(self) -> None:
        """See Collector."""
        self._gpu.synchronize()

    def clock(self) -> float:
        """See Collector."""
        return self._gpu.clock()

    def machine(self) -> dict[str, Any]:
        """See Collector."""
        return self._gpu.machine()

    def facts(self) -> dict[str, Any]:
        """See Collector."""
        loaded = self._loaded
        if loaded is None:
            return {}
        return {"cupti_library": Path(loaded.library).name, "cupti_version": loaded.version} | self._gpu.facts()

    def drain(self) -> Batch:
        """See Collector."""
        cupti = self._module
        cupti.activity_flush_all(FLUSH_FORCED)
        self._dropped.value = 0
        cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(self._dropped))
        with self._guard:
            batch, self._records = self._records, Batch()
        batch.dropped += self._dropped.value
        return batch

    def _completed(self, activities: Iterable[Any]) -> None:
        """Called by CUPTI, on its own thread or inside a flush. The records die with the buffer, so copy them."""
        batch = Batch()
        for record in activities:
            kind = self._kinds.get(int(record.kind), "")
            if kind == "EXTERNAL_CORRELATION":
                if int(record.external_kind) == self._external:
                    batch.external.append((int(record.correlation_id), int(record.external_id)))
            elif kind == "CONCURRENT_KERNEL":
                batch.work.append(_work(KERNEL, str(record.name), record))
            elif kind in ("MEMCPY", "MEMSET"):
                batch.work.append(_work(MEMCPY if kind == "MEMCPY" else MEMSET, "", record))
        with self._guard:
            self._records.extend(batch)


def _work(kind: str, name: str, record: Any) -> Work:
    return Work(kind, name, int(record.start), int(record.end), int(record.correlation_id))
