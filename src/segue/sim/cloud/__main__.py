"""`python -m segue.sim.cloud`: the cloud simulator in the foreground."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from segue.domain.errors import SegueError
from segue.sim.services import run_cloud


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="segue.sim.cloud", description="Cursor Cloud Agents on loopback")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--repo", action="append", default=[], metavar="URL=PATH", help="may be repeated")
    parser.add_argument("--script", type=Path, metavar="FILE", help="TOML or JSON")
    options = parser.parse_args(arguments)
    try:
        run_cloud(options.port, options.repo, options.script, _report)
    except SegueError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


def _report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
