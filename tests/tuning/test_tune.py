# SPDX-License-Identifier: MIT
"""`choose`: when the default runs, when a stored choice, when something is measured; and searches over fakes."""

from __future__ import annotations

import dataclasses
import json
import logging
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch
from tuning_space import GPU
from tuning_space import SPACE
from tuning_space import Config
from tuning_space import Library
from tuning_space import Problem
from tuning_space import Runner
from tuning_space import compiler
from tuning_space import resources
from tuning_space import spec_text

from tilegym_rs_backend import plans
from tilegym_rs_backend import tune
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.target import recorder_target
from tilegym_rs_backend.tuning import here
from tilegym_rs_backend.tuning import search as searching
from tilegym_rs_backend.tuning.worker import WorkerUnavailable

LIBRARY = Library()
US = {64: 30.0, 128: 20.0, 256: 10.0}


class World:
    """What happens around a search: what is compiled and measured, how often."""

    def __init__(self, monkeypatch, tmp_path):
        self.compiled, self.specs, self.us, self.by_tile, self.wait_s = [], [], dict(US), {}, 0.0
        monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.delenv(tune.DISABLE, raising=False)
        monkeypatch.setattr(searching, "compile_launches", self.compile)
        monkeypatch.setattr("tilegym_rs_backend.launch.spec_text", spec_text)
        monkeypatch.setattr(searching, "worker_runner", lambda library: self.open)
        monkeypatch.setattr(here, "gpu_name", lambda device: "Fake GPU")
        monkeypatch.setattr(here, "driver_version", lambda: "1.0")
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        tune.forget()

    def compile(self, library, launches, arch, **options):
        return compiler(self.by_tile, self.compiled)(library, launches, arch, **options)

    def open(self, spec):
        self.specs.append(spec)
        time.sleep(self.wait_s)
        return Runner([self.us[config["tile"]] for config in spec.configs])


@pytest.fixture
def world(monkeypatch, tmp_path):
    yield World(monkeypatch, tmp_path)
    tune.forget()


def choose(n=1000, target=GPU, space=SPACE):
    return tune.choose(space, Problem(n), LIBRARY, target)


def test_the_first_call_on_a_gpu_measures_and_later_ones_know(world):
    assert choose() == Config(256, 1)
    assert choose() == Config(256, 1)
    assert len(world.specs) == 1
    tune.forget()  # as in another process
    assert choose() == Config(256, 1)
    assert len(world.specs) == 1
    choose(2000)  # another bucket
    assert len(world.specs) == 2


def test_what_was_tried_is_stored(world):
    world.by_tile[64] = resources(frame=64)
    choose()
    [choice] = [each for each in here.choices().every() if not each.key.planned]
    assert choice.config == {"tile": 256, "occupancy": 1, "num_worker_warps": 0, "num_cta_in_cga": 0}
    assert (choice.us, choice.default_us, choice.key.gpu, choice.key.driver) == (10.0, 20.0, "Fake GPU", "1.0")
    assert dict(choice.key.bucket) == {"dtype": "f32", "n": 1000}
    why = {each.config["tile"]: each.why for each in choice.tried}
    assert why[64] == "spills: 64 bytes of stack for each thread"
    assert all(not each.why and each.us and each.predicted_us for each in choice.tried if each.config["tile"] != 64)
    assert [each.us for each in choice.tried[:4]] == sorted(each.us for each in choice.tried[:4])
    assert choice.tried[0].spec_text.startswith("scale spec")


def test_the_default_is_measured_first_even_if_the_plan_dropped_it(world):
    world.by_tile[128] = resources(frame=8)
    choose()
    assert world.specs[0].configs[0]["tile"] == 128
    assert sum(config["tile"] == 128 for config in world.specs[0].configs) == 1


@pytest.mark.parametrize("value", ["1", "true", "ON"])
def test_with_tuning_off_the_default_runs_even_over_a_stored_choice(world, monkeypatch, value):
    choose()
    monkeypatch.setenv(tune.DISABLE, value)
    assert choose() == Config(128, 1)
    monkeypatch.setenv(tune.DISABLE, "0")
    assert choose() == Config(256, 1)


def test_a_recorder_a_cpu_and_a_thread_with_tuning_off_take_the_default(world):
    assert choose(target=recorder_target("sm_90")) == Config(128, 1)
    assert choose(target=executing_target("sm_90")) == Config(128, 1)
    with tune.off():
        assert choose() == Config(128, 1)
    assert world.specs == []


