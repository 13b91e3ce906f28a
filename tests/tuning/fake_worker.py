# SPDX-License-Identifier: MIT
"""A measuring process whose candidates behave as they are told: `python fake_worker.py FD`."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.worker import serve


class Told:
    """Candidate number i does what `spec[i]` says: a number is its time."""

    def __init__(self, spec, failed):
        if spec == ["full"]:
            raise RuntimeError("CUDA out of memory")
        if spec == ["dies at once"]:
            print("cannot open the device")
            os._exit(7)
        self.spec, self.failed, self.broken = spec, failed, False

    def prepare(self, index):
        what = self.spec[index]
        if what == "hangs":
            time.sleep(60)
        elif what == "dies":
            print("a fault\nof the kernel", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "exits":
            print("terminate called", flush=True)
            os._exit(3)
        elif what == "refused":
            raise LaunchError("matmul: cuModuleLoadData: out of shared memory\nmore", rc=-3)
        elif what == "wrong":
            raise Failed("its result differs")
        elif what == "breaks the device":
            self.broken = True
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")

    def sample(self, index):
        if self.spec[index] == "pid":
            return float(os.getpid())
        if self.spec[index] == "failed before":
            return float(len(self.failed))
        return float(self.spec[index])

    def sound(self):
        return not self.broken


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), Told)
