"""`python -m segue.sim.cloud`: the cloud simulator in the foreground."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from segue.domain.errors import SegueError
from segue.sim.cloud.command import announce, run_cloud


def main(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="segue.sim.cloud", description="Cursor Cloud Agents on loopback")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--repo", action="append", default=[], metavar="URL=PATH", help="may be given often")
    parser.add_argument("--script", type=Path, metavar="FILE", help="TOML or JSON")
    options = parser.parse_args(arguments)
    try:
        run_cloud(options.port, options.repo, options.script, announce)
    except SegueError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
