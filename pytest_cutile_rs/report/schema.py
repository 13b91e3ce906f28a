# SPDX-License-Identifier: MIT
"""JSON Schema of ``summary.json``, the one source of every other format, and of docs/reports.md's reference."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.report.model import SCHEMA_NAME
from pytest_cutile_rs.report.model import SCHEMA_VERSION
from pytest_cutile_rs.result import SEVERITY

_VERDICT = "^VERDICT: (PASS|FAIL|NOT-RUN)"


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _object(description: str, properties: dict[str, Any] | None = None, *, optional: tuple[str, ...] = ()) -> Any:
    """An object whose named properties are required, but for the optional ones."""
    found: dict[str, Any] = {"type": "object", "description": description}
    if properties is not None:
        found["properties"] = properties
        found["required"] = [name for name in properties if name not in optional]
    return found


def _list(description: str, items: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "array", "description": description, **({"items": items} if items else {})}


def _number(description: str, *kinds: str) -> dict[str, Any]:
    return {"type": [*(kinds or ("number",))], "description": description}


_RUN = _object(
    "Which run this is.",
    {
        "id": _text("Of this run alone; eight hexadecimal digits."),
        "shard": _text("Part i of n, as `i/n`; `1/1` is all of it.", pattern=r"^\d+/\d+$"),
        "seed": {"type": "integer", "description": "Of inputs, measurement order and statistics."},
        "threshold": _number("Lowest accepted t_cutile_python / t_cutile_rs."),
        "thresholds": _object("Those of ops that have their own."),
        "ambiguous": _text("What an AMBIGUOUS case means: `xfail`, `fail` or `pass`."),
        "timer": _text("The clock that was asked for."),
        "protocol": _number("The protocol reported beside the gate's.", "string", "null"),
        "self_check": {"type": "integer", "description": "Equal pairs to be measured for the noise floor."},
        "merged_from": _list("Ids of the runs that `report merge` joined.", {"type": "string"}),
    },
    optional=("merged_from",),
)

_MACHINE = _object(
    "Python, platform, packages, GPUs, arch, and what both sides and the timer say; three facts stand out:",
    {
        "library_build_id": _number("Of the Rust library; null when none was loaded.", "string", "null"),
        "driver": _number("The GPU driver's version.", "string", "null"),
        "gpu": _number("The GPU's model. Merge asks for all three to be equal.", "string", "null"),
    },
)

_OP_VERDICT = _object(
    "The verdict on an op's measured cases together; waived ones are counted and left out of the mean.",
    {
        "op": _text("TileGym's name of the op."),
        "verdict": {"enum": list(SEVERITY), "description": "The worst case's, or that of the mean's interval."},
        "reason": _text("A reason code, see docs/measurement.md."),
        "text": _text("Both in words."),
        "counts": _object("The number of cases by status."),
        "threshold": _number("What it was judged by."),
        "geomean": _number("Geometric mean of the cases' ratios; `low` and `high` are its interval.", "number", "null"),
        "worst": _text("The case that decided."),
    },
    optional=("threshold", "geomean", "worst"),
)

_FLOOR = {
    "type": ["object", "null"],
    "description": "How far two equal sides come apart: `relative`, and the `measured` pairs; null: not measured.",
}

_WAIVER = _object(
    "A waiver of the project.",
    {
        "op": _text("Its op."),
        "case": _text("A pattern over case ids."),
        "threshold": {"type": ["number", "string"], "description": "The ratio still asked for, or `any`."},
        "reason": _text("Why."),
        "expires": _text("Its last day."),
        "used": _list("Ids of the cases that it saved.", {"type": "string"}),
        "note": _text("Why it saved none."),
    },
)

_GROUP = _object(
    "One op in one dtype.",
    {
        "op": _text("TileGym's name of the op."),
        "dtype": _text("Short name, as `f16`."),
        "variants": _list(
            "What ran on our side, as far as a check tells: `native`, `ported`; `peer only`: no Rust kernel yet.",
            {"type": "string"},
        ),
        "checks": _object("Per check, the number of results by status."),
        "ratio_geomean": _number("Geometric mean of `counted` over the measured cases.", "number", "null"),
        "ratio_min": _number("The lowest `counted` of them.", "number", "null"),
    },
)

_DIFFERENCE = _object(
    "One kind of difference between both sides' kernels.",
    {
        "check": _text("`ir` or `sass`."),
        "category": _text("Stable id: memory_family, tile_shape, reduction, mma, control, hint, arithmetic."),
        "count": {"type": "integer", "description": "Results that have it."},
        "example": _text("Id of one of them."),
        "text": _text("What differs there."),
    },
)

_RESULT = _object(
    "One check of one case.",
    {
        "check": {"enum": list(CHECKS), "description": "Which check."},
        "op": _text("TileGym's name of the op."),
        "case": _text("The case's id, unique within the op; a forced variant is part of it.", pattern=r"^[\w.\-]+$"),
        "dtype": _text("Of the case."),
        "size": {"enum": ["cpu", "gpu", ""], "description": "Whether a CPU can execute the case; empty: not asked."},
        "status": {"enum": list(SEVERITY), "description": "The outcome; listed worst first."},
        "reason": _text("Why, in one line; for a PASS what was shown."),
        "data": _object("Figures; see below."),
        "details": _text("The long message of a failure."),
        "verdict": _text("The check's last line.", pattern=_VERDICT),
        "id": _text("pytest's id; as an argument of pytest it runs this check again."),
        "seconds": _number("How long the check took."),
    },
)

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA_NAME,
    **_object(
        "One run of `pytest --cutile-rs`. What hooks add stands beside these properties.",
        {
            "schema": _object(
                "Name and version of this form; a reader refuses another version.",
                {
                    "name": {"const": SCHEMA_NAME, "description": "Always this."},
                    "version": {"const": SCHEMA_VERSION, "description": "Grows when a reader would misunderstand."},
                },
            ),
            "run": _RUN,
            "complete": {"type": "boolean", "description": "False when the run ended before all selected checks did."},
            "selected": {"type": "integer", "description": "How many checks were to be run."},
            "started": _text("UTC, as 2026-11-30T00:10:21Z.", pattern="Z$"),
            "finished": _text("UTC.", pattern="Z$"),
            "command": _list("pytest's arguments.", {"type": "string"}),
            "options": _object("The run's options by name, defaults included."),
            "machine": _MACHINE,
            "counts": _object("The number of results by status, those in `peer_only` left out."),
            "peer_only": _object("Of ops that have no Rust kernel: cuTile Python's side alone was judged. By status."),
            "ops": _list("Results by op and dtype, worst first.", _GROUP),
            "differences": _list("How the kernels differ, by check and category.", _DIFFERENCE),
            "tilegym_tests": {
                "type": ["object", "null"],
                "description": "TileGym's own tests: `passed`, `failed` (ids), `skipped` (count by reason).",
            },
            "results": _list("Every check that ended, by check and id.", _RESULT),
            "noise_floor": _FLOOR,
            "waivers": _list("The project's waivers, used or not.", _WAIVER),
            "protocol": {
                "type": ["object", "null"],
                "description": "TileGym's published protocol over the run, beside the gate's; null: not asked for.",
            },
            "op_verdicts": _list("The gate's verdict on every measured op.", _OP_VERDICT),
            "verdict": _text("The run's last line.", pattern=_VERDICT),
        },
    ),
}
