# SPDX-License-Identifier: MIT
"""Find or install what the backend needs from outside: directories, CUDA toolkit, cargo, cc, libclang.

Everything in this package imports with the standard library alone, because ``make parity`` runs it from a bare Python.
"""
