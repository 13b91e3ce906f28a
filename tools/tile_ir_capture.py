# SPDX-License-Identifier: MIT
"""Write the bytecode of what TileGym's ops launch, tuner candidates included.

    python tools/tile_ir_capture.py DIR [--dtypes float16,bfloat16] [--only softmax_tma ...] [--format 13.3]

Files are named ``<program>-<dtype>-<format>-<hash>.bc``. No GPU is needed. The programs are those of
tools/tilegym_launches.py.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

import tilegym_launches


def capture(folder: Path, dtypes: Iterable[str], only: Iterable[str], per_program: int, version: str) -> int:
    """Write at most ``per_program`` builds of each program and dtype; say what could not be built."""
    import torch

    from tilegym_rs_backend.port import capture as port

    folder.mkdir(parents=True, exist_ok=True)
    port.import_tilegym().set_backend("cutile")
    wanted = set(only)
    for dtype in dtypes:
        for name, program in tilegym_launches.programs(dtype).items():
            if wanted and name not in wanted:
                continue
            try:
                with torch.no_grad():
                    launches = port.capture(program, "sm_90", tuning="all")
            except Exception as error:  # an op that does not take this dtype: the next one
                print(f"{name} {dtype}: not launched: {type(error).__name__}: {str(error)[:120]}")
                continue
            written = set()
            for launch in launches[:per_program]:
                try:
                    data = port.bytecode(launch, version=version)
                except Exception as error:
                    print(f"{name} {dtype}: {launch.name}: {str(error)[:160]}")
                    continue
                key = hashlib.sha256(data).hexdigest()[:12]
                (folder / f"{name}-{dtype}-{version}-{key}.bc").write_bytes(data)
                written.add(key)
            print(f"{name} {dtype}: {len(written)} builds of {len(launches)} launches", flush=True)
    return 0


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtypes", default="float16,bfloat16,float32")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--per-program", type=int, default=12)
    parser.add_argument("--format", default="13.4", help="bytecode version, 13.1 to 13.4")
    options = parser.parse_args()
    return capture(options.folder, options.dtypes.split(","), options.only, options.per_program, options.format)


if __name__ == "__main__":
    sys.exit(main())
