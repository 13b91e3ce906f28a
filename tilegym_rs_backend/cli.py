# SPDX-License-Identifier: MIT
"""The ``tilegym-rs`` command. A verb is a module of ``commands/``: drop a file there and it is one."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

from . import commands
from .errors import TilegymRsError


def verbs() -> list[str]:
    """Return the verbs: the modules of ``commands/``, ``explain_rebuild`` written ``explain-rebuild``."""
    return sorted(each.name.replace("_", "-") for each in pkgutil.iter_modules(commands.__path__))


def _module(verb: str) -> commands.Command:
    module: commands.Command = importlib.import_module(f"{commands.__name__}.{verb.replace('-', '_')}")
    return module


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the argument parser; with ``only``, the one verb it names is imported and not all of them."""
    from . import __version__

    main_parser = argparse.ArgumentParser(prog="tilegym-rs", description="Rust (cutile-rs) backend for NVIDIA TileGym.")
    main_parser.add_argument("--version", action="version", version=f"tilegym-rs {__version__}")
    main_parser.add_argument("--debug", action="store_true", help="show a traceback with an error")
    subparsers = main_parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for verb in [only] if only in verbs() else verbs():
        module = _module(verb)
        sub = subparsers.add_parser(verb, help=module.HELP, description=module.__doc__)
        module.configure(sub)
        sub.set_defaults(run=module.run)
    return main_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit status: the verb's own, 2 for an error of ours or of usage, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    verb = next((word for word in words if not word.startswith("-")), None)
    options = parser(verb).parse_args(words)
    try:
        code = int(options.run(options))
        sys.stdout.flush()  # here, where a reader that left can be told from a fault
        return code
    except TilegymRsError as error:
        if options.debug:
            raise
        print(f"tilegym-rs {options.verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tilegym-rs {options.verb}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:  # a file or folder that the words name: not there, not allowed, no space left
        if options.debug:
            raise
        print(f"tilegym-rs {options.verb}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
