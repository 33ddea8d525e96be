"""Print the locked packages of some extras with their hashes: `extra.py mcp,postgres`.

The lock file says of each package what needs it, so nothing is asked of an index.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def list_locked(extras: list[str]) -> str:
    """Return the entries of the lock file that these extras need."""
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    if unknown := set(extras) - set(offered):
        sys.exit(f"Unknown extra: {', '.join(sorted(unknown))}. There are: {', '.join(sorted(offered))}.")
    entries = {
        entry.partition("==")[0]: entry
        for entry in re.split(r"\n(?=\w)", (ROOT / "requirements" / "dev.txt").read_text("utf-8").strip())
    }
    wanted = {re.split(r"[^\w-]", need)[0] for extra in extras for need in offered[extra]}
    found: set[str] = set()
    while found != wanted:
        found = set(wanted)
        for name, entry in entries.items():
            _, _, needed_by = entry.partition("# via ")
            if found & set(re.split(r"[, ]+", needed_by)):
                wanted.add(name)
    return "\n".join(entry for name, entry in entries.items() if name in wanted)


if __name__ == "__main__":
    print(list_locked(sys.argv[1].split(",")))
