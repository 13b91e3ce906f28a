# SPDX-License-Identifier: MIT
"""Launches are taken over for the block that asks for it, in every module that holds the launcher, and nowhere else."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

from tilegym_rs_backend.port import intercept  # noqa: E402


class Notes:
    """Answers that note what they were asked."""

    direct = None

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def launch(self, stream, grid, kernel, args):
        self.asked.append((threading.get_ident(), grid, args))
        return "answered"

    def exhaustive_search(self, search_space, stream, *args, **options):
        return search_space[0]

    def run(self, function, *args, **kwargs):
        return intercept.answered(self, function, args, kwargs)


@pytest.fixture
def module(monkeypatch):
    """A module of ops like TileGym's: it holds the launcher under its own name, and an autograd function."""
    found = ModuleType("tilegym_like_ops")
    source = """
import torch
from cuda.tile import launch
from cuda.tile.tune import exhaustive_search
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        launch(None, (1,), "forward", (x,))
        return 2 * x
    @staticmethod
    def backward(ctx, grad):
        launch(None, (1,), "backward", (grad,))
        return 2 * grad
"""
    exec(source, found.__dict__)
    monkeypatch.setitem(sys.modules, found.__name__, found)
    intercept.install()
    return found


def test_the_block_is_answered_and_nothing_else(module, monkeypatch):
    notes = Notes()

    def block():
        assert module.launch(None, (2,), "kernel", ()) == "answered"
        assert ct.launch(None, (3,), "kernel", ()) == "answered"
        assert module.exhaustive_search([7, 8], None) == 7
        Notes().run(module.launch, None, (4,), "kernel", ())
        module.launch(None, (5,), "kernel", ())

    notes.run(block)
    assert [grid for _, grid, _ in notes.asked] == [(2,), (3,), (5,)]
    with pytest.raises((TypeError, RuntimeError)):  # the original, which takes no such kernel
        module.launch(None, (1,), "kernel", ())
    assert len(notes.asked) == 3


def test_another_thread_is_not_answered(module):
    notes, raised = Notes(), []

    def other():
        try:
            module.launch(None, (1,), "kernel", ())
        except (TypeError, RuntimeError) as error:
            raised.append(error)

    def block():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    notes.run(block)
    assert notes.asked == []
    assert len(raised) == 1


def test_a_second_installation_changes_nothing(module):
    before = module.launch
    intercept.install()
    assert module.launch is before is ct.launch


def test_a_second_installation_in_a_capture_leaves_the_capture_in_front(module):
    """What an op returns is installed for when it is called, and that may be while somebody watches."""
    from pytest_cutile_rs.peers.observe import observing

    notes, before = Notes(), module.launch
    with observing("sm_90") as seen:
        intercept.install()
        assert notes.run(module.launch, None, (2,), "kernel", ()) == "answered"
        assert notes.run(ct.launch, None, (3,), "kernel", ()) == "answered"
    assert [launch["grid"] for launch in seen["launches"]] == ["(2,)", "(3,)"]
    assert [grid for _, grid, _ in notes.asked] == [(2,), (3,)]
    assert module.launch is before is ct.launch


def test_a_first_installation_in_a_capture_outlives_it(monkeypatch):
    from pytest_cutile_rs.peers.observe import observing

    def launch(stream, grid, kernel, args):
        return "original"

    monkeypatch.setattr(ct, "launch", launch)
    late = ModuleType("a_module_with_the_original")
    late.launch = launch
    monkeypatch.setitem(sys.modules, late.__name__, late)
    notes = Notes()
    with observing("sm_90") as seen:
        intercept.install()
        assert notes.run(ct.launch, None, (1,), "kernel", ()) == "answered"
        assert ct.launch(None, (2,), "kernel", ()) == "original"
    assert len(seen["launches"]) == 2
    assert notes.run(ct.launch, None, (3,), "kernel", ()) == "answered"
    assert notes.run(late.launch, None, (4,), "kernel", ()) == "answered"
    assert ct.launch(None, (5,), "kernel", ()) == "original"
    assert [grid for _, grid, _ in notes.asked] == [(1,), (3,), (4,)]


def test_a_backward_on_another_thread_is_answered_as_its_forward_was(module):
    notes = Notes()
    x = torch.ones(3, requires_grad=True)
    y = notes.run(module.Twice.apply, x)

    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert len(notes.asked) == 2
    assert notes.asked[0][0] != notes.asked[1][0]


def test_a_backward_of_a_forward_that_was_not_answered_is_not(module, monkeypatch):
    launched = []
    monkeypatch.setattr(module, "launch", lambda *args: launched.append(args[2]))
    notes = Notes()
    x = torch.ones(3, requires_grad=True)
    y = module.Twice.apply(x)
    notes.run(y.sum().backward)
    assert launched == ["forward", "backward"]
    assert notes.asked == []


def test_a_raising_block_leaves_no_answers(module):
    notes = Notes()
    with pytest.raises(ZeroDivisionError):
        notes.run(lambda: 1 // 0)
    with pytest.raises((TypeError, RuntimeError)):
        module.launch(None, (1,), "kernel", ())


def test_the_launcher_is_cutile_pythons_own_whatever_stands_in_its_place(module, monkeypatch):
    from tilegym_rs_backend.port.capture import capture

    found = [intercept.launcher()]
    capture(lambda: found.append(intercept.launcher()))
    monkeypatch.setattr(ct, "launch", lambda stream, grid, kernel, args, /: None)  # as TileGym does when it is imported
    found.append(intercept.launcher())
    assert all(one is found[0] for one in found)
    assert isinstance(found[0], type(len))
    assert found[0].__name__ == "launch"
    assert found[0] is not ct.launch
