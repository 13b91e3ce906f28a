# SPDX-License-Identifier: MIT
"""pytest's entry point. Imports the standard library and pytest only, and does nothing unless asked to."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING
from typing import Any

import pytest

from pytest_cutile_rs.options import ID_ROOT
from pytest_cutile_rs.options import add_options
from pytest_cutile_rs.options import canonical_id
from pytest_cutile_rs.options import is_id
from pytest_cutile_rs.options import read_options
from pytest_cutile_rs.options import tilegym_paths

if TYPE_CHECKING:
    from pytest_cutile_rs.kernel_gate import KernelGate
    from pytest_cutile_rs.run import Run

# On config.option, because that is what xdist hands to its workers.
_IDS = "cutile_rs_ids"
PLUGIN = "cutile-rs-run"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declares the hooks."""
    from pytest_cutile_rs import hookspec

    pluginmanager.add_hookspecs(hookspec)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Makes TileGym's folders part of the command line, before their conftest files are looked for."""
    namespace = early_config.known_args_namespace
    paths = tilegym_paths(early_config, namespace)
    if paths:
        from pytest_cutile_rs import tilegym_tests

        tilegym_tests.prepare(paths, getattr(namespace, "cutile_rs_arch", None))
        new = [path for path in paths if path not in namespace.file_or_dir]  # an xdist worker gets them as arguments
        args.extend(new)
        namespace.file_or_dir.extend(new)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Takes our ids out of the arguments and, when the run is ours, registers what does the work."""
    base = config.invocation_params.dir
    given = [argument for argument in config.args if is_id(argument, base)]
    ids = [canonical_id(argument) for argument in given] or list(getattr(config.option, _IDS, ()))
    if ids == [ID_ROOT]:
        ids, given_all = [], True
    else:
        given_all = False
    options = read_options(config, ids)
    if given_all and not options.enabled:
        config.option.cutile_rs = True
        options = read_options(config, ids)
    if not options.enabled and not options.tilegym_tests:
        return
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        from pytest_cutile_rs import gpus

        gpus.assign(str(worker["workerid"]))
    setattr(config.option, _IDS, ids)
    if options.enabled:
        config.option.cutile_rs = True
        config.args[:] = [argument for argument in config.args if argument not in given]
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args[:] = []  # testpaths or the working directory, which nobody asked for
    from pytest_cutile_rs.run import Run

    run = Run(config, options)
    config.pluginmanager.register(run, PLUGIN)
    if options.tilegym_tests:
        from pytest_cutile_rs.tilegym_tests import TilegymTests

        config.pluginmanager.register(TilegymTests(config, options), "cutile-rs-tilegym-tests")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Answers ``--cutile-rs-list``."""
    if not config.getoption("cutile_rs_list", False):
        return None
    config._do_configure()
    try:
        run: Any = config.pluginmanager.get_plugin(PLUGIN)
        run.print_list()
    finally:
        config._ensure_unconfigure()
    return 0


@pytest.fixture(scope="session")
def cutile_rs_kernel(pytestconfig: pytest.Config) -> Generator[KernelGate, None, None]:
    """Gate a launch of a cuTile Python kernel of your own against its Rust translation: numbers, Tile IR, machine code,
    and device time where its tensors are on a GPU.

    Example::

        def test_scale(cutile_rs_kernel):
            x, out = torch.randn(1000), torch.empty(1000)
            cutile_rs_kernel(scale, (4,), (out, x, 2.0, 256))
    """
    from pytest_cutile_rs.kernel_gate import gate_of

    gate = gate_of(pytestconfig)
    yield gate
    gate.close()


def run_of(config: pytest.Config) -> Run | None:
    """The run of this process, None when the plugin is inert."""
    found: Run | None = config.pluginmanager.get_plugin(PLUGIN)
    return found
