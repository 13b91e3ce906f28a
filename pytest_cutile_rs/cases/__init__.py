# SPDX-License-Identifier: MIT
"""One file per op: inputs, dtypes, shapes, reference, tolerances, policies, as data."""
