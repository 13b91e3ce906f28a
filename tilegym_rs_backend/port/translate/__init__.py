# SPDX-License-Identifier: MIT
"""cuTile Python kernel -> cutile-rs source, mechanically, from the front end's typed IR.

``translate(launch)`` gives the Rust text of a captured launch's kernel, or raises ``Refused`` naming the Python line of
the construct that has no Rust form. The text is meant to be read, and to compile to the machine code of the original.
"""

from __future__ import annotations

from tilegym_rs_backend.port.translate.refuse import Refused
from tilegym_rs_backend.port.translate.translate import translate
from tilegym_rs_backend.port.translate.translation import Translation

__all__ = ["Refused", "Translation", "translate"]
