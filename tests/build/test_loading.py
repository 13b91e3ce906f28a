# SPDX-License-Identifier: MIT
"""From a crate to a loaded library: `library.open`, what is checked before and after dlopen, and what reloads cost."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tilegym_rs_backend import library
from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.build import publish
from tilegym_rs_backend.errors import BuildError

from .conftest import World
from .conftest import executable

LIBRARY_C = """
int cutile_abi_version(void) { return ABI; }
const char *cutile_build_id(void) { return ID; }
const char *cutile_describe(void) { return "{\\"kernels\\": [{\\"name\\": \\"" NAME "\\"}]}"; }
"""
COMPILE = r"""
name="$(tail -n 1 "$(dirname "$manifest")/src/ops/softmax.rs" | tr -cd 'a-z')"
cc -shared -fPIC -DABI=1 -DID="\"${ID:-$CUTILE_BUILD_ID}\"" -DNAME="\"$name\"" -o "$out/libcutile_kernels.so" """


@pytest.fixture
def built(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world with a cargo that compiles the build id into the library, and a file's last line as a kernel's name."""
    (world.fake / "lib.c").write_text(LIBRARY_C, encoding="ascii")
    script = (world.fake / "bin" / "cargo").read_text(encoding="ascii")
    copying = 'cp "$FAKE/lib.so" "$out/libcutile_kernels.so"'
    assert copying in script
    executable(world.fake / "bin" / "cargo", script.replace(copying, f'{COMPILE} "$FAKE/lib.c"'))
    monkeypatch.setattr(library, "_others", {})
    return world


def names(found: library.Library) -> list[str]:
    return [entry["name"] for entry in found.describe["kernels"]]


def edit(world: World, name: str) -> None:
    (world.crate / "src" / "ops" / "softmax.rs").write_text(f"// {name}\n", encoding="ascii")


def test_a_crate_of_ones_own_is_built_loaded_and_reloaded(built: World) -> None:
    first = library.open(built.crate)
    assert (names(first), first.build_id) == (["one"], first.path.parent.name)
    assert library.open(str(built.crate)) is first
    edit(built, "two")
    time.sleep(0.6)
    second = library.open(built.crate)
    assert (names(second), built.runs) == (["two"], 2)
    assert names(first) == ["one"], "the old one stays mapped"
    edit(built, "one")
    assert library.open(built.crate) is second, "within half a second nothing is looked at"
    time.sleep(0.6)
    assert library.open(built.crate).path == first.path
    assert built.runs == 2


def test_what_is_no_crate_is_named(built: World) -> None:
    with pytest.raises(BuildError, match=r"nowhere/Cargo\.toml is missing"):
        library.open(built.root / "nowhere")


