# SPDX-License-Identifier: MIT
"""The doctor's GPU, package and cache layers, against drivers, GPUs and disks that are not here."""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.toolchain import dirs
from tilegym_rs_backend.toolchain import doctor
from tilegym_rs_backend.toolchain import mounts
from tilegym_rs_backend.toolchain import packages
from tilegym_rs_backend.toolchain import toolkit

TILEIRAS = """#!/bin/sh
[ "$1" = --version ] && echo "Cuda compilation tools, release 13.4, V13.4.92" && exit
echo "  --gpu-name=<value>  - Specify name of NVIDIA GPU to generate code for."
echo "    =sm_80            -   SM 80"
echo "    =sm_90            -   SM 90"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
    path.chmod(0o755)


def loading(answer: Callable[[str], object]) -> SimpleNamespace:
    """ctypes with another CDLL, for the doctor alone: torch loads its libraries with it too."""
    return SimpleNamespace(CDLL=answer, c_int=ctypes.c_int, byref=ctypes.byref)


class Driver:
    """libcuda.so.1 as far as the doctor asks it; cuInit is not to be called."""

    def __init__(self, version: int) -> None:
        self.version = version

    def cuDriverGetVersion(self, out: object) -> int:
        ctypes.cast(out, ctypes.POINTER(ctypes.c_int))[0] = self.version
        return 0


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a toolkit, a driver for CUDA 13.0 and an nvidia-smi that says what `smi` is set to."""
    program(tmp_path / "toolkit" / "bin" / "tileiras", TILEIRAS)
    (tmp_path / "toolkit" / "include").mkdir()
    (tmp_path / "toolkit" / "include" / "cuda.h").write_text("#define CUDA_VERSION 13040\n", encoding="ascii")
    (tmp_path / "toolkit" / "include" / "curand.h").touch()
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(tmp_path / "toolkit"))
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(doctor, "ctypes", loading(lambda name: Driver(13000)))
    return tmp_path


def gpu(host: Path, line: str, status: int = 0) -> list[doctor.Finding]:
    program(host / "bin" / "nvidia-smi", f"#!/bin/sh\necho '{line}'\nexit {status}\n")
    return list(doctor._gpu())


def test_a_gpu_that_tileiras_knows(host: Path) -> None:
    assert [(each.layer, each.status) for each in gpu(host, "NVIDIA H200, 9.0, 143771 MiB")] == [
        ("driver", "ok"),
        ("gpu", "ok"),
    ]


def test_a_gpu_that_tileiras_does_not_know(host: Path) -> None:
    """Bug report X5."""
    [_, found] = gpu(host, "Tesla T4, 7.5, 15360 MiB")
    assert (found.status, found.text) == ("no-gpu", "Tesla T4, 7.5, 15360 MiB (sm_75)")
    assert found.fix == "this tileiras assembles for sm_80, sm_90"
    assert doctor.verdict([found]) == doctor.CPU_ONLY


def test_a_launch_there_is_refused_before_anything_is_built(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug report X5: not minutes of cargo first, and then tileiras' own words."""
    import torch

    from tilegym_rs_backend import target

    class Properties:
        major, minor, multi_processor_count, name = 7, 5, 40, "Tesla T4"

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties)
    monkeypatch.setattr(target, "_devices", {})
    monkeypatch.delenv("TILEGYM_RS_ARCH", raising=False)
    with pytest.raises(ToolchainError) as caught:
        target.target_of_device(0)
    assert str(caught.value).startswith(
        "cuda:0, Tesla T4, is sm_75, and tileiras 13.4.92 assembles for sm_80, sm_90 only"
    )
    assert "set_backend('cutile')" in str(caught.value)
    monkeypatch.setenv("TILEGYM_RS_ARCH", "sm_91")
    with pytest.raises(ToolchainError, match="TILEGYM_RS_ARCH is sm_91"):
        target.target_of_device(0)
    Properties.major, Properties.minor = 9, 0
    monkeypatch.delenv("TILEGYM_RS_ARCH")
    assert target.target_of_device(0).arch == "sm_90"


