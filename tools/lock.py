# SPDX-License-Identifier: MIT
"""Write the lock files anew: ``make lock``, or ``python tools/lock.py [--python 3.10 ...]``.

Each supported Python resolves for itself (markers are evaluated by the interpreter that runs pip), and the answers are
merged into requirement files with hashes. pip's report holds addresses; none of them is written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import venv
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "tilegym_rs_backend" / "toolchain" / "locks"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")

# Versions that were tested together and are not what the newest would be.
TESTED = ("torch==2.11.0",)
BUILD = ("setuptools>=77",)

TOOLKIT = (
    "nvidia-cuda-crt==13.4.92",
    "nvidia-cuda-nvcc==13.4.92",
    "nvidia-cuda-runtime==13.4.92",
    "nvidia-cuda-tileiras==13.4.92",
    "nvidia-curand==10.4.4.72",
    "nvidia-nvjitlink==13.5.37",
    "nvidia-nvvm==13.4.92",
    "libclang==18.1.1",
)
CUPTI = ("cupti-python==13.4.0", "nvidia-cuda-cupti==13.4.92")


@dataclass
class Pin:
    """One version of one package: on which Pythons, with which files (SHA-256 to size in bytes)."""

    name: str
    version: str
    pythons: set[str] = field(default_factory=set)
    files: dict[str, int] = field(default_factory=dict)


def resolve(pip: Path, python: str, requirements: Sequence[str], *, deps: bool) -> list[dict[str, Any]]:
    """Return the entries of pip's report for one Python."""
    interpreter = shutil.which(f"python{python}")
    if interpreter is None:
        sys.exit(f"python{python} is not on PATH; the lock covers {', '.join(PYTHONS)}")
    interpreter = subprocess.run(
        [interpreter, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(pip), "-m", "pip", "--python", interpreter, "install", "--dry-run", "--ignore-installed"]
        command += ["--only-binary", ":all:", "--quiet", "--report", str(report), *requirements]
        if not deps:
            command.append("--no-deps")
        subprocess.run(command, check=True)
        return list(json.loads(report.read_text(encoding="utf-8"))["install"])


def size_of(address: str) -> int:
    """Return the size of a file in bytes without fetching it; 0 when the server does not say."""
    if address.startswith("file:"):
        return Path(address.removeprefix("file://")).stat().st_size
    with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=60) as answer:
        return int(answer.headers.get("Content-Length") or 0)


def merge(reports: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[tuple[str, str], Pin]:
    """Merge the reports of several Pythons into pins."""
    pins: dict[tuple[str, str], Pin] = {}
    for python, entries in reports.items():
        for entry in entries:
            name = entry["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
            pin = pins.setdefault((name, entry["metadata"]["version"]), Pin(name, entry["metadata"]["version"]))
            pin.pythons.add(python)
            digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
            if digest not in pin.files:
                pin.files[digest] = size_of(entry["download_info"]["url"])
    return pins


def write(name: str, about: str, pins: Mapping[tuple[str, str], Pin], pythons: Sequence[str]) -> None:
    """Write one lock file."""
    lines = ["# SPDX-License-Identifier: MIT", f"# {about}", "# Written by tools/lock.py (`make lock`).", ""]
    for _, pin in sorted(pins.items()):
        marker = ""
        if pin.pythons != set(pythons):
            marker = " ; " + " or ".join(
                f'python_version == "{each}"' for each in sorted(pin.pythons, key=PYTHONS.index)
            )
        lines.append(f"# {max(pin.files.values()) / 1e6:.1f} MB")
        lines.append(f"{pin.name}=={pin.version}{marker} \\")
        lines += [f"    --hash=sha256:{digest} \\" for digest in sorted(pin.files)]
        lines[-1] = lines[-1].removesuffix(" \\")
    (LOCKS / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(pins)} pins, {sum(max(pin.files.values()) for pin in pins.values()) / 1e6:.0f} MB at most")


def main() -> None:
    """Resolve and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="*", default=list(PYTHONS), metavar="VERSION")
    parser.add_argument("only", nargs="*", help="environment, toolkit, cupti; all by default")
    options = parser.parse_args()
    only = options.only or ["environment", "toolkit", "cupti"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = f"{project['name']}["
    run = [
        each for each in (*project["dependencies"], *extras["parity"], *extras["ported"]) if not each.startswith(own)
    ]
    dev = [each for each in extras["dev"] if not each.startswith(own)]
    LOCKS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = Path(folder) / "bin" / "python"
        subprocess.run([str(pip), "-m", "pip", "install", "--quiet", "--upgrade", "pip"], check=True)
        if "environment" in only:
            wanted = [*run, *TESTED, *BUILD]
            base = merge({each: resolve(pip, each, wanted, deps=True) for each in options.python})
            full = merge({each: resolve(pip, each, [*wanted, *dev], deps=True) for each in options.python})
            write("environment", "Everything the ops and the parity run import.", base, options.python)
            rest = {key: pin for key, pin in full.items() if key not in base}
            write("dev", "What `make test` needs on top of environment.txt.", rest, options.python)
        for name, wanted, about in (
            (
                "toolkit",
                TOOLKIT,
                "The private prefix: CUDA 13.4.3 pieces and libclang; installed without dependencies.",
            ),
            ("cupti", CUPTI, "CUPTI and its Python bindings, per Python version; installed without dependencies."),
        ):
            if name in only:
                pins = merge({each: resolve(pip, each, wanted, deps=False) for each in options.python})
                write(name, about, pins, options.python)


if __name__ == "__main__":
    main()
