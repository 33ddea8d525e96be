"""The entry point: `segue`, `python -m segue`, and the children that a one-file build starts from itself."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end with its exit code."""
    from segue.system.programs import CHILD, settle

    if sys.argv[1:2] == [CHILD] and sys.argv[2].startswith("segue."):
        import importlib

        module, _, name = sys.argv[2].partition(":")
        sys.exit(getattr(importlib.import_module(module), name or "main")(sys.argv[3:]))
    settle()
    import gc

    # What is imported stays: looking for garbage among it, while importing or at the end, finds nothing.
    # It is about 60,000 objects when the first agent of a run starts.
    gc.set_threshold(100_000, 10, 10)
    from segue.cli.main import run

    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
