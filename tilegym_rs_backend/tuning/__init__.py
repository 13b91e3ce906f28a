# SPDX-License-Identifier: MIT
"""The tuner's parts: spaces, machines, model, compiling, measuring, stores. `tilegym_rs_backend.tune` is the face."""
