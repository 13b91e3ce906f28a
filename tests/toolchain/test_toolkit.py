# SPDX-License-Identifier: MIT
"""Discovery over fake trees (bug report A8): which is chosen, and why each other is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.toolchain import candidates
from tilegym_rs_backend.toolchain import cargo
from tilegym_rs_backend.toolchain import prefix
from tilegym_rs_backend.toolchain import toolkit
from tilegym_rs_backend.toolchain.env import cargo_env
from tilegym_rs_backend.toolchain.env import tileiras_env

VARIABLES = ("TILEGYM_RS_TOOLKIT", "CUDA_TOOLKIT_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")


def tree(root: Path, *, cuda: int = 13040, curand: bool = True, tileiras: str | None = "13.4.92") -> Path:
    (root / "include").mkdir(parents=True)
    (root / "bin").mkdir()
    if cuda:
        (root / "include" / "cuda.h").write_text(f"#define CUDA_VERSION {cuda}\n", encoding="ascii")
    if curand:
        (root / "include" / "curand.h").touch()
    if tileiras:
        program = root / "bin" / "tileiras"
        program.write_text(
            f'#!/bin/sh\n[ -n "$CUDA_HOME" ] && exit 5\necho "release 13, V{tileiras}"\n', encoding="ascii"
        )
        program.chmod(0o755)
    return root


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(prefix, "toolkit_root", lambda: tmp_path / "prefix")
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(candidates, "LOCAL", tmp_path / "local")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ({"cuda": 0}, "no include/cuda.h"),
        ({"cuda": 12080}, "CUDA 12.8 is older than 13.2"),
        ({"curand": False}, "no include/curand.h"),
        ({"tileiras": None}, "no bin/tileiras"),
        ({"tileiras": "13.3.33"}, "tileiras 13.3.33, tested is 13.4.92"),
    ],
)
def test_a_rejected_candidate_has_its_reason_and_the_next_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: dict[str, object], reason: str
) -> None:
    bad = tree(tmp_path / "bad", **build)  # type: ignore[arg-type]
    good = tree(tmp_path / "good")
    monkeypatch.setenv("CUDA_HOME", str(bad))
    monkeypatch.setenv("CUDA_PATH", str(good))
    found, rejected = toolkit.survey(headers=True)
    assert found is not None
    assert (found.root, found.origin, found.cuda_version) == (good, "CUDA_PATH", 13040)
    reasons = {candidate.origin: text for candidate, text in rejected}
    assert reasons["private prefix"] == "no such directory"
    assert reasons["CUDA_HOME"].startswith(reason)


def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {
        "nvcc on PATH": tree(tmp_path / "nvcc"),
        "/usr/local": tree(tmp_path / "local" / "cuda-13.4"),
        "pip packages": tree(tmp_path / "site" / "nvidia" / "cu13"),
        "CUDA_PATH": tree(tmp_path / "path"),
        "CUDA_HOME": tree(tmp_path / "home"),
        "private prefix": tree(tmp_path / "prefix"),
        "CUDA_TOOLKIT_PATH": tree(tmp_path / "explicit"),
        "TILEGYM_RS_TOOLKIT": tree(tmp_path / "ours"),
    }
    nvcc = places["nvcc on PATH"] / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\n", encoding="ascii")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nvcc.parent}:/usr/bin:/bin")
    for name in VARIABLES[:4]:
        monkeypatch.setenv(name, str(places[name]))
    for origin in reversed(places):
        found = toolkit.find_toolkit(headers=True)
        assert (found.origin, found.root) == (origin, places[origin])
        monkeypatch.delenv(origin, raising=False)
        places[origin].rename(tmp_path / f"gone-{len(str(places[origin]))}-{origin.replace('/', '_')}")


def test_an_explicit_toolkit_is_never_overridden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "prefix")
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(tmp_path / "nowhere"))
    with pytest.raises(ToolchainError, match="TILEGYM_RS_TOOLKIT is set but cannot be used") as caught:
        toolkit.find_toolkit()
    assert f"{tmp_path / 'nowhere'}: no such directory" in str(caught.value)


def test_another_tileiras_only_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tree(tmp_path / "other", tileiras="13.3.33")
    monkeypatch.setenv("CUDA_HOME", str(other))
    with pytest.raises(ToolchainError, match="tilegym-rs setup"):
        toolkit.find_toolkit()
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(other))
    found = toolkit.find_toolkit()
    assert (found.tileiras_version, found.tested) == ("13.3.33", False)
    assert found.label == "13.3.33 (not the tested 13.4.92)"


def test_a_report_marks_another_tileiras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_cutile_rs.backend import CutileRsBackend

    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(tree(tmp_path / "other", tileiras="13.3.33")))
    assert CutileRsBackend().facts()["tileiras"] == "13.3.33 (not the tested 13.4.92)"
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(tree(tmp_path / "tested")))
    assert CutileRsBackend().facts()["tileiras"] == "13.4.92"


def test_an_empty_variable_is_unset_and_a_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", "")
    monkeypatch.setenv("CUDA_TOOLKIT_PATH", " ")
    link = tmp_path / "link"
    link.symlink_to(tree(tmp_path / "real"))
    monkeypatch.setenv("CUDA_HOME", str(link))
    assert toolkit.find_toolkit(headers=True).root == link


def test_a_launch_needs_no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tree(tmp_path / "packed", cuda=0, curand=False)
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(packed))
    assert toolkit.find_toolkit().cuda_version == 0
    with pytest.raises(ToolchainError, match=r"no include/cuda\.h"):
        toolkit.find_toolkit(headers=True)


def test_child_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES[2:]:
        monkeypatch.setenv(name, "/x")
    monkeypatch.setenv("CUDA_RUST_DEBUG", "full")
    monkeypatch.setenv("CARGO_TARGET_DIR", "/x")
    monkeypatch.setenv("HTTPS_PROXY", "kept")
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path / "cache"))
    assert not {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"} & set(tileiras_env())
    root = tree(tmp_path / "t")
    found = toolkit.Toolkit(root, root / "bin" / "tileiras", "13.4.92", 13040, "test")
    environment = cargo_env(found, "0123")
    assert environment["CUDA_TOOLKIT_PATH"] == str(root)
    assert environment["CUTILE_BUILD_ID"] == "0123"
    assert Path(environment["CARGO_TARGET_DIR"]).parent == tmp_path / "cache" / "target"
    monkeypatch.setenv("RUSTFLAGS", "-g")
    assert cargo_env(found, "")["CARGO_TARGET_DIR"] != environment["CARGO_TARGET_DIR"]
    assert environment["HTTPS_PROXY"] == "kept"
    assert int(environment["CARGO_BUILD_JOBS"]) >= 1
    assert not {"CUDA_HOME", "CUDA_RUST_DEBUG"} & set(environment)


def test_libclang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C++ interface beside it is no libclang; a folder that was named is the only one looked in."""
    monkeypatch.setattr(cargo, "libclang_folders", lambda toolkit: [tmp_path / "one", tmp_path / "two"])
    for name in ("one/libclang-cpp.so.14", "two/libclang-cpp.so", "two/libclang-14.so.1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = cargo.find_libclang()
    assert found is not None
    assert found.library == tmp_path / "two" / "libclang-14.so.1"
    monkeypatch.undo()
    monkeypatch.setenv("LIBCLANG_PATH", str(tmp_path / "one"))
    assert cargo.libclang_folders(None) == [tmp_path / "one"]
    assert cargo.find_libclang() is None
    monkeypatch.setenv("LIBCLANG_PATH", str(tmp_path / "two" / "libclang-14.so.1"))
    assert cargo.libclang_folders(None) == [tmp_path / "two"], "a file stands for its folder"