def test_without_tileiras_no_architecture_is_refused(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm host has the machine code."""
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(host / "nothing"))
    toolkit.check_arch("sm_75", "x")


@pytest.mark.parametrize(
    ("version", "status", "text"), [(13000, "ok", "supports CUDA 13.0"), (12080, "no-gpu", "supports CUDA 12.8")]
)
def test_drivers(host: Path, monkeypatch: pytest.MonkeyPatch, version: int, status: str, text: str) -> None:
    monkeypatch.setattr(doctor, "ctypes", loading(lambda name: Driver(version)))
    [found, *_] = gpu(host, "NVIDIA H200, 9.0, 143771 MiB")
    assert (found.status, found.text) == (status, text)


def test_a_driver_without_a_gpu(host: Path) -> None:
    [_, found] = gpu(host, "No devices were found", status=6)
    assert (found.layer, found.status) == ("gpu", "no-gpu")
    assert "pass the device to this container" in found.fix


def test_a_library_that_is_no_driver(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ctypes", loading(lambda name: object()))
    [found] = doctor._gpu()
    assert (found.status, "is no CUDA driver" in found.text) == ("no-gpu", True)


@pytest.mark.parametrize(
    ("wanted", "version", "fits"),
    [
        ("torch>=2.9", "2.11.0+cu130", True),
        ("torch>=2.9", "2.9.0", True),
        ("torch>=2.9", "2.8.9", False),
        ("torch>=2.9", "2.10.0a0+git1", True),
        ("filelock>=3.30", "3.3", False),
        ("cuda-tile==1.7.0", "1.7.0", True),
        ("cuda-tile==1.7.0", "1.7.1", False),
        ('tilegym==1.5.1; extra == "ported"', "1.5.1", True),
        ("nvidia-ml-py>=12; extra == 'parity'", "13.590.44", True),
    ],
)
def test_versions(monkeypatch: pytest.MonkeyPatch, wanted: str, version: str, fits: bool) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: [wanted])
    [requirement] = packages.requirements()
    assert requirement.fits(version) == fits


def test_requirements_of_a_bare_checkout_are_the_metadatas(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [each for each in packages.requirements() if not each.extra]
    assert {"torch", "cffi", "filelock", "numpy"} <= {each.name for each in installed}

    def nothing(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", nothing)
    assert sorted(map(str, packages.requirements())) == sorted(map(str, installed))


def test_the_cache_of_a_network_home(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = host / "read"
    read.mkdir()
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", f"{host / 'cache'}:{read}")
    monkeypatch.setenv("TMPDIR", str(host / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(host / "tmp"))
    (host / "tmp").mkdir()
    shared = mounts.Mount("/home", "nfs4", noexec=False)
    real = mounts.mount_of
    fake = lambda path: shared if path == host / "cache" else real(path)  # noqa: E731
    monkeypatch.setattr(dirs, "mount_of", fake)
    monkeypatch.setattr(doctor, "mount_of", fake)
    texts = [each.text for each in doctor._cache()]
    assert "on nfs4" in texts[0]
    assert f"{read}, only read" in texts[1]
    assert "is on a network filesystem, so locks and cargo's target folder are local" in texts[2]
    assert texts[3].startswith(f"{host / 'tmp'}/tilegym-rs-")


def test_a_cache_that_is_somebody_elses_fails_that_layer_alone(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "cache").mkdir()
    (host / "cache").chmod(0o777)
    monkeypatch.setattr(doctor, "LAYERS", (doctor._cache, doctor._gpu))
    [cache, *others] = doctor.examine()
    assert (cache.layer, cache.status) == ("cache", "fail")
    assert "can be written by others" in cache.text
    assert "fail" not in {each.status for each in others}
