# SPDX-License-Identifier: MIT
from __future__ import annotations

import importlib.metadata
import threading

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")
import cuda.tile.tune  # noqa: E402

from tilegym_rs_backend.errors import TilegymRsError  # noqa: E402
from tilegym_rs_backend.errors import ToolchainError  # noqa: E402
from tilegym_rs_backend.port import capture as capturing  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.machine import machine  # noqa: E402

exhaustive_search = cuda.tile.tune.exhaustive_search  # bound by name, as op modules do
launch = ct.launch
PATCHED = ("is_available", "get_device_capability", "get_device_properties", "current_device", "current_stream")


@ct.kernel(occupancy=4)
def copy_rows(x, out, ROWS: ct.Constant[int]):
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(ROWS, 16))
    ct.store(out, index=(ct.bid(0), 0), tile=tile)


def host(x, configs=(1, 2, 4)):
    out = torch.empty_like(x)
    found = exhaustive_search(
        configs,
        torch.cuda.current_stream(),
        lambda rows: (x.shape[0] // rows,),
        copy_rows,
        lambda rows: (x, out, rows),
        lambda rows: {"occupancy": rows},
    )
    rows = found.best.config
    launch(torch.cuda.current_stream(), (x.shape[0] // rows,), copy_rows.replace_hints(occupancy=rows), (x, out, rows))
    return out


def test_a_launch_is_recorded_with_grid_hints_arguments_and_constants():
    x = torch.empty(8, 16, device="meta")
    [found] = capture(lambda: host(x))
    assert (found.name, found.grid, dict(found.hints), found.constants) == (
        "copy_rows",
        (8, 1, 1),
        {"occupancy": 1},
        {"ROWS": 1},
    )
    assert found.args[0] is x
    assert found.parameters == ("x", "out", "ROWS")
    assert not found.candidate


def test_the_tuner_answers_by_index_function_or_all():
    x = torch.empty(8, 16, device="meta")
    assert capture(lambda: host(x), tuning=1)[0].constants == {"ROWS": 2}
    assert capture(lambda: host(x), tuning=99)[0].constants == {"ROWS": 4}
    assert capture(lambda: host(x), tuning=lambda configs: configs.index(4))[0].constants == {"ROWS": 4}
    found = capture(lambda: host(x), tuning="all")
    assert [(f.candidate, f.config, f.hints["occupancy"], f.grid[0]) for f in found] == [
        (True, 1, 1, 8),
        (True, 2, 2, 4),
        (True, 4, 4, 2),
        (False, None, 1, 8),
    ]


def test_a_configuration_that_cannot_be_described_is_skipped_as_the_tuner_does():
    x = torch.empty(8, 16, device="meta")
    found = capture(lambda: host(x, (1, 3000)), tuning="all")
    assert [f.config for f in found if f.candidate] == [1]
    with pytest.raises(TilegymRsError, match="empty list"):
        capture(lambda: host(x, ()))


def test_the_machine_asked_for_answers_and_everything_is_put_back():
    before = {name: getattr(torch.cuda, name) for name in PATCHED}
    names = (launch, ct.launch, exhaustive_search, torch.Tensor.cuda)
    seen = {}

    def ask():
        seen["capability"] = torch.cuda.get_device_capability("cuda")
        seen["sms"] = torch.cuda.get_device_properties("cuda").multi_processor_count
        seen["device"] = (torch.empty(3, device="cuda").device.type, torch.empty(3).cuda().device.type)
        seen["to"] = torch.empty(2).to("cuda:0").device.type
        with ct.compiler_timeout(5):
            seen["available"] = torch.cuda.is_available()

    assert capture(ask, "sm_100") == []
    assert seen == {"capability": (10, 0), "sms": 148, "device": ("meta", "cpu"), "to": "meta", "available": True}
    capture(ask, "sm_90", sm_count=7, device="cpu")
    assert (seen["capability"], seen["sms"], seen["device"][0]) == ((9, 0), 7, "cpu")
    assert {name: getattr(torch.cuda, name) for name in PATCHED} == before
    assert "cuda" not in vars(torch.Tensor)
    assert names == (launch, ct.launch, exhaustive_search, torch.Tensor.cuda)


def test_an_error_in_the_host_program_comes_through_and_restores():
    before = torch.cuda.is_available
    with pytest.raises(ZeroDivisionError):
        capture(lambda: 1 / 0)
    assert torch.cuda.is_available is before


def test_other_threads_see_the_real_machine():
    inside, done = threading.Event(), threading.Event()
    other = {}

    def work():
        inside.wait(10)
        other["available"] = torch.cuda.is_available()
        other["device"] = torch.empty(1, device="cpu").device.type
        done.set()

    real = torch.cuda.is_available()
    thread = threading.Thread(target=work)
    thread.start()

    def pause():
        assert torch.cuda.is_available()
        inside.set()
        assert done.wait(10)

    capture(pause)
    thread.join()
    assert other == {"available": real, "device": "cpu"}


def test_threads_may_capture_at_the_same_time():
    before = torch.cuda.get_device_properties
    wrong = []

    def work(sms):
        for _ in range(20):
            seen = []
            capture(lambda: seen.append(torch.cuda.get_device_properties(0).multi_processor_count), sm_count=sms)  # noqa: B023
            if seen != [sms]:
                wrong.append((sms, seen))

    threads = [threading.Thread(target=work, args=(sms,)) for sms in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert torch.cuda.get_device_properties is before


def test_a_capture_beside_somebody_who_answers_less_has_all_its_answers():
    inside, done = threading.Event(), threading.Event()
    asked = []

    def work():
        with capturing.patches.active({"launch": lambda *_: asked.append("launch")}):
            asked.append(torch.cuda.is_available())  # not answered here, so torch is asked
            inside.set()
            assert done.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(30)
    found = []
    capture(lambda: found.append(torch.cuda.get_device_capability()), "sm_120")
    done.set()
    thread.join()
    assert found == [(12, 0)]
    assert asked == [torch.cuda.is_available()]


def test_captures_cannot_be_nested():
    with pytest.raises(TilegymRsError, match="cannot be nested"):
        capture(lambda: capture(lambda: None))
    assert capture(lambda: None) == []


def test_a_launch_that_fits_no_kernel_is_an_error():
    with pytest.raises(TilegymRsError, match=r"copy_rows takes 3 arguments \(x, out, ROWS\), the launch gave 1"):
        capture(lambda: ct.launch(None, (1,), copy_rows, (1,)))
    with pytest.raises(TilegymRsError, match="one to three axes"):
        capture(lambda: ct.launch(None, (1, 1, 1, 1), copy_rows, (1, 2, 3)))


def test_unknown_machines_are_refused_by_name():
    with pytest.raises(TilegymRsError, match="no GPU architecture"):
        machine("hopper")
    with pytest.raises(TilegymRsError, match="number of SMs of sm_77"):
        machine("sm_77")
    assert machine("sm_77", 5).sm_count == 5
    assert machine("sm_90a").arch == "sm_90"


def test_another_cuda_tile_is_refused_with_the_tested_version(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9.9")
    with pytest.raises(ToolchainError, match=r"cuda-tile 9\.9\.9 .* pip install cuda-tile==1\.7\.0"):
        capturing.check_cuda_tile()

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ToolchainError, match="not installed"):
        capture(lambda: None)
