# SPDX-License-Identifier: MIT
"""Set-up against a folder of small wheels: real pip, no network."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.toolchain import environment
from tilegym_rs_backend.toolchain import install
from tilegym_rs_backend.toolchain import pins
from tilegym_rs_backend.toolchain import prefix
from tilegym_rs_backend.toolchain import setup
from tilegym_rs_backend.toolchain.progress import Rate


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> str:
    """Write a wheel; return its SHA-256."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            info = zipfile.ZipInfo(member)
            info.external_attr = (0o755 if "/bin/" in member else 0o644) << 16
            archive.writestr(info, text)
        archive.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two wheels that pip can get, and locks that name them."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    one = wheel(folder, "nvidia-one", "1.0", {"nvidia/cu13/bin/tool": "#!/bin/sh\n", "nvidia/cu13/include/a.h": "a"})
    two = wheel(folder, "nvidia-two", "2.0", {"nvidia_two-2.0.data/platlib/nvidia/cu13/include/b.h": "b"})
    locks = tmp_path / "locks"
    locks.mkdir()
    (locks / "toolkit.txt").write_text(
        f"# 1.0 MB\nnvidia-one==1.0 \\\n    --hash=sha256:{one}\n"
        f"# 2.0 MB\nnvidia-two==2.0 \\\n    --hash=sha256:{two}\n",
        encoding="ascii",
    )
    monkeypatch.setattr(prefix, "LOCKS", locks)
    monkeypatch.setattr(pins, "LOCKS", locks)
    prefix.lock_hash.cache_clear()
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    yield folder
    prefix.lock_hash.cache_clear()


