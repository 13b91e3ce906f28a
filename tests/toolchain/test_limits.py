# SPDX-License-Identifier: MIT
"""How many compilers run at once, from trees that look like /proc and /sys of containers and batch jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegym_rs_backend.toolchain import limits

GIB = 2**30


def host(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="ascii")
    return root


def test_without_control_groups_nothing_is_limited(tmp_path: Path) -> None:
    assert limits.cpus(tmp_path) == limits.memory_bytes(tmp_path) == limits.processes(tmp_path) == float("inf")
    assert limits.build_jobs(tmp_path) >= 1


V2 = {
    "proc/self/cgroup": "0::/kubepods/pod1",
    "sys/fs/cgroup/cpu.max": "max 100000",
    "sys/fs/cgroup/kubepods/cpu.max": "250000 100000",
    "sys/fs/cgroup/kubepods/memory.max": str(64 * GIB),
    "sys/fs/cgroup/kubepods/pod1/cpu.max": "max 100000",
    "sys/fs/cgroup/kubepods/pod1/memory.max": "max",
    "sys/fs/cgroup/kubepods/pod1/memory.high": str(4 * GIB),
    "sys/fs/cgroup/kubepods/pod1/pids.max": "100",
    "sys/fs/cgroup/kubepods/pod1/pids.current": "40",
}


def test_the_narrowest_of_the_groups_above_counts(tmp_path: Path) -> None:
    root = host(tmp_path, V2)
    assert limits.cpus(root) == 2.5
    assert limits.memory_bytes(root) == 4 * GIB
    assert limits.processes(root) == 60


def test_in_a_container_the_visible_top_stands_for_a_path_that_is_not_there(tmp_path: Path) -> None:
    root = host(tmp_path, {"proc/self/cgroup": "0::/host/path", "sys/fs/cgroup/cpu.max": "150000 100000"})
    assert limits.cpus(root) == 1.5


def test_version_1(tmp_path: Path) -> None:
    root = host(
        tmp_path,
        {
            "proc/self/cgroup": "11:memory:/slurm/job7\n4:cpu,cpuacct:/slurm/job7\n2:pids:/slurm",
            "sys/fs/cgroup/cpu,cpuacct/slurm/job7/cpu.cfs_quota_us": "300000",
            "sys/fs/cgroup/cpu,cpuacct/slurm/job7/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/slurm/job7/memory.limit_in_bytes": str(3 * GIB),
            "sys/fs/cgroup/pids/slurm/pids.max": "max",
        },
    )
    assert limits.cpus(root) == 3.0
    assert limits.memory_bytes(root) == 3 * GIB
    assert limits.processes(root) == float("inf")


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        ({}, 2),
        ({"sys/fs/cgroup/kubepods/cpu.max": "50000 100000"}, 1),
        ({"sys/fs/cgroup/kubepods/cpu.max": "800000 100000"}, 2),  # memory: 4 GiB
        ({"sys/fs/cgroup/kubepods/cpu.max": "800000 100000", "sys/fs/cgroup/kubepods/pod1/memory.high": "max"}, 2),
        ({"sys/fs/cgroup/kubepods/pod1/memory.high": str(GIB)}, 1),
        ({"sys/fs/cgroup/kubepods/pod1/pids.current": "90"}, 1),
        (
            {
                "sys/fs/cgroup/kubepods/cpu.max": "800000 100000",
                "sys/fs/cgroup/kubepods/pod1/memory.high": "max",
                "sys/fs/cgroup/kubepods/pod1/pids.max": "max",
            },
            8,
        ),
    ],
)
def test_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], jobs: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(16)))
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 512 * GIB // 4096}[name])
    assert limits.build_jobs(host(tmp_path, {**V2, **change})) == jobs


def test_affinity_counts_and_the_users_choice_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilegym_rs_backend.toolchain.env import cargo_env

    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {3})
    monkeypatch.delenv("CARGO_BUILD_JOBS", raising=False)
    assert cargo_env(None, "")["CARGO_BUILD_JOBS"] == "1"
    monkeypatch.setenv("CARGO_BUILD_JOBS", "7")
    assert cargo_env(None, "")["CARGO_BUILD_JOBS"] == "7"
