# SPDX-License-Identifier: MIT
"""A redirected launch: whom it is given to, when it goes by a plan, and how little Python lies in between."""

from __future__ import annotations

import gc
import re
import sys
import weakref
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")

from tilegym_rs_backend.errors import LaunchError  # noqa: E402
from tilegym_rs_backend.port import intercept  # noqa: E402
from tilegym_rs_backend.port import planned as planning  # noqa: E402
from tilegym_rs_backend.port import redirect as module  # noqa: E402
from tilegym_rs_backend.port.entries import Entry  # noqa: E402
from tilegym_rs_backend.port.signature import signature  # noqa: E402
from tilegym_rs_backend.port.twin import options_key  # noqa: E402
from tilegym_rs_backend.port.twin import twin_of  # noqa: E402

MOST_CALLS = 1
"""Python functions per known launch: the one in ct.launch's place."""
ARGUMENTS = (("tensor", 0, 0), ("tensor", 1, 0), ("scalar", 2, 0), ("scalar", 3, 0))
PARAMETERS = [
    {"name": "out", "kind": "tensor", "rank": 2},
    {"name": "x", "kind": "tensor", "rank": 2},
    {"name": "n", "kind": "scalar", "type": "i32"},
    {"name": "eps", "kind": "scalar", "type": "f32"},
]
SIZES = (8, 4, 4, 4, 4) * 2 + (4, 4)


@pytest.fixture
def kernel():
    @ct.kernel(occupancy=2)
    def found(out, x, n: int, eps: float, BLOCK: ct.Constant[int]):
        pass

    return found


class World:
    """Translations, the stores, and a launcher as cuTile Python's: it asks a twin for what it has not seen."""

    def __init__(self) -> None:
        self.entry_of = Entry("found", ARGUMENTS, {})
        self.sizes = SIZES
        self.translated: list[object] = []
        self.handed: list[tuple[object, ...]] = []
        self.launched: list[tuple[object, ...]] = []
        self.planned: list[tuple[object, tuple[int, ...]]] = []
        self._has: set[object] = set()

    def entry(self, launch):
        self.translated.append(launch)
        return self.entry_of

    def recorded(self, launch, entry):
        library = SimpleNamespace(kernel=lambda name: {"params": PARAMETERS})
        return SimpleNamespace(library=library, token=len(self.translated), spec_text="found [..]")

    def bound(self, launch, target):
        return (lambda *pointers: self.planned.append((launch, pointers))), (1, 0)

    def launcher(self, stream, grid, twin, args, **options):
        facts = signature(module.described(self.kernel, grid, args, "sm_90"))
        key = (twin, repr(facts.parameters))
        if key not in self._has:
            self.handed.append(twin._compile(facts, None, (9, 0)))
            self._has.add(key)
        self.launched.append((stream, grid, args, options))


@pytest.fixture
def world(monkeypatch, kernel):
    found = World()
    found.kernel = kernel

    def read(image):
        return SimpleNamespace(only=lambda: SimpleNamespace(symbol="found_entry", parameters=found.sizes))

    monkeypatch.setattr(module, "launcher", lambda: found.launcher)
    monkeypatch.setattr(module, "read_cubin", read)
    monkeypatch.setattr(module.artifacts, "cubin", lambda library, token, arch: f"{arch} {token}".encode())
    monkeypatch.setattr(planning, "target_of_device", lambda index: SimpleNamespace(arch="sm_90"))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.delenv("TILEGYM_RS_ARCH", raising=False)
    return found


def arguments(*, n=3, eps=0.5, rows=4, offset=0, dtype=torch.float32):
    x = torch.zeros(rows * 8 + offset, dtype=dtype)[offset:].view(rows, 8)
    return torch.empty_like(x), x, n, eps, 64


def test_a_launch_is_the_launchers_and_its_code_is_asked_for_once(world, kernel):
    redirect = module.Redirect(world)
    args = arguments()
    for _ in range(3):
        redirect.launch("stream", (4, 1, 1), kernel, args)
    redirect.launch("other", (5,), kernel, args, programmatic_dependent_launch=True)
    assert world.launched == [("stream", (4, 1, 1), args, {})] * 3 + [
        ("other", (5,), args, {"programmatic_dependent_launch": True})
    ]
    assert world.handed == [(b"sm_90 1", "found_entry", None, ())]
    assert world.planned == []


def test_a_function_and_its_twins_can_be_forgotten(world):
    @ct.kernel
    def short_lived(out, x, n: int, eps: float, BLOCK: ct.Constant[int]):
        pass

    gone = weakref.ref(short_lived._annotated_function.pyfunc)
    world.kernel = short_lived
    module.Redirect(world).launch(None, (1,), short_lived, arguments())
    assert short_lived._tilegym_rs_twin is twin_of(short_lived)
    world.kernel = None
    world.translated.clear()
    del short_lived
    gc.collect()
    assert gone() is None