def test_a_recorder_that_stands_for_a_device_has_that_devices_choice_and_measures_nothing(world):
    with tune.standing_for(0):
        assert choose(target=recorder_target("sm_90")) == Config(128, 1)
        choose()
        assert choose(target=recorder_target("sm_90")) == Config(256, 1)
    assert len(world.specs) == 1


def test_nothing_is_measured_under_a_capture_and_the_plan_is_not_kept(world, monkeypatch):
    made = []

    @plans.planned
    def plan(n):
        made.append(n)
        return choose(n)

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert plan(1000) == Config(128, 1)
    assert world.specs == []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert plan(1000) == Config(256, 1)
    assert plan(1000) == Config(256, 1)
    assert made == [1000, 1000]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert plan(1000) == Config(256, 1)


def test_a_space_that_is_not_for_first_calls_waits_to_be_asked(world):
    quiet = dataclasses.replace(SPACE, on_first_call=False)
    assert choose(space=quiet) == Config(128, 1)
    assert world.specs == []
    tune.search(tune.Asked(quiet, Problem(1000), LIBRARY, GPU))
    assert choose(space=quiet) == Config(256, 1)


def test_a_new_choice_reaches_plans_that_were_made_before(world, monkeypatch):
    quiet = dataclasses.replace(SPACE, on_first_call=False)
    plan = plans.planned(lambda n: choose(n, space=quiet))
    assert plan(1000) == Config(128, 1)
    tune.search(tune.Asked(quiet, Problem(1000), LIBRARY, GPU))
    assert plan(1000) == Config(256, 1)


def test_a_choice_that_another_problem_of_the_bucket_cannot_have_is_not_used_there(world):
    one = dataclasses.replace(SPACE, bucket=lambda p: {"dtype": "f32", "n": "any"})
    assert choose(1000, space=one) == Config(256, 1)
    assert choose(200, space=one) == Config(128, 1)
    assert len(world.specs) == 1


@pytest.mark.parametrize("where", ["compile", "measure", "worker"])
def test_a_search_without_a_result_is_logged_and_not_repeated(world, caplog, monkeypatch, where):
    if where == "compile":
        world.by_tile = dict.fromkeys((64, 128, 256), "not compiled: no tileiras")
    elif where == "measure":
        world.us = dict.fromkeys((64, 128, 256), "launch failed")
    else:

        def full(spec):
            world.specs.append(spec)
            raise WorkerUnavailable("the measuring process cannot start: out of memory")

        monkeypatch.setattr(searching, "worker_runner", lambda library: full)
    with caplog.at_level(logging.WARNING, "tilegym_rs_backend.tune"):
        assert choose() == Config(128, 1)
        assert choose() == Config(128, 1)
    [record] = caplog.records
    assert "scale dtype=f32 n=1000 runs with its default" in record.message
    reason = {"compile": "no tileiras", "measure": "launch failed", "worker": "out of memory"}[where]
    assert reason in record.message
    assert [each for each in here.choices().every() if not each.key.planned] == []
    assert len(world.specs) <= 1


def test_a_plan_made_elsewhere_is_only_measured(world):
    made = tune.plan_offline(tune.Asked(SPACE, Problem(1000), LIBRARY, recorder_target("sm_90")))
    assert made.key.planned
    assert (made.us, len(made.tried)) == (0.0, 6)
    assert world.specs == []
    before = len(world.compiled)
    assert choose() == Config(256, 1)
    assert len(world.compiled) == before
    assert tune.plan_offline(tune.Asked(SPACE, Problem(1000), LIBRARY, recorder_target("sm_90"))) == made
    assert len(world.compiled) == before


def test_more_are_compiled_while_too_few_fit(world):
    """The model likes tiles of 64 best, which spill here."""
    asked = tune.Asked(SPACE, Problem(1000), LIBRARY, recorder_target("sm_90"))
    world.by_tile[64] = resources(frame=16)
    made = tune.plan_offline(asked, compiled=3)
    assert [each.config["tile"] for each in made.tried if each.why] == [64, 64]
    assert sum(not each.why for each in made.tried) == 3
    assert made.left_out["not among the first 5 by the model"] == 1
    world.by_tile.clear()
    assert len(tune.plan_offline(asked, compiled=3, again=True).tried) == 3


