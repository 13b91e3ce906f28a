# SPDX-License-Identifier: MIT
"""One module per TileGym op with a native Rust implementation.

Each module `<op>.py` has the function `<op>` with TileGym's implementation-side signature, and
`arguments(shape, dtype)`, the op's tensors for a shape as meta tensors (warm-up, bundles). Where the op returns a
function or a class, `called` takes these arguments in its place. Same name in `rust/src/ops/` and
`pytest_cutile_rs/cases/`.
"""
