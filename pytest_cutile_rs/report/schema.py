# SPDX-License-Identifier: MIT
"""JSON Schema of ``summary.json``."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.report.model import SCHEMA_NAME
from pytest_cutile_rs.report.model import SCHEMA_VERSION
from pytest_cutile_rs.result import SEVERITY

_RESULT: dict[str, Any] = {
    "type": "object",
    "required": [
        "check",
        "op",
        "case",
        "dtype",
        "status",
        "reason",
        "data",
        "details",
        "size",
        "verdict",
        "id",
        "seconds",
    ],
    "properties": {
        "check": {"enum": list(CHECKS)},
        "op": {"type": "string"},
        "case": {"type": "string", "pattern": r"^[\w.\-]+$"},
        "dtype": {"type": "string"},
        "status": {"enum": list(SEVERITY)},
        "reason": {"type": "string"},
        "data": {"type": "object"},
        "details": {"type": "string"},
        "verdict": {"type": "string", "pattern": "^VERDICT: (PASS|FAIL|NOT-RUN)"},
        "id": {"type": "string"},
        "seconds": {"type": "number"},
        "size": {"enum": ["cpu", "gpu", ""]},
    },
}

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA_NAME,
    "type": "object",
    "required": [
        "schema",
        "complete",
        "started",
        "finished",
        "command",
        "options",
        "machine",
        "counts",
        "peer_only",
        "ops",
        "differences",
        "tilegym_tests",
        "results",
        "verdict",
    ],
    "properties": {
        "schema": {
            "type": "object",
            "required": ["name", "version"],
            "properties": {"name": {"const": SCHEMA_NAME}, "version": {"const": SCHEMA_VERSION}},
        },
        "complete": {"type": "boolean"},
        "started": {"type": "string"},
        "finished": {"type": "string"},
        "command": {"type": "array"},
        "options": {"type": "object"},
        "machine": {"type": "object"},
        "counts": {"type": "object"},
        "peer_only": {"type": "object"},
        "ops": {"type": "array"},
        "differences": {"type": "array"},
        "tilegym_tests": {"type": ["object", "null"]},
        "results": {"type": "array", "items": _RESULT},
        "verdict": {"type": "string", "pattern": "^VERDICT: (PASS|FAIL|NOT-RUN)"},
    },
}
