# SPDX-License-Identifier: MIT
"""One cargo run on a crate, from preflight to the published library."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

from ..errors import BuildError
from ..toolchain.cargo import build_command
from ..toolchain.cargo import find_cargo
from ..toolchain.dirs import lock_dir
from ..toolchain.env import cargo_env
from ..toolchain.toolkit import Toolkit
from . import preflight
from . import publish
from .failures import diagnose
from .key import Key
from .key import source_digests
from .lock import Held
from .lock import build_lock
from .runner import Outcome
from .runner import run_cargo

USED = "used"
"""A file in a target folder that is touched by each build."""
UNFINISHED = "unfinished"
"""A file in a target folder while cargo works there; one that is found was left by a build that was killed."""


def name_of(root: Path) -> str:
    """Return the crate's name, from its Cargo.toml."""
    text = (root / "Cargo.toml").read_text(encoding="utf-8")
    match = re.search(r'^\[package\][^\[]*?^name\s*=\s*"([^"]+)"', text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise BuildError(f"{root / 'Cargo.toml'} has no [package] name", stage="preflight")
    return match.group(1)


def command(root: Path, *, cargo: Path, features: Sequence[str]) -> list[str]:
    """Return the cargo command line that builds the library."""
    options = ["--message-format=json-render-diagnostics"]
    if features:
        options += ["--features", ",".join(sorted(features))]
    return build_command(cargo, root, *options)


def build(
    root: Path,
    key: Key,
    toolkit: Toolkit,
    *,
    features: Sequence[str],
    log: Path,
    say: Callable[[str], None],
    replace: bool = False,
) -> publish.Published | None:
    """Build the crate and publish the library; ``None`` when its sources changed while cargo read them.

    Raises:
        BuildError: with the stage it failed in, the first real error, the log's path and hints.
    """
    preflight.check(toolkit)
    publish.sweep_staging()
    environment = cargo_env(toolkit, key.short)
    environment["CARGO_TERM_COLOR"] = "never"  # the log is read by failures.py
    target = Path(environment["CARGO_TARGET_DIR"])
    # Crates that share a target folder also share the place of the finished library: until it is published, no other
    # build may run there. cargo would make that one wait too, but without a word.
    with build_lock(target_lock(target), key=key.short, log=log, say=say) as held:
        with contextlib.suppress(OSError):
            (target / USED).touch()
        return _build(root, key, environment, held, features=features, log=log, say=say, replace=replace)


def target_lock(target: Path) -> Path:
    """Return the lock under which a target folder is worked in, or deleted."""
    return lock_dir() / f"target-{target.name}.lock"


def _build(
    root: Path,
    key: Key,
    environment: dict[str, str],
    held: Held,
    *,
    features: Sequence[str],
    log: Path,
    say: Callable[[str], None],
    replace: bool,
) -> publish.Published | None:
    line = command(root, cargo=find_cargo().path, features=features)
    target = Path(environment["CARGO_TARGET_DIR"])
    _forget_what_was_killed(target)
    try:
        outcome = run_cargo(line, cwd=root, env=environment, log_path=log, say=say, started=held.works_with)
        if not outcome.timed_out and outcome.returncode >= 0:
            (target / UNFINISHED).unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(
            f"cargo cannot be run, or its log cannot be opened: {error}", stage="cargo", command=line, log_path=log
        ) from error
    if outcome.returncode != 0 or outcome.timed_out:
        raise failure(outcome, line, log)
    library, headers = artifacts(outcome, root)
    if library is None:
        raise BuildError(
            'cargo succeeded but named no shared library; the crate needs crate-type = ["cdylib"]',
            stage="cargo",
            command=line,
            returncode=0,
            log_path=log,
        )
    if source_digests(root) != key.files:
        say("the sources changed during the build; building again")
        return None
    seconds = round(outcome.seconds, 2)
    facts = {"seconds": seconds, "host": socket.gethostname(), "command": line, "root": str(root)}
    if replace:
        publish.set_aside(publish.shelf() / key.short)
    published = publish.publish(key, name_of(root), library, headers, log, **facts)
    say(f"built {published.library.name} in {outcome.seconds:.1f} s")
    return published


def _forget_what_was_killed(target: Path) -> None:
    """Delete the incremental state of a build that was killed, and note that one begins.

    A rustc that is killed can leave objects that no longer fit each other, and then every later build fails to link.
    """
    mark = target / UNFINISHED
    if mark.exists():
        shutil.rmtree(target / "release" / "incremental", ignore_errors=True)
    with contextlib.suppress(OSError):  # on a full disk cargo is the one to say so
        mark.touch()


def failure(outcome: Outcome, line: Sequence[str], log: Path) -> BuildError:
    """Turn a cargo run that failed into the error that is raised."""
    if outcome.timed_out:
        return BuildError(
            f"cargo was ended after {outcome.seconds:.0f} s",
            stage="cargo",
            command=line,
            log_path=log,
            hints=("see the log's end for what it was at; a second try goes on where this one stopped",),
        )
    diagnosis = diagnose(outcome.log)
    return BuildError(
        f"the build failed:\n{diagnosis.error}",
        stage=diagnosis.stage,
        command=line,
        returncode=outcome.returncode,
        log_path=log,
        hints=diagnosis.hints,
    )


def artifacts(outcome: Outcome, root: Path) -> tuple[Path | None, list[Path]]:
    """Return the shared library and the headers the crate's build script wrote, as cargo's messages name them."""
    library: Path | None = None
    package: object = None
    for message in outcome.messages:
        target = message.get("target")
        if message.get("reason") != "compiler-artifact" or not isinstance(target, dict):
            continue
        manifest = Path(str(message.get("manifest_path", "")))
        names = message.get("filenames")
        if "cdylib" in target.get("kind", ()) and manifest.parent == root and isinstance(names, list):
            package = message.get("package_id")
            library = next((Path(name) for name in names if str(name).endswith(".so")), library)
    headers: list[Path] = []
    for message in outcome.messages:
        if message.get("reason") == "build-script-executed" and message.get("package_id") == package:
            headers += sorted(Path(str(message.get("out_dir", "."))).glob("*.h"))
    return library, headers
