# SPDX-License-Identifier: MIT
from __future__ import annotations

import sys
from pathlib import Path

# Kernels shared by several test files of this folder.
sys.path.insert(0, str(Path(__file__).parent))
