# SPDX-License-Identifier: MIT
"""Registers the backend `cutile_rs` with TileGym: the only file that touches TileGym's selector and dispatcher.

TileGym 1.5.1 has no plugin hook. Two public functions carry the work: `get_available_backends()` returns the live set
of names, and `register_impl` stores an implementation. Every op TileGym dispatches gets an entry of ours, so that
TileGym never answers for `cutile_rs` with another backend: one without a Rust implementation raises
NotImplementedError.
TileGym's own backend `cutile-rs` (hyphen) is left alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .errors import LaunchError
from .errors import ToolchainError

BACKEND = "cutile_rs"
VARIANTS = ("auto", "native", "ported")
_VARIANT = "TILEGYM_RS_VARIANT"
_FALLBACK = "DISABLE_FALLBACK"
_SELECTOR = "tilegym.backend.selector"
_DISPATCHER = "tilegym.backend.dispatcher"
_DYNAMO_RULES = "torch._dynamo.trace_rules"
_MOE = "tilegym.ops.moe_interface"
_CHOICE = "CUTILE_TUTORIALS_BACKEND"


@contextlib.contextmanager
def while_loading(name: str) -> Iterator[None]:
    """Hide our name in CUTILE_TUTORIALS_BACKEND while TileGym's selector loads: it refuses names it does not know."""
    chosen = os.environ.get(_CHOICE) if name == _SELECTOR else None
    if chosen != BACKEND:
        yield
        return
    del os.environ[_CHOICE]
    try:
        yield
    finally:
        os.environ[_CHOICE] = chosen


def after_loading(name: str, module: ModuleType) -> None:
    """Add the backend to a module whose body has just run, if it is one of those that are joined."""
    join = _JOINS.get(name)
    if join is not None:
        join(module)


def register() -> None:
    """Register with a TileGym that is loaded already, or as soon as it is loaded.

    Needed where torch's autoload is off (TORCH_DEVICE_BACKEND_AUTOLOAD=0); harmless elsewhere.
    """
    import tilegym_rs_autoload

    tilegym_rs_autoload.install()
    for name, join in _JOINS.items():
        module = _loaded(name)
        if module is not None:
            join(module)


