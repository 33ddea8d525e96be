"""Writes what each extra needs, with hashes, to `requirements/extras`: parts of the lock file.

`make lock` runs it in the environment that the lock file was installed into.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"


def read_lock(path: Path) -> dict[str, str]:
    """Return the entries of a lock file by the names of their packages."""
    entries = re.split(r"\n(?=\S)", path.read_text("utf-8").strip())
    return {canonicalize_name(entry.split("==")[0]): entry for entry in entries}


def find_needed(wanted: list[str], lock: dict[str, str]) -> set[str]:
    """Return the locked packages that some requirements need, on whatever system."""
    found: set[str] = set()
    seen: set[str] = set()
    todo = [Requirement(one) for one in wanted]
    while todo:
        one = todo.pop()
        name = canonicalize_name(one.name)
        if name not in lock or str(one) in seen:
            continue
        seen.add(str(one))
        found.add(name)
        todo += [need for need in _needs(name) if _is_wanted(need, one.extras)]
    return found


def _needs(name: str) -> list[Requirement]:
    try:
        return [Requirement(text) for text in requires(name) or ()]
    except PackageNotFoundError:  # one of another system
        return []


def _is_wanted(need: Requirement, extras: set[str]) -> bool:
    named = re.findall(r"extra == ['\"]([\w.-]+)['\"]", str(need.marker or ""))
    return not named or bool(extras & set(named))


def write_locks() -> None:
    """Write the file of each extra."""
    lock = read_lock(LOCKS / "dev.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extra, wanted in project["optional-dependencies"].items():
        names = find_needed(wanted, lock)
        (LOCKS / "extras" / f"{extra}.txt").write_text("".join(f"{lock[name]}\n" for name in sorted(names)))


if __name__ == "__main__":
    write_locks()
