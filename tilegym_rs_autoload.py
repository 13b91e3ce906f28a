# SPDX-License-Identifier: MIT
"""Makes a bare `import tilegym` know the backend `cutile_rs`; torch runs `install` at the end of `import torch`.

A failing entry point breaks `import torch` for the whole environment. So this module uses the standard library alone,
its whole work is inside try/except, and it imports neither torch nor tilegym: it puts a finder in front that acts when
TileGym's own modules are loaded.
"""

import sys
from types import ModuleType
from typing import Any

WATCHED = (
    "tilegym.backend.selector",
    "tilegym.backend.dispatcher",
    "tilegym.ops.moe_interface",
    "torch._dynamo.trace_rules",
)


class _Loader:
    """The module's own loader, with a call to the registration after the module's body ran."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loader, attribute)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        registration = _registration()
        if registration is None:
            self._loader.exec_module(module)
            return
        with registration.while_loading(self._name):
            self._loader.exec_module(module)
        try:
            registration.after_loading(self._name, module)
        except Exception as error:
            _complain(error)


class _Finder:
    """Finds nothing itself: asks the other finders and wraps what they found for the watched names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in WATCHED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, fullname)
                return spec
        return None


def install() -> None:
    """Install the finder once; never raises."""
    try:
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    except Exception as error:
        _complain(error)


def _registration() -> Any:
    try:
        from tilegym_rs_backend import registration

        return registration
    except Exception as error:
        _complain(error)
        return None


def _complain(error: Exception) -> None:
    try:
        import warnings

        warnings.warn(
            f"tilegym-rs could not register the backend 'cutile_rs': {type(error).__name__}: {error}. "
            "Run `tilegym-rs doctor`.",
            RuntimeWarning,
            stacklevel=3,
        )
    except Exception:
        # warnings turned into errors must not break `import torch` either
        pass
