# SPDX-License-Identifier: MIT
"""Which files make a crate: the same list for the keys, for the wheel's ``_rust/`` and for the sweep.

Standard library alone and no import of this package: ``setup.py`` loads this file by its path.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

# Anything else under the crate (target/, tests/, an editor's files) does not reach the library.
SINGLE_FILES = ("Cargo.toml", "Cargo.lock", "build.rs", ".cargo/config.toml", "rust-toolchain.toml", "rust-toolchain")
FOLDERS = ("src", "build", "tile")
REQUIRED = ("Cargo.toml", "Cargo.lock", "src/lib.rs")
_DROPPINGS = re.compile(r"^[.#]|~$|\.(swp|swo|orig|rej|bak|tmp)$")


def source_files(root: Path) -> list[str]:
    """Return the crate's source files, relative to ``root``, sorted.

    Raises:
        FileNotFoundError: one without which nothing can be built is missing.
    """
    for name in REQUIRED:
        if not (root / name).is_file():
            raise FileNotFoundError(str(root / name))
    files = [name for name in SINGLE_FILES if (root / name).is_file()]
    for folder in FOLDERS:
        for directory, subfolders, names in os.walk(root / folder):
            subfolders[:] = [name for name in subfolders if not _DROPPINGS.search(name)]
            base = os.path.relpath(directory, root)
            files += [f"{base}/{name}" for name in names if not _DROPPINGS.search(name)]
    return sorted(files)