def test_only_the_first_of_a_plan_are_measured(world):
    tune.search(tune.Asked(SPACE, Problem(1000), LIBRARY, GPU), measured=2)
    assert len(world.specs[0].configs) == 3  # the default, and two
    again = tune.search(tune.Asked(SPACE, Problem(1000), LIBRARY, GPU), again=True, measured=5)
    assert len(world.specs[1].configs) == 6
    assert again.us == 10.0


def test_threads_that_ask_at_once_make_one_search(world):
    world.wait_s = 0.2
    found = []
    threads = [threading.Thread(target=lambda: found.append(choose())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Config(256, 1)] * 8
    assert len(world.specs) == 1


def test_threads_make_one_search_where_files_cannot_be_locked(world, monkeypatch):
    def no_locks(*args, **options):
        raise BuildError("the filesystem has no locks", stage="lock")

    monkeypatch.setattr("tilegym_rs_backend.tuning.flight.build_lock", no_locks)
    test_threads_that_ask_at_once_make_one_search(world)


def test_near_copies_of_a_better_candidate_are_put_back():
    configs = [{"tile": 64, "group": 8}, {"tile": 64, "group": 16}, {"tile": 128, "group": 8}]
    spread = searching._spread
    assert spread(["a", "b", "c"], [10.0, 10.0, 10.1], configs, ("group",)) == ["a", "c", "b"]
    assert spread(["a", "b", "c"], [10.0, 10.0, 10.3], configs, ("group",)) == ["a", "b", "c"]
    assert spread(["a", "b", "c"], [10.0, 10.0, 10.1], configs, ()) == ["a", "b", "c"]


def test_questions_say_what_was_asked_and_what_answered(world, monkeypatch):
    with tune.questions() as asked:
        choose()
        choose(target=recorder_target("sm_90"))
    assert [each.choice and each.choice.us for each in asked] == [10.0, None]
    assert asked[0].problem == Problem(1000)


PROCESS = """
import sys, time
sys.path[:0] = [{tests!r}]
import pytest, test_tune
patch = pytest.MonkeyPatch()
world = test_tune.World(patch, test_tune.Path({folder!r}))
world.wait_s = 1.0
print(test_tune.choose(), len(world.specs))
"""


def test_processes_that_ask_at_once_make_one_search(tmp_path):
    """The others wait for the lock and then read the choice."""
    code = textwrap.dedent(PROCESS).format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    command = [sys.executable, "-c", code]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [answer[0] for answer in answers] == ["Config(tile=256,"] * 3
    assert sorted(answer[-1] for answer in answers) == ["0", "0", "1"]


def test_a_plan_of_what_cannot_be_compiled_says_why(world):
    world.by_tile = dict.fromkeys((64, 128, 256), "not compiled: there is no tileiras")
    with pytest.raises(TilegymRsError, match="scale: no candidate could be compiled: not compiled: there is no tile"):
        tune.plan_offline(tune.Asked(SPACE, Problem(1000), LIBRARY, recorder_target("sm_90")))


def test_sources_decide_the_key(tmp_path):
    """Another op's file is no reason to measure again; the op's own, the front end and the space's module are."""

    def digest(module="tuning_space", **files):
        library = Library()
        library.path = tmp_path / "lib.so"
        sources = {"src/ops/scale.rs": "1", "src/ops/other.rs": "1", "src/frontend.rs": "1", "build.rs": "1"} | files
        (tmp_path / "build.json").write_text(json.dumps({"build_id": "b1", "files": sources}))
        return here.kernel_digest(library, "scale", module)

    first = digest()
    assert digest(**{"src/ops/other.rs": "2"}) == digest(**{"build.rs": "2"}) == first
    assert digest(**{"src/ops/scale.rs": "2"}) != first
    assert digest(**{"src/frontend.rs": "2"}) != first
    assert digest("tilegym_rs_backend.ops._matmul_space") != first


def test_a_library_without_a_manifest_is_known_by_its_build():
    first, second = Library(), Library()
    second.build_id = "b2"
    assert here.kernel_digest(first, "scale", "tuning_space") != here.kernel_digest(second, "scale", "tuning_space")
    assert here.kernel_digest(first, "scale", "tuning_space") == here.kernel_digest(LIBRARY, "scale", "tuning_space")
