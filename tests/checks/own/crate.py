# SPDX-License-Identifier: MIT
"""Build a copy of the Rust crate with kernel files more, by the lazy builder, and ask it for bytecode."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent / "own_softmax.rs"
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}


@dataclass(frozen=True)
class OwnLaunch:
    name: str
    grid: tuple[int, ...]
    hints: dict[str, int]
    bytecode: bytes


def crate_with_own_kernels(folder: Path) -> Path:
    """The crate's sources, the test's kernel file and that of docs/own_crate.md: one build for all."""
    import page

    from tilegym_rs_backend.build import rust_root

    root = folder / "own_kernels"
    shutil.copytree(rust_root(), root, ignore=shutil.ignore_patterns("target"), dirs_exist_ok=True)
    shutil.copy(SOURCE, root / "src" / "ops" / SOURCE.name)
    (root / "src" / "ops" / "scale.rs").write_text(page.files()["my_crate/src/ops/scale.rs"])
    listed = root / "src" / "ops" / "mod.rs"
    names = sorted({*_modules(listed.read_text()), SOURCE.stem, "scale"})
    listed.write_text("".join(f"pub mod {name};\n" for name in names))
    return root


def _modules(text: str) -> list[str]:
    return [line.split()[-1].rstrip(";") for line in text.splitlines() if line.startswith("pub mod ")]


def own_launch(library: object, kernel: str, tensors: list, width: int, grid: tuple[int, ...], arch: str) -> OwnLaunch:
    """One launch of a kernel of the pair: (out, x) tensors of any device, occupancy 2 as the Python half has."""
    from tilegym_rs_backend.artifacts import emit

    ffi, lib = library.ffi, library.lib
    descs = []
    for tensor in tensors:
        desc = ffi.new("TensorDesc*")
        desc.ptr, desc.ndim = 256, tensor.ndim
        for axis in range(tensor.ndim):
            desc.shape[axis], desc.strides[axis] = tensor.shape[axis], tensor.stride(axis)
        desc.dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
        descs.append(desc)
    name = ffi.new("char[]", kernel.encode())
    token = lib.cutile_spec(
        name, ffi.new("TensorDesc*[]", descs), len(descs), ffi.new("int32_t[]", [width]), 1, 0, 2, 0
    )
    assert token >= 0, library.last_error()
    return OwnLaunch(kernel, grid, {"occupancy": 2}, emit(library, token, arch))
