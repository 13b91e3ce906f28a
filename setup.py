# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the crate goes into the wheel as ``tilegym_rs_backend/_rust/``.

A library laid down with ``tilegym-rs build --into tilegym_rs_backend/_lib`` goes along too, and makes the wheel one for
Linux x86-64; without it the wheel is pure Python and builds the library on first use.
"""

import importlib.util
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
LIBRARY = HERE / "tilegym_rs_backend" / "_lib"


def _crate_files():
    spec = importlib.util.spec_from_file_location("manifest", HERE / "tilegym_rs_backend" / "build" / "manifest.py")
    manifest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(manifest)
    return manifest.source_files(HERE / "rust")


class BuildPy(build_py):
    """Copies the crate, and the library if there is one, beside the Python files."""

    def run(self):
        """Copy; an editable install uses the checkout's own folders."""
        super().run()
        if getattr(self, "editable_mode", False):
            return
        package = Path(self.build_lib) / "tilegym_rs_backend"
        shutil.rmtree(package / "_rust", ignore_errors=True)  # a file deleted in the crate must not linger
        for name in _crate_files():
            target = package / "_rust" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / "rust" / name, target)
        shutil.rmtree(package / "_lib", ignore_errors=True)
        if LIBRARY.is_dir():
            shutil.copytree(LIBRARY, package / "_lib")


class BdistWheel(bdist_wheel):
    """Tags a wheel that carries the library."""

    def get_tag(self):
        """Any Python 3, but only this platform when a library is inside."""
        return ("py3", "none", "linux_x86_64") if LIBRARY.is_dir() else super().get_tag()


setup(cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})
