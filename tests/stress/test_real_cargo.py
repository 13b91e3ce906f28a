# SPDX-License-Identifier: MIT
"""The builder with the real cargo: cold start of many, kills at any moment, old time stamps, read-only installs."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import PATIENCE_S
from .conftest import ROOT
from .conftest import Site

pytestmark = pytest.mark.cargo
PROCESSES = 8
KILLS = int(os.environ.get("TILEGYM_RS_STRESS_KILLS", "20"))


def test_cold_start_of_eight_processes(site: Site) -> None:
    """Bug report A2: one cargo, eight times the same library."""
    cold = not (site.cache / "target").exists()
    start = time.monotonic()
    started = [site.start() for _ in range(PROCESSES)]
    results = [process.communicate(timeout=PATIENCE_S) for process in started]
    site.cold_s = time.monotonic() - start
    assert [process.returncode for process in started] == [0] * PROCESSES, results
    assert len({out for out, _ in results}) == 1
    assert site.runs == 1
    assert sum("waiting for process " in err for _, err in results) == PROCESSES - 1
    heartbeats = [err.count("still building after") for _, err in results]
    how = "cold start" if cold else "start with compiled dependencies"
    print(f"{how} of {PROCESSES} processes: {site.cold_s:.0f} s, 1 cargo, {max(heartbeats)} heartbeats")


def test_killed_at_any_moment(warm: Site, chance: random.Random) -> None:
    """Bug report A1: whatever is killed, whenever, the next process builds and loads the right library."""
    warm.edit("a first edit, for the time it takes")
    start = time.monotonic()
    warm.run()
    whole = time.monotonic() - start
    waits, seconds, groups = [], [], 0
    for number in range(KILLS):
        warm.edit(f"kill {number}")
        victim = warm.start()
        waits.append(chance.uniform(0.3, whole * 1.05))
        time.sleep(waits[-1])
        if chance.random() < 0.5:
            for pid in _children(victim.pid):
                _kill(pid)
            groups += 1
        _kill(victim.pid)
        victim.communicate()
        start = time.monotonic()
        path, build_id = warm.run().split()
        seconds.append(time.monotonic() - start)
        assert Path(path).parent.name == build_id
        assert len(list((warm.cache / "build").rglob(".staging-*"))) <= number + 1
    assert max(seconds) < 6 * whole + 30
    print(
        f"SIGKILL at {KILLS} moments ({min(waits):.1f} to {max(waits):.1f} s into a build of {whole:.1f} s, {groups} "
        f"with cargo itself): the next build took {min(seconds):.1f} to {max(seconds):.1f} s, always the right library"
    )


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(each) for each in text.split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


NAMES = 'print(*sorted(each["name"] for each in library.open(crate).describe["kernels"]))'


def test_other_bytes_with_an_older_time_stamp(warm: Site) -> None:
    """Bug report A4: cargo's own freshness goes by time stamps, the library's must not."""
    before = warm.run(NAMES)
    assert "softmax_long" in before
    text = warm.kernel.read_text(encoding="utf-8")
    warm.kernel.write_text(text.replace("softmax_long", "softmax_older"), encoding="utf-8")
    old = time.time() - 10 * 365 * 86400
    os.utime(warm.kernel, (old, old))
    assert warm.run(NAMES) == before.replace("softmax_long", "softmax_older")
    runs = warm.runs
    for path in warm.crate.rglob("*"):
        path.touch()
    warm.run()
    assert warm.runs == runs, "touching builds nothing"
    warm.kernel.write_text(text, encoding="utf-8")
    os.utime(warm.kernel, (old, old))
    assert warm.run(NAMES) == before
    assert warm.runs == runs, "the library of these texts is there"
    print("older time stamp with other bytes: rebuilt; all files touched: not rebuilt; old bytes again: found")


INSTALLED = """
set -e
mount --bind {site} {site}
mount -o remount,bind,ro {site}
! touch {site}/x 2>/dev/null
exec "$0" -c "
from tilegym_rs_backend.build import rust_root
from tilegym_rs_backend.library import get_library
found = get_library()
print(rust_root(), found.path, found.build_id)
import torch
from tilegym_rs_backend.ops.softmax import softmax
x = torch.randn(3, 40)
assert torch.allclose(softmax(x), torch.softmax(x, -1), atol=1e-5)
"
"""


def _tree(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a folder read-only")
def test_a_read_only_installation(warm: Site, tmp_path: Path) -> None:
    """Bug report A6: nothing is written beside the package, on a filesystem where nothing can be."""
    package = tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__", "_lib", "target")
    shutil.copytree(ROOT / "tilegym_rs_backend", package / "tilegym_rs_backend", ignore=ignored)
    shutil.copy(ROOT / "tilegym_rs_autoload.py", package)
    shutil.copytree(warm.crate, package / "tilegym_rs_backend" / "_rust", ignore=ignored)
    before = _tree(package)
    start = time.monotonic()
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", INSTALLED.format(site=package), sys.executable],
        env={**warm.env, "PYTHONPATH": str(package), "PYTHONWARNINGS": "error::RuntimeWarning"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{package}/tilegym_rs_backend/_rust {warm.cache}/build/")
    assert _tree(package) == before
    print(f"read-only installation: built, loaded and used in {time.monotonic() - start:.0f} s; nothing written there")


RELOAD = """
import threading, time, torch
from tilegym_rs_backend.launch import launch
stop, errors, calls, seen = threading.Event(), [], [0], set()

def work():
    x = torch.randn(8, 64)
    want = torch.softmax(x, -1)
    while not stop.is_set():
        try:
            found = library.open(crate)
            out = torch.empty_like(x)
            launch("softmax_packed", (8, 1, 1), out, x, ROWS=1, BLOCK=64, ALIGN=4, EXACT=True, library=found)
            assert torch.allclose(out, want, atol=1e-5)
            seen.add(found.build_id)
            calls[0] += 1
        except BaseException as error:
            errors.append(error)
            return

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
kernel = crate / "src" / "ops" / "softmax.rs"
for number in range(3):
    while len(seen) <= number and not errors: time.sleep(0.05)
    before = calls[0]
    with kernel.open("a") as file: file.write(f"// reload {number}\\n")
    while len(seen) <= number + 1 and not errors: time.sleep(0.05)
stop.set()
for thread in threads: thread.join()
assert not errors, errors
print(len(seen), calls[0])
"""


def test_reload_while_other_threads_launch(warm: Site) -> None:
    """Every launch is right, with the old library or the new one."""
    start = time.monotonic()
    libraries, calls = map(int, warm.run(RELOAD).split())
    assert libraries == 4
    assert calls > 10
    print(f"3 reloads under 2 launching threads: {calls} right launches in {time.monotonic() - start:.0f} s")


def test_without_a_network(warm: Site) -> None:
    """Bug report X2: what is on this machine is enough, and nothing is asked for."""
    warm.edit("offline")
    runs = warm.runs
    out = warm.run(TILEGYM_RS_OFFLINE="1", CARGO_NET_OFFLINE="true", HTTPS_PROXY="http://127.0.0.1:9")
    assert Path(out.split()[0]).is_file()
    assert warm.runs == runs + 1