WRONG = {
    "words in another order": {"entry_of": Entry("found", (ARGUMENTS[1], ARGUMENTS[0], *ARGUMENTS[2:]), {})},
    "a scalar that is another's": {"entry_of": Entry("found", (*ARGUMENTS[:3], ("scalar", 2, 0)), {})},
    "a parameter too few in the machine code": {"sizes": SIZES[:-1]},
    "a parameter of another size": {"sizes": (*SIZES[:-1], 8)},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_code_that_takes_other_words_goes_by_a_plan(world, kernel, wrong):
    vars(world).update(wrong)
    redirect = module.Redirect(world)
    args = arguments()
    for _ in range(2):
        redirect.launch(None, (4,), kernel, args)
    assert (world.handed, world.launched) == ([], [])
    assert [pointers for _, pointers in world.planned] == [(args[1].data_ptr(), args[0].data_ptr())] * 2
    assert len(world.translated) == 1  # that it does not fit is found out once
    assert not hasattr(kernel, "_tilegym_rs_twin")


def test_a_launcher_that_sees_other_facts_than_our_key_goes_by_a_plan(world, kernel, monkeypatch):
    monkeypatch.setattr(module, "signature", lambda launch: signature(launch, singleton_extents=False))
    redirect = module.Redirect(world)
    redirect.launch(None, (4,), kernel, arguments(rows=1))
    assert len(world.planned) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"grid": (5, 1, 1)},
        {"grid": (4,)},
        {"n": 4},
        {"n": 3.0},
        {"n": True},
        {"eps": 0.25},
        {"rows": 5},
        {"offset": 1},
        {"dtype": torch.float16},
        {"occupancy": 4},
    ],
    ids=lambda other: "=".join(map(str, next(iter(other.items())))),
)
def test_what_decides_a_plan_is_in_its_key(world, kernel, other):
    made = []
    world.bound = lambda launch, target: (made.append(launch) or (lambda *_: None), (1, 0))
    planned = planning.Planned(world)
    planned.launch((4, 1, 1), kernel, arguments(n=1 if other.get("n") is True else 3))
    which = kernel.replace_hints(occupancy=other.pop("occupancy")) if "occupancy" in other else kernel
    grid = other.pop("grid", (4, 1, 1))
    for _ in range(2):
        planned.launch(grid, which, arguments(**other))
    assert len(made) == 2


def test_a_planned_list_goes_as_a_table_that_lives_until_the_launch(world):
    @ct.kernel
    def adds(xs, out, n: int, eps: float, BLOCK: ct.Constant[int]):
        pass

    seen = []
    planned = planning.Planned(world)
    world.bound = lambda *_: ((lambda out, table: seen.append((table % 16, read_words(table, 10)))), (1, 0))
    tensors, out = [torch.zeros(2, 8), torch.zeros(3, 8)], torch.zeros(8)
    planned.launch((1,), adds, (tensors, out, 3, 0.5, 64))
    assert seen == [(8, [word for t in tensors for word in (t.data_ptr(), *t.shape, *t.stride())])]


def read_words(address, count):
    import ctypes

    return list((ctypes.c_int64 * count).from_address(address))


def test_options_that_differ_by_target_have_a_key():
    @ct.kernel(occupancy=ct.ByTarget(sm_90=2, default=1))
    def one(x):
        pass

    @ct.kernel(occupancy=ct.ByTarget(sm_90=4, default=1))
    def other(x):
        pass

    assert len({options_key(one), options_key(one), options_key(other)}) == 2


def test_a_candidate_that_the_launcher_does_not_take_has_failed(world, kernel, monkeypatch):
    def refuses(*_):
        raise ValueError("Grid[1] is too big")

    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    candidate = module._Candidate(7, lambda config: (1, 1 << 20), kernel, lambda config: arguments(), None)
    redirect = module.Redirect(world)
    candidate.launch(redirect)
    redirect.direct = refuses
    with pytest.raises(LaunchError, match=re.escape("configuration 7: Grid[1] is too big")):
        candidate.launch(redirect)


def test_little_python_lies_between_an_op_and_the_launcher(world, kernel):
    redirect = module.Redirect(world)
    intercept.install()
    args = arguments()
    entered = []

    def op():
        ct.launch(None, (4, 1, 1), kernel, args)
        redirect.direct = "".format  # in C, as the launcher is
        sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
        try:
            ct.launch(None, (4, 1, 1), kernel, args)
        finally:
            sys.setprofile(None)

    intercept.answered(redirect, op, (), {})
    assert len(world.launched) == 1
    assert len(entered) <= MOST_CALLS, entered
