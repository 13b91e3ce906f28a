# SPDX-License-Identifier: MIT
"""Translations in the hands of cuTile Python's C++ launcher: parameters, caching, errors, GPUs and threads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")


def run(crate, *scenarios):
    script = Path(__file__).with_name("twin_runs.py")
    command = [sys.executable, str(script), str(crate.kernels.crate.folder), *scenarios]
    found = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert found.returncode == 0, found.stderr[-4000:]
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def ran(shared_crate):
    return run(shared_crate, "words", "again", "devices", "errors", "captured", "options", "threads")


def test_each_word_is_the_argument_that_it_stands_for(ran):
    for name, (want, got, same_grid) in ran["words"].items():
        assert got == want, name
        assert same_grid, name
    assert len(ran["words"]["add_all"][0]) == 3 + 2  # of the list the table and its length
    assert len(ran["words"]["scale_rows"][0]) == 2 * 5 + 1


def test_a_host_that_can_compile_nothing_launches_what_is_stored(ran, shared_crate):
    stored = run(shared_crate, "sealed", "words")["words"]
    assert stored.keys() == ran["words"].keys()
    assert all(got == want for want, got, _ in stored.values())


def test_code_is_loaded_once_for_a_kernel_with_its_options(ran):
    assert ran["again"]["loaded"] == [1, 1, 2, 2]
    assert ran["again"]["launched"] == len(ran["words"]) + 4


def test_gpus_of_one_capability_share_code_and_others_have_their_own(ran):
    assert ran["devices"] == [[1, []], [2, ["sm_100"]], [0, []], [2, []]]


def test_errors_come_out_as_they_are_and_leave_nothing_behind(ran):
    refused, again, compiler, _, failed = ran["errors"]["texts"]
    assert re.match(r"Refused: .*refused_kernels\.py", refused)
    assert again == refused
    assert compiler == "CompileError: kernel scale_rows asks for opt_level 2; here it is always 3"
    assert failed.startswith("RuntimeError: Failed to launch cuTile kernel")
    assert ran["errors"]["launched"] == 0
    assert ran["errors"]["after"] == ""


def test_a_captured_graph_takes_what_is_loaded(ran):
    loaded, unseen, after = ran["captured"]
    assert (loaded, after) == ("", "")
    assert re.match(r"CaptureError: a CUDA graph is being captured .* is not loaded yet: scale_rows_\w+ \[", unseen)


def test_options_are_the_launchers_and_no_blocks_are_no_launch(ran):
    assert ran["options"] == [1]


def test_threads_launch_with_their_own_words(ran):
    assert ran["threads"] == {"raised": [], "same": True, "launched": 4 * 25}