def test_installs_announces_and_does_nothing_the_second_time(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = install.install("toolkit", Rate())
    root = place / "nvidia" / "cu13"
    assert (root / "include" / "a.h").read_text(encoding="ascii") == "a"
    assert (root / "include" / "b.h").exists()
    assert os.access(root / "bin" / "tool", os.X_OK)
    assert prefix.toolkit_root() == root
    said = capfd.readouterr().out
    assert "downloading nvidia-one 1.0 (1 MB, about 1 s)" in said
    assert "downloading nvidia-two 2.0 (2 MB, about" in said
    assert list(install.download_dir().iterdir()) == []
    start = time.monotonic()
    assert install.install("toolkit", Rate()) == place
    assert time.monotonic() - start < 0.5
    assert capfd.readouterr().out == ""
    assert [each.name for each in place.parent.iterdir()] == [place.name]


@pytest.fixture
def quick(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download that copies from the shop in place of pip's, which takes a second to start."""

    def run(command: list[str], what: str) -> None:
        folder = Path(command[command.index("--dest") + 1])
        wanted = Path(command[-1]).read_text(encoding="ascii").split("==")[0].replace("-", "_")
        found = list(shop.glob(f"{wanted}-*"))
        if not found:
            raise ToolchainError("goes on from here")
        shutil.copy(found[0], folder)

    monkeypatch.setattr(install, "run", run)


@pytest.mark.usefixtures("quick")
def test_goes_on_where_it_was_interrupted(shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    second = next(shop.glob("nvidia_two*"))
    hidden = second.rename(shop.parent / second.name)
    with pytest.raises(ToolchainError, match="goes on from here"):
        install.install("toolkit", Rate())
    assert not install.installed("toolkit")
    hidden.rename(second)
    capfd.readouterr()
    install.install("toolkit", Rate())
    said = capfd.readouterr().out
    assert "nvidia-one 1.0: already downloaded" in said
    assert install.installed("toolkit")


def test_a_wheel_with_another_hash_is_refused(shop: Path) -> None:
    wheel(shop, "nvidia-one", "1.0", {"nvidia/cu13/include/evil.h": "x"})
    with pytest.raises(ToolchainError):
        install.install("toolkit", Rate())
    assert not install.installed("toolkit")


@pytest.mark.usefixtures("quick")
def test_a_changed_lock_is_another_prefix(shop: Path) -> None:
    before = install.install("toolkit", Rate())
    with (prefix.LOCKS / "toolkit.txt").open("a", encoding="ascii") as lock:
        lock.write("# changed\n")
    prefix.lock_hash.cache_clear()
    assert not install.installed("toolkit")
    assert install.install("toolkit", Rate()) != before


def test_a_member_outside_the_prefix_is_refused(tmp_path: Path) -> None:
    wheel(tmp_path, "evil", "1.0", {"../evil": "x"})
    (tmp_path / "inside").mkdir()
    with pytest.raises(ToolchainError, match="outside the prefix"):
        install.unpack(next(tmp_path.glob("*.whl")), tmp_path / "inside")


def test_missing_tools_are_all_told_before_any_download(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(ToolchainError, match="nothing was downloaded") as caught:
        setup.setup(parity=False)
    assert "cargo is neither on PATH" in str(caught.value)
    assert "no C compiler" in str(caught.value)
    assert list(install.download_dir().iterdir()) == []


def test_a_full_disk_is_told_before_any_download(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10_000_000}))
    with pytest.raises(ToolchainError, match=r"has 0\.0 GB free, \d\.\d GB are needed"):
        setup.check_space(setup._space(parity=False))


def test_pins_by_python_version() -> None:
    digest = "0" * 64
    text = (
        f'# 4.0 MB\nnumpy==2.2.6 ; python_version == "3.10" \\\n    --hash=sha256:{digest}\n'
        f'# 5.5 MB\nnumpy==2.4.6 ; python_version == "3.11" or python_version == "3.12" \\\n'
        f"    --hash=sha256:{digest}\n"
        f"# 1.0 MB\ncffi==2.1.1 \\\n    --hash=sha256:{digest} \\\n    --hash=sha256:{'1' * 64}\n"
    )
    assert [(pin.name, pin.version, pin.megabytes) for pin in pins.parse(text, (3, 12))] == [
        ("numpy", "2.4.6", 5.5),
        ("cffi", "2.1.1", 1.0),
    ]
    assert [pin.version for pin in pins.parse(text, (3, 10))] == ["2.2.6", "2.1.1"]
    assert [pin.name for pin in pins.parse(text, (3, 13))] == ["cffi"]
    with pytest.raises(ValueError, match="not a line of a lock file"):
        pins.parse("numpy>=2\n", (3, 12))


@pytest.mark.parametrize("python", [(3, 10), (3, 11), (3, 12), (3, 13)])
def test_the_committed_locks(python: tuple[int, int]) -> None:
    locked = {pin.name: pin for name in ("environment", "dev") for pin in pins.read(name, python)}
    wanted = {"torch": "2.11.0", "tilegym": "1.5.1", "cuda-tile": "1.7.0", "ruff": "0.17.6", "mypy": "2.4.1"}
    assert {name: locked[name].version for name in wanted} == wanted
    major, minor = map(int, locked["filelock"].version.split(".")[:2])
    assert (major, minor) >= (3, 30)
    toolkit = {pin.name: pin.version for pin in pins.read("toolkit", python)}
    assert toolkit["nvidia-cuda-tileiras"] == "13.4.92"
    assert {pin.version for pin in pins.read("cupti", python)} == {"13.4.0", "13.4.92"}
    for path in prefix.LOCKS.glob("*.txt"):
        assert "://" not in path.read_text(encoding="utf-8")


def test_a_torch_that_is_there_is_not_touched() -> None:
    names = ("torch", "triton", "nvidia-cublas", "nvidia-ml-py", "sympy", "filelock", "numpy", "tilegym")
    locked = [pins.Pin(name, "1", ("0" * 64,), 1.0) for name in names]
    kept = environment.without_torch(locked, {"torch": "2.10.0", "sympy": "1.13", "filelock": "3.13"})
    assert [pin.name for pin in kept] == ["nvidia-ml-py", "filelock", "numpy", "tilegym"]


def test_the_bootstrap_needs_nothing_installed(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
        "import tilegym_rs_backend.toolchain.setup, tilegym_rs_backend.cli\n"
        "print(sorted({'torch', 'numpy', 'cffi', 'filelock', 'platformdirs'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert answer.stdout.strip() == "[]", answer.stderr


def test_reusing_a_torch_through_a_path_file(tmp_path: Path) -> None:
    """A fake torch in a folder of its own is importable from the new environment, and stays where it is."""
    folder = tmp_path / "host"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("__version__ = '2.10.0'\n", encoding="ascii")
    facts: dict[str, object] = {"places": [str(folder)]}
    python = environment.create(sys.executable, tmp_path / "venv", pip=False)
    environment.share_torch(tmp_path / "venv", facts)
    answer = subprocess.run(
        [python, "-c", "import torch; print(torch.__file__)"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == str(folder / "torch" / "__init__.py")
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="ascii")
    stamp = environment.stamp_of(sys.executable, tmp_path, ("toolkit",))
    assert not environment.stamped(tmp_path / "venv", stamp)
    environment.write_stamp(tmp_path / "venv", stamp)
    assert environment.stamped(tmp_path / "venv", stamp)


def test_an_unsupported_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="cannot be run"):
        environment.ask(str(tmp_path / "nopython"))
    fake = tmp_path / "python"
    fake.write_text(
        '#!/bin/sh\necho \'{"version": [3, 8], "torch": {}, "places": [], "executable": "x"}\'\n', encoding="ascii"
    )
    fake.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"Python 3\.10 to 3\.13"):
        environment.ask(str(fake))