def test_a_library_that_was_named_is_this_packages_and_nobody_elses(
    built: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEGYM_RS_LIBRARY", str(built.fake / "lib.so"))
    assert names(library.open(built.crate)) == ["one"]


def set_aside(folder: Path) -> list[Path]:
    return list(folder.parent.glob(f"{folder.name}.bad-*"))


def test_a_damaged_library_is_never_mapped_but_set_aside_and_built_anew(
    built: World, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ensure_library(built.crate)
    content = bytearray(path.read_bytes())
    content[0x40:0x80] = bytes(0x40)
    path.write_bytes(content)
    found = library.open(built.crate)
    assert (found.path, names(found), built.runs) == (path, ["one"], 2)
    assert len(set_aside(path.parent)) == 1
    assert f"the one that was there is bad: {path} was damaged after it was published" in capsys.readouterr().err


def replace(path: Path, world: World, **macros: str) -> None:
    """Put another library into a published folder, with a build.json that fits it."""
    values = {"ABI": "1", "ID": f'"{path.parent.name}"', "NAME": '"strange"', **macros}
    flags = [f"-D{name}={value}" for name, value in values.items()]
    path.unlink()
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", str(path), str(world.fake / "lib.c")], check=True)
    manifest = json.loads((path.parent / "build.json").read_text(encoding="utf-8"))
    manifest |= {"size": path.stat().st_size, "sha256": publish.hashlib.sha256(path.read_bytes()).hexdigest()}
    (path.parent / "build.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize(
    ("macros", "text"), [({"ID": '"other"'}, "says it is build other"), ({"ABI": "2"}, "speaks ABI 2")]
)
def test_a_library_that_is_another_one_is_set_aside_and_its_successor_is_what_is_used(
    built: World, capsys: pytest.CaptureFixture[str], macros: dict[str, str], text: str
) -> None:
    path = ensure_library(built.crate)
    replace(path, built, **macros)
    found = library.open(built.crate)
    assert (found.path, found.build_id, names(found)) == (path, path.parent.name, ["one"])
    assert built.runs == 2
    assert len(set_aside(path.parent)) == 1
    assert text in capsys.readouterr().err


def test_a_library_that_is_bad_again_is_an_error_and_not_built_for_ever(
    built: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ID", "other")
    with pytest.raises(BuildError, match="says it is build other") as caught:
        library.open(built.crate)
    assert "fix: rebuild it: tilegym-rs build --force" in str(caught.value)
    assert built.runs == 2


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_a_library_stays_mapped_when_nobody_holds_it(built: World) -> None:
    """A captured graph holds functions of it and no Python object."""
    found = library.open(built.crate)
    path = found.path
    library._others.clear()
    del found
    gc.collect()
    assert mapped(path)


def test_one_that_does_not_fit_does_not(built: World) -> None:
    path = ensure_library(built.crate)
    replace(path, built, ID='"other"')
    with pytest.raises(BuildError):
        library.Library(path)
    assert not mapped(path)


def test_reloading_while_other_threads_call(built: World) -> None:
    """Each call sees one whole library, old or new."""
    library.open(built.crate)
    stop, seen, errors = threading.Event(), set(), []

    def call() -> None:
        while not stop.is_set():
            try:
                found = library.open(built.crate)
                [name] = names(found)
                assert found.ffi.string(found.lib.cutile_build_id()).decode() == found.build_id
                seen.add(name)
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for name in ("two", "three", "four"):
        edit(built, name)
        deadline = time.monotonic() + 20
        while name not in seen and not errors and time.monotonic() < deadline:
            time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen == {"one", "two", "three", "four"}
    assert built.runs == 4


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


RELOADS = 10_000
OWN_BYTES = 24 * 1024
"""What a reload may keep besides the library's own pages: cffi's declarations, the dynamic linker's record."""


def test_ten_thousand_reloads_keep_no_more_than_the_mapped_libraries(
    built: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every reload finds another library. `cache info` shows what is mapped."""
    from tilegym_rs_backend import build
    from tilegym_rs_backend.commands.cache import mapped_libraries

    original = ensure_library(built.crate)
    loads = int(os.environ.get("TILEGYM_RS_RELOADS", RELOADS // 50))
    found = iter(range(loads + 1))

    def next_library(root: Path, reason: str = "") -> Path:
        folder = publish.shelf() / f"{next(found):016x}"
        folder.mkdir()
        return Path(shutil.copy(original, folder))

    monkeypatch.setattr(build, "ensure_library", next_library)
    monkeypatch.setattr(build, "sources_changed", lambda root: True)
    start = 0
    for number in range(loads):
        library.open(built.crate)
        library._others[built.crate].next_sweep = 0.0
        if number == loads // 10:
            gc.collect()
            start = resident()
    gc.collect()
    measured = loads - 1 - loads // 10
    mapped = [path for path, processes in mapped_libraries().items() if os.getpid() in processes]
    assert len([path for path in mapped if path.startswith(str(publish.shelf()))]) == loads
    grown = resident() - start
    assert grown < measured * (original.stat().st_size + OWN_BYTES)
    print(f"{loads} reloads: {grown / measured:.0f} bytes each, of a library of {original.stat().st_size} bytes")
