"""The entry point: `segue`, `python -m segue`, and the two children a one-file build starts from itself."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end with its exit code."""
    if len(sys.argv) > 1 and sys.argv[1] == "--segue-supervisor":
        from segue.system import supervisor

        sys.exit(supervisor.main(sys.argv[2:]))
    if len(sys.argv) > 1 and sys.argv[1] == "--segue-scripted":
        from segue.agents import scripted_child

        sys.exit(scripted_child.main())
    from segue.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
