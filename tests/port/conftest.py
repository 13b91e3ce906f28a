# SPDX-License-Identifier: MIT
from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import pytest

# Kernels shared by several test files of this folder.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "own")]


@pytest.fixture(scope="session", autouse=True)
def installed():
    """Launches are taken over, and a view of torch made, before a test puts something in torch's place."""
    try:
        from tilegym_rs_backend.port import intercept

        intercept.install()
        intercept._torch()
    except ImportError:  # each test says what it needs
        pass


@pytest.fixture(scope="session")
def shared_crate(tmp_path_factory):
    """One crate for all kernels of these tests, right and wrong: what one worker has built, the others find.

    ``launches`` by name; ``original(name)``: bytecode; ``kernels``: PortedKernels; ``wrong``: mutation -> entry;
    ``plain``: entry of "views" for the plain front end; ``supplied``: texts by kernel; what rustc ``refused``.
    """
    import mutated_kernels
    import own_ported
    from mutations import MUTATIONS
    from wrong_emitters import written

    from tilegym_rs_backend.errors import ToolchainError
    from tilegym_rs_backend.port.cached import CachedCrate
    from tilegym_rs_backend.port.entries import translated
    from tilegym_rs_backend.port.external import module_of
    from tilegym_rs_backend.port.keys import key_of
    from tilegym_rs_backend.port.ported import PortedKernels
    from tilegym_rs_backend.port.stored import bytecode

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-gw") else base) / "ported"
    launches = {**mutated_kernels.launches(), **own_ported.launches()}
    kernels = PortedKernels(CachedCrate(folder))
    right = {name: translated(launch) for name, launch in launches.items()}
    wrong = {mutation.id: written(mutation, launches[mutation.kernel]) for mutation in MUTATIONS}
    plain = {name: translated(launches[name], plain=True) for name in ("views", "own_outer")}
    texts = {entry.name: text for entry, text in (*right.values(), *wrong.values(), *plain.values())}
    # What is supplied for kernels that are refused: one that forgets to wait, and a right one.
    supplied = {"waits": re.sub(r"\bout\b", "x", right["select"][1]), "moments": right["own_moments"][1]}
    texts.update(module_of(text, name) for name, text in supplied.items())
    try:
        refused = kernels.crate.add({name: text for name, text in texts.items() if not kernels.crate.has(name)})
        kernels.crate.library()
    except ToolchainError as error:
        pytest.skip(str(error))
    for name, (entry, _) in right.items():
        if entry.name not in refused:
            kernels.enter(key_of(launches[name]), entry)
    return SimpleNamespace(
        launches=launches,
        original=lru_cache(maxsize=None)(lambda name: bytecode(launches[name])),
        kernels=kernels,
        plain=plain["views"][0],
        supplied=supplied,
        wrong={name: entry for name, (entry, _) in wrong.items()},
        refused=refused,
    )


@pytest.fixture
def kernels(shared_crate, monkeypatch):
    """What the stages take for the process's translations: those of the shared crate."""
    from tilegym_rs_backend.port import hostside
    from tilegym_rs_backend.port import pipeline
    from tilegym_rs_backend.port import program
    from tilegym_rs_backend.port.ported import PortedKernels
    from tilegym_rs_backend.port.preflight import preflight

    ready = preflight("sm_90")
    if ready.status != "PASS":
        pytest.skip(ready.reason)
    found = PortedKernels(shared_crate.kernels.crate)
    for module in (hostside, pipeline, program):
        monkeypatch.setattr(module, "redirect", lambda: SimpleNamespace(kernels=found))
    return found


@pytest.fixture
def ported(kernels, tmp_path):
    """One program taken through the stages: its folder, the summary of the run, the lines that were said."""
    from pipeline_runs import program
    from pipeline_runs import run

    summary, lines = run(tmp_path, program("outer"))
    return tmp_path / "sm_90" / "outer", summary, lines