def _loaded(name: str) -> ModuleType | None:
    """Return a module whose body has run to its end; one that is still loading is the finder's to treat."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


@functools.cache
def native_ops() -> tuple[str, ...]:
    """Return the names of the ops with a native Rust implementation, sorted."""
    import pkgutil

    from . import ops

    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(ops.__path__) if not module.name.startswith("_"))
    )


def variant() -> str:
    """Return which kind of kernel is wanted (TILEGYM_RS_VARIANT): ``"native"``, ``"ported"``, or ``"auto"``: the native
    one where there is one.

    Raises:
        LaunchError: another value.
    """
    wanted = os.environ.get(_VARIANT) or "auto"
    if wanted not in VARIANTS:
        raise LaunchError(f"{_VARIANT}={wanted!r}: it is one of {', '.join(VARIANTS)}, or unset", rc=-6)
    return wanted


def kind(op: str) -> str:
    """Return which kernels serve an op: ``"native"``, ``"ported"``, or ``""``: neither can here.

    Nothing is imported, translated or built for the answer.
    """
    wanted = variant()
    if op in native_ops() and wanted != "ported":
        return "native"
    if wanted == "native":
        return ""
    from .port.installed import check_cuda_tile

    try:
        check_cuda_tile()
    except ToolchainError:
        return ""
    return "ported"


def implementation(op: str) -> Callable[..., Any]:
    """Return our implementation of a TileGym op: native kernels, or TileGym's own wrapper over translated ones.

    Raises:
        NotImplementedError: there is none of the wanted variant; the message names op, backend and what to do.
    """
    wanted = variant()
    if op in native_ops() and wanted != "ported":
        module = importlib.import_module(f".ops.{op}", __package__)
        found: Callable[..., Any] = getattr(module, op)
        return found
    advice = "Use tilegym.set_backend('cutile') for this op, or pass backend='cutile' in the call."
    if wanted == "native":
        raise NotImplementedError(
            f"{op} has no native implementation in backend {BACKEND!r}, and {_VARIANT}=native; native are: "
            f"{', '.join(native_ops())}. Unset it to have cuTile Python's kernels translated to Rust. {advice}"
        )
    from .port import redirected

    try:
        return redirected.implementation(op)
    except (ToolchainError, ImportError) as error:
        raise NotImplementedError(
            f"{op} has no native implementation in backend {BACKEND!r} (native are: {', '.join(native_ops())}), and "
            f"cuTile Python's kernels cannot be translated here: {error} {advice}"
        ) from error


@contextlib.contextmanager
def only(wanted: str) -> Iterator[None]:
    """Let kernels of one variant alone answer, for the block: no other variant's, and no other backend's."""
    dispatcher = sys.modules[_DISPATCHER]
    before = {name: os.environ.get(name) for name in (_VARIANT, _FALLBACK)}
    answering = {op: registry[BACKEND] for op, registry in dispatcher._REGISTRY.items() if BACKEND in registry}
    os.environ.update({_VARIANT: wanted, _FALLBACK: "1"})
    try:
        for op in answering:
            del dispatcher._REGISTRY[op][BACKEND]
            _register(dispatcher, op)
        yield
    finally:
        for op, found in answering.items():
            dispatcher._REGISTRY[op][BACKEND] = found
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _join_selector(selector: ModuleType) -> None:
    if BACKEND in selector._AVAILABLE_BACKENDS:
        return
    selector._AVAILABLE_BACKENDS.add(BACKEND)
    if os.environ.get(_CHOICE) == BACKEND:
        selector.set_backend(BACKEND)


def _join_dispatcher(dispatcher: ModuleType) -> None:
    """Give every op that is dispatched, now or later, an implementation of ours."""
    if hasattr(dispatcher.dispatch, "_tilegym_rs"):
        return
    for op in list(dispatcher._REGISTRY):
        _register(dispatcher, op)
    original = dispatcher.dispatch

    @functools.wraps(original)
    def dispatch(name: str, *args: Any, **kwargs: Any) -> Any:
        decorator = original(name, *args, **kwargs)

        def decorate(default_impl: Callable[..., Any]) -> Any:
            wrapper = decorator(default_impl)
            _register(dispatcher, name)
            return wrapper

        return decorate

    dispatch._tilegym_rs = True  # type: ignore[attr-defined]
    dispatcher.dispatch = dispatch  # type: ignore[attr-defined]
    # `tilegym.backend`, if loaded, has bound the old function by name, and suites imported later take it from there.
    package = sys.modules.get("tilegym.backend")
    if package is not None and hasattr(package, "dispatch"):
        package.dispatch = dispatch  # type: ignore[attr-defined]


def _register(dispatcher: ModuleType, op: str) -> None:
    registry = dispatcher._REGISTRY.setdefault(op, {})
    if BACKEND in registry:
        return

    def first_call(*args: Any, **kwargs: Any) -> Any:
        found = implementation(op)
        registry[BACKEND] = found  # from now on TileGym calls it directly
        return found(*args, **kwargs)

    first_call.__name__ = op
    first_call.__qualname__ = op
    dispatcher.register_impl(op, backend=BACKEND)(first_call)


def _keep_dynamo_out(rules: ModuleType) -> None:
    """Let torch.compile run our functions as they are: their launches go through cffi, which it cannot trace.

    TileGym's dispatcher logs on every call, at which torch.compile breaks the graph anyway. Telling Dynamo to ignore
    the logger's methods (`ignore_logger_methods`) was tried: torch 2.11 then fails to copy and store its configuration.
    """
    rules.add(__package__)


def _answer_as_cutile(moe: ModuleType) -> None:
    """Let ``fused_moe`` take us for cuTile: it knows backends by name, and chooses tile sizes by it.

    Our ops take the sizes that cuTile's take; for a name that it does not know it has none.
    """
    original = moe.get_current_backend
    if hasattr(original, "_tilegym_rs"):
        return

    @functools.wraps(original)
    def get_current_backend() -> str:
        found: str = original()
        return "cutile" if found == BACKEND else found

    get_current_backend._tilegym_rs = True  # type: ignore[attr-defined]
    moe.get_current_backend = get_current_backend  # type: ignore[attr-defined]


_JOINS: dict[str, Callable[[ModuleType], None]] = {
    _SELECTOR: _join_selector,
    _DISPATCHER: _join_dispatcher,
    _DYNAMO_RULES: _keep_dynamo_out,
    _MOE: _answer_as_cutile,
}
"""Which function joins which module of TileGym's or torch's; joining twice is joining once."""

__all__ = ["BACKEND", "after_loading", "implementation", "native_ops", "only", "register", "while_loading"]
