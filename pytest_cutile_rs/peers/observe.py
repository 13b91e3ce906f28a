# SPDX-License-Identifier: MIT
"""Watch cuTile Python at work on a GPU, with its own kernels or translated ones: what it tuned, chose and launched.

Nothing is replaced: tuner and launches are passed on as they are.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

MAX_LISTED = 64


@contextlib.contextmanager
def observing(arch: str, name: Callable[[Any], str] = lambda launch: launch.name) -> Iterator[dict[str, Any]]:
    """Yield a record that fills while the calling thread runs cuTile Python's ops.

    Args:
        arch: of the GPU.
        name: what runs for a captured launch: the Python kernel itself, unless its launches are redirected.

    ``launches``: per launch the kernel's name, grid, hints and compile-time constants, which hold the choice.
    ``tuning``: per search the configurations (at most ``MAX_LISTED`` of them in words, and their number), the chosen
    one, how many failed, and seconds. It is empty where the op has no tuner or remembers an earlier search.
    """
    import cuda.tile as ct
    import cuda.tile.tune

    from tilegym_rs_backend.port import capture as capturing
    from tilegym_rs_backend.port.machine import replaced

    record: dict[str, Any] = {"launches": [], "tuning": []}

    def launched(stream: Any, grid: Any, kernel: Any, args: Any, *rest: Any, **more: Any) -> Any:
        record["launches"].append(_launch(capturing, kernel, grid, args, arch, name))
        _, launch = replaced(ct.launch)  # asked here: kernels may be redirected meanwhile
        return launch(stream, grid, kernel, args, *rest, **more)

    def searched(search_space: Any, *rest: Any, **more: Any) -> Any:
        configurations = list(search_space)
        begin = time.perf_counter()
        _, search = replaced(cuda.tile.tune.exhaustive_search)
        result = search(configurations, *rest, **more)
        record["tuning"].append(
            {
                "configurations": len(configurations),
                "listed": [str(one) for one in configurations[:MAX_LISTED]],
                "chosen": str(result.best.config),
                "failed": len(result.failures),
                "seconds": round(time.perf_counter() - begin, 3),
            }
        )
        return result

    answers: dict[str, Callable[..., Any]] = {"launch": launched, "exhaustive_search": searched}
    with capturing.patches.active(answers):
        yield record


def _launch(capturing: Any, kernel: Any, grid: Any, args: Any, arch: str, name: Callable[[Any], str]) -> dict[str, Any]:
    try:
        one = capturing.described(kernel, grid, tuple(args), arch)
        runs = name(one)
    except Exception as error:  # what is watched must run as if nobody looked
        return {"kernel": _name(kernel), "grid": str(grid), "unread": str(error)}
    constants = {
        constant: value if isinstance(value, (bool, int, float, str)) else str(value)
        for constant, value in one.constants.items()
    }
    return {"kernel": runs, "grid": list(one.grid), "hints": dict(one.hints), "constants": constants}


def _name(kernel: Any) -> str:
    function = getattr(getattr(kernel, "_annotated_function", None), "pyfunc", kernel)
    return str(getattr(function, "__name__", function))
