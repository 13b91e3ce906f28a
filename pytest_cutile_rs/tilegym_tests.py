# SPDX-License-Identifier: MIT
"""TileGym's own test files with our backend in the place of ``cutile``.

Its tests choose backends in ``parametrize`` marks, at import. A hook rewrites those marks, so no file is changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_cutile_rs.backend import DEFAULT_ARCH
from pytest_cutile_rs.backend import OURS
from pytest_cutile_rs.options import Options
from pytest_cutile_rs.stand_in import REPLACED
from pytest_cutile_rs.stand_in import StandIn

# Other implementations of TileGym: not what this run is about. "cutile-rs" would also get the same id as ours.
_DROPPED = frozenset({"cutile-rs", "tilecpp", "triton"})
_BACKEND_ARGUMENTS = frozenset({"backend", "framework"})


def prepare(paths: Sequence[str], arch: str | None) -> None:
    """What has to be so before TileGym's conftest files are imported.

    Without a GPU their default of ``--arch``, and some marks, ask torch for the device's capability and would raise:
    they get that of ``arch``, so that the tests can be collected and skipped with a reason.

    Raises:
        pytest.UsageError: a path that does not exist.
    """
    for path in paths:
        if not Path(path.partition("::")[0]).exists():
            raise pytest.UsageError(f"--tilegym-tests: {path} does not exist")
    os.environ["DISABLE_FALLBACK"] = "1"
    if no_cuda_reason():
        import torch

        number = (arch or DEFAULT_ARCH).removeprefix("sm_").rstrip("af")
        capability = (int(number[:-1]), int(number[-1]))
        torch.cuda.get_device_capability = lambda device=None: capability


def no_cuda_reason() -> str:
    """Why TileGym's tests cannot run here; empty where they can."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    return "" if torch.cuda.is_available() else "no CUDA device: torch.cuda.is_available() is False"


class TilegymTests:
    """The hooks; registered only when TileGym's tests were asked for."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        base = config.invocation_params.dir
        self._folders = [(base / path.partition("::")[0]).resolve() for path in options.tilegym_tests]
        self._registered = False

    def _is_theirs(self, path: Path) -> bool:
        resolved = path.resolve()
        return any(resolved == folder or folder in resolved.parents for folder in self._folders)

    def pytest_collection(self) -> None:
        """Registers the backend: a test whose backend is unknown would be skipped in silence."""
        if not self._registered:
            from tilegym_rs_backend import registration

            registration.register()
            self._registered = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Rewrites the marks of a test, and of its class and module, before pytest reads them."""
        definition: Any = metafunc.definition
        if not self._is_theirs(definition.path):
            return
        for node in definition.listchain():
            node.own_markers[:] = [reaim(mark) for mark in node.own_markers]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skips where nothing can run."""
        if self._is_theirs(item.path):
            reason = no_cuda_reason()
            if reason:
                pytest.skip(reason)


def reaim(mark: pytest.Mark) -> pytest.Mark:
    """The mark with our backend instead of ``cutile`` and without TileGym's other ones; other marks as they are."""
    if mark.name != "parametrize":
        return mark
    given_names = mark.args[0] if mark.args else mark.kwargs.get("argnames", "")
    names = _argument_names(given_names)
    position = next((index for index, name in enumerate(names) if name in _BACKEND_ARGUMENTS), None)
    given = mark.args[1] if len(mark.args) > 1 else mark.kwargs.get("argvalues")
    if position is None or given is None:
        return mark
    rows = list(given)
    ids = mark.kwargs.get("ids")
    listed = ids is not None and not callable(ids)
    texts: Iterable[Any] = list(ids or ()) if listed else [None] * len(rows)
    new_rows, new_ids = [], []
    for row, text in zip(rows, texts, strict=True):
        value = _value(row, position, len(names))
        if value in _DROPPED:
            continue
        new_rows.append(_with(row, position, len(names), StandIn(OURS)) if value == REPLACED else row)
        new_ids.append(_retitle(text) if value == REPLACED else text)
    kwargs = {name: value for name, value in mark.kwargs.items() if name not in ("argnames", "argvalues")}
    if listed:
        kwargs["ids"] = new_ids
    return pytest.Mark(mark.name, (given_names, new_rows, *mark.args[2:]), kwargs, _ispytest=True)


def _argument_names(names: Any) -> list[str]:
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names) if name.strip()]


def _value(row: Any, position: int, count: int) -> Any:
    values = row.values if _is_param(row) else ((row,) if count == 1 else row)
    return values[position]


def _with(row: Any, position: int, count: int, value: str) -> Any:
    if _is_param(row):
        values = (*row.values[:position], value, *row.values[position + 1 :])
        return row._replace(values=values, id=_retitle(row.id))
    if count == 1:
        return value
    return (*row[:position], value, *row[position + 1 :])


def _retitle(text: Any) -> Any:
    """An explicit id, with our name in the place of ``cutile`` where that stands for a whole word."""
    if not isinstance(text, str):
        return text
    return "-".join(OURS if word == REPLACED else word for word in text.split("-"))


def _is_param(row: Any) -> bool:
    return hasattr(row, "values") and hasattr(row, "marks") and hasattr(row, "_replace")
