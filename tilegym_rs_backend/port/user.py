# SPDX-License-Identifier: MIT
"""A user's own cuTile Python kernel, backed by its translation to Rust."""

from __future__ import annotations

import contextlib
from typing import Any

from ..errors import LaunchError
from ..target import target_of
from . import intercept
from .redirect import Elsewhere
from .redirect import redirect


class RustKernel(intercept.LaunchesItself):
    """Launches like the ``cuda.tile.kernel`` it was made from: ``ct.launch(stream, grid, kernel, args)``.

    On CUDA tensors it runs there; CPU tensors are executed from the kernel's bytecode.

    Attributes:
        original: the cuTile Python kernel.
    """

    def __init__(self, original: Any) -> None:
        self.original = original

    def launch(self, stream: Any, grid: Any, args: Any, **options: Any) -> None:
        """Launch once; ``options`` are those of ``ct.launch``.

        Raises:
            LaunchError: no tensor among the arguments, or one that is nowhere to be launched on.
            Refused: the kernel has a construct without a Rust form; the message names its Python line.
            CompileError: a compiler refused it.
        """
        import torch

        args = tuple(args)
        tensor = next((arg for arg in args if hasattr(arg, "data_ptr")), None)
        name = self.original._annotated_function.pyfunc.__name__
        if tensor is None:
            raise LaunchError(f"{name}: a launch needs a tensor, to know its device", rc=-6)
        if tensor.is_cuda:
            device = tensor.get_device()
            here = device == torch._C._cuda_getDevice()
            with contextlib.nullcontext() if here else torch.cuda.device(device):  # whose default stream is meant
                redirect().launch(stream, grid, self.original, args, **options)
            return
        target = target_of(tensor, name, "an argument")
        Elsewhere(redirect().kernels, target, "meta" if tensor.is_meta else "cpu").launch(
            stream, grid, self.original, args
        )

    def replace_hints(self, **hints: Any) -> RustKernel:
        """Return the kernel with other compiler hints, as the original's method does."""
        return RustKernel(self.original.replace_hints(**hints))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def kernel(original: Any) -> RustKernel:
    """Return a Rust-backed object that launches like ``original``, a ``cuda.tile.kernel``.

    Nothing is translated before the first launch: the text depends on the arguments.

    Raises:
        TypeError: it is no cuTile Python kernel.
    """
    import cuda.tile as ct

    if isinstance(original, RustKernel):
        return original
    if not isinstance(original, ct.kernel):
        raise TypeError(f"port.kernel takes a cuda.tile.kernel (a function under @ct.kernel), got {original!r}")
    intercept.install()
    return RustKernel(original)
