# SPDX-License-Identifier: MIT
"""The command line and ini options, and their validated form. Standard library and pytest only."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.project import Project
from pytest_cutile_rs.project import read_project
from pytest_cutile_rs.report.repeat import arguments
from pytest_cutile_rs.shard import Shard
from pytest_cutile_rs.waivers import Waiver

ID_ROOT = "cutile_rs"


@dataclass(frozen=True)
class _Option:
    """One valued option; its ini key is its name with underscores."""

    name: str
    default: str
    metavar: str
    help: str

    @property
    def flag(self) -> str:
        return f"--cutile-rs-{self.name}"

    @property
    def key(self) -> str:
        return f"cutile_rs_{self.name.replace('-', '_')}"


_VALUED = (
    _Option("ops", "", "OP[,OP]", "ops to check (default: all)"),
    _Option("dtypes", "", "DTYPE[,DTYPE]", f"dtypes to check, of {','.join(TORCH_DTYPES)} (default: all)"),
    _Option("checks", ",".join(CHECKS), "CHECK[,CHECK]", f"checks to run (default: {','.join(CHECKS)})"),
    _Option("variant", "auto", "auto|native|ported", "kernels to run; auto: native where there are (default: auto)"),
    _Option("arch", "", "ARCH", "architecture to compile for (default: the GPU's own, sm_90 without a GPU)"),
    _Option("out", ".cutile_rs", "DIR", "folder of the reports (default: .cutile_rs)"),
    _Option("seed", "0", "N", "seed of the inputs and of the measurement order (default: 0)"),
    _Option("threshold", "0.95", "RATIO", "lowest accepted t_cutile_python / t_cutile_rs (default: 0.95)"),
    _Option("ambiguous", "xfail", "xfail|fail|pass", "what becomes of an AMBIGUOUS perf case (default: xfail)"),
    _Option("protocol", "", "best-of-4", "report TileGym's published protocol too; it never gates (default: none)"),
    _Option("timer", "cupti", "cupti|event", "clock of device time; event sees no stray kernels (default: cupti)"),
    _Option("self-check", "3", "N", "equal pairs that give the machine's noise floor, 0 for none (default: 3)"),
    _Option("perf-budget", "20", "SECONDS", "measuring time a perf case may take (default: 20)"),
    _Option("shard", "1/1", "I/N", "run the I-th of N parts; all checks of a case stay together (default: 1/1)"),
    _Option("min-cases", "1", "N", "fail the run when fewer checks than this gave an answer (default: 1)"),
)


@dataclass(frozen=True)
class Options:
    """The options of one run, validated.

    Attributes:
        threshold: of every op that ``thresholds`` does not name; see `threshold_of`.
        thresholds: per op, of the project; empty when the command line gave one.
        waivers: of the project.
    """

    enabled: bool
    ids: tuple[str, ...]
    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    checks: tuple[str, ...]
    quick: bool
    all: bool
    save: bool
    arch: str
    out: Path
    seed: int
    threshold: float
    perf_budget: float
    min_cases: int
    list_only: bool
    tilegym_tests: tuple[str, ...]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    shard: Shard = field(default_factory=Shard)
    ambiguous: str = "xfail"
    variant: str = "auto"
    protocol: str = ""
    timer: str = "cupti"
    self_check: int = 3
    threshold_given: bool = False

    def threshold_of(self, op: str) -> float:
        """The lowest accepted ratio of an op."""
        return self.thresholds.get(op, self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """JSON form for the report."""
        plain = {name: str(value) if isinstance(value, (Path, Shard)) else value for name, value in vars(self).items()}
        return plain | {"thresholds": dict(self.thresholds), "waivers": [waiver.to_dict() for waiver in self.waivers]}

    def arguments(self) -> list[str]:
        """The command-line words that make a run of one item judge as this one does."""
        return arguments(self.to_dict())


def add_options(parser: pytest.Parser) -> None:
    """Declares every option in one group, each with an ini key of the same name."""
    group = parser.getgroup("cutile-rs", "parity of the Rust kernels with cuTile Python (cutile-rs)")
    group.addoption(
        "--cutile-rs",
        action="store_true",
        default=None,
        help="run the built-in parity suite; without a path nothing else is collected (default: off)",
    )
    parser.addini("cutile_rs", "like --cutile-rs", type="bool", default=False)
    group.addoption(
        "--cutile-rs-quick",
        action="store_true",
        default=None,
        help="a few cases per op only (default: off)",
    )
    parser.addini("cutile_rs_quick", "like --cutile-rs-quick", type="bool", default=False)
    group.addoption(
        "--cutile-rs-all",
        action="store_true",
        default=None,
        help="all cases of TileGym's ops without native kernels too; otherwise those have their quick cases, unless "
        "--cutile-rs-ops names them (default: off)",
    )
    parser.addini("cutile_rs_all", "like --cutile-rs-all", type="bool", default=False)
    group.addoption(
        "--cutile-rs-save",
        action="store_true",
        default=None,
        help="keep this run in runs/ of the reports, for compare, trend and the page's history (default: off)",
    )
    parser.addini("cutile_rs_save", "like --cutile-rs-save", type="bool", default=False)
    for option in _VALUED:
        group.addoption(option.flag, dest=option.key, metavar=option.metavar, default=None, help=option.help)
        parser.addini(option.key, f"like {option.flag}", default=option.default)
    group.addoption(
        "--cutile-rs-list",
        action="store_true",
        default=False,
        help="print the selected cases and exit; needs no GPU and builds nothing (default: off)",
    )
    group.addoption(
        "--tilegym-tests",
        metavar="DIR",
        action="append",
        default=None,
        help="run TileGym's own test files in DIR (or one file; repeatable) with backend cutile_rs in place of cutile "
        "(default: none)",
    )
    parser.addini("tilegym_tests", "like --tilegym-tests", type="args", default=[])


def is_id(argument: str, base: Path) -> bool:
    """Whether a command-line argument names parity items and not a file.

    Args:
        argument: as typed; pytest prints ids relative to the working directory, so ``../cutile_rs::ir`` counts too.
        base: the folder that paths are relative to.
    """
    head, separator, _ = argument.partition("::")
    if Path(head).name != ID_ROOT:
        return False
    return bool(separator) or not (base / head).exists()


def canonical_id(argument: str) -> str:
    """The id without the folders that pytest may have put in front of it."""
    head, separator, rest = argument.partition("::")
    return Path(head).name + separator + rest


def tilegym_paths(config: pytest.Config, option: Any) -> tuple[str, ...]:
    """The folders of ``--tilegym-tests`` or of the ini key."""
    given = getattr(option, "tilegym_tests", None)
    return tuple(given if given is not None else config.getini("tilegym_tests"))


def read_options(config: pytest.Config, ids: Sequence[str] = ()) -> Options:
    """Command line over ini over default.

    Raises:
        pytest.UsageError: for a value that cannot be meant.
    """

    def value(key: str) -> str:
        given = config.getoption(key, None)
        return str(given if given is not None else config.getini(key))

    def flag(key: str) -> bool:
        given = config.getoption(key, None)
        return bool(given if given is not None else config.getini(key))

    enabled = flag("cutile_rs") or bool(ids) or bool(config.getoption("cutile_rs_list", False))
    project = read_project(config.rootpath) if enabled else Project()
    given = config.getoption("cutile_rs_threshold", None) is not None
    return Options(
        enabled=enabled,
        ids=tuple(ids),
        ops=_names(value("cutile_rs_ops")),
        dtypes=_choices("--cutile-rs-dtypes", value("cutile_rs_dtypes"), tuple(TORCH_DTYPES)) or tuple(TORCH_DTYPES),
        checks=_choices("--cutile-rs-checks", value("cutile_rs_checks"), CHECKS) or CHECKS,
        quick=flag("cutile_rs_quick"),
        all=flag("cutile_rs_all"),
        save=flag("cutile_rs_save"),
        arch=_arch(value("cutile_rs_arch")),
        out=_folder(config.invocation_params.dir / value("cutile_rs_out")),
        seed=int(_number("--cutile-rs-seed", value("cutile_rs_seed"), int)),
        threshold=_number("--cutile-rs-threshold", value("cutile_rs_threshold"), float),
        perf_budget=_number("--cutile-rs-perf-budget", value("cutile_rs_perf_budget"), float),
        min_cases=int(_number("--cutile-rs-min-cases", value("cutile_rs_min_cases"), int)),
        list_only=bool(config.getoption("cutile_rs_list", False)),
        tilegym_tests=tilegym_paths(config, config.option),
        thresholds={} if given else project.thresholds,
        waivers=project.waivers,
        shard=_shard(value("cutile_rs_shard")),
        variant=_choice("--cutile-rs-variant", value("cutile_rs_variant"), ("auto", "native", "ported")),
        ambiguous=_choice("--cutile-rs-ambiguous", value("cutile_rs_ambiguous"), ("xfail", "fail", "pass")),
        protocol=_choice("--cutile-rs-protocol", value("cutile_rs_protocol"), ("", "best-of-4")),
        timer=_choice("--cutile-rs-timer", value("cutile_rs_timer"), ("cupti", "event")),
        self_check=int(_number("--cutile-rs-self-check", value("cutile_rs_self_check"), int)),
        threshold_given=given,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _choices(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = _names(text)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise pytest.UsageError(f"{flag}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    return tuple(name for name in known if name in names)


def _choice(flag: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise pytest.UsageError(f"{flag}: unknown {text!r}; known are {', '.join(filter(None, known))}")
    return text


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise pytest.UsageError(f"--cutile-rs-shard: {error}") from None


def _arch(text: str) -> str:
    if text and not re.fullmatch(r"sm_\d{2,3}", text):
        raise pytest.UsageError(f"--cutile-rs-arch: {text!r} is no architecture; write it as sm_90")
    return text


def _folder(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise pytest.UsageError(f"--cutile-rs-out: {path} is a file; name a folder")
    return path


def _number(flag: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        number = kind(text)
    except ValueError:
        raise pytest.UsageError(f"{flag}: {text!r} is not a number") from None
    if not math.isfinite(number):  # every comparison with nan is false: a threshold that nothing misses
        raise pytest.UsageError(f"{flag}: {text} is not finite")
    if number < 0:
        raise pytest.UsageError(f"{flag}: {text} is negative")
    return number
