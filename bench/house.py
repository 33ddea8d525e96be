"""How large the house is: lines of the core, of each part and of the whole, and what one task imports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import segue
from bench.place import Place, place
from bench.table import Figure

SOURCE = Path(segue.__file__).parent
CORE_TARGET = 65_000
WHOLE_TARGET = 100_000
IMPORTED_TARGET = 30_000
MODULES_TARGET = 220

_LIST = """
import json, sys
from pathlib import Path
from segue.cli.main import run

code = run(sys.argv[2:])
found = {name: module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "segue"}
Path(sys.argv[1]).write_text(json.dumps(found))
sys.exit(code)
"""
"""Runs a command of Segue, and writes which of its modules are imported at the end."""
_SCRIPT = '''
[[on]]
say = "Done."
[on.write]
"app.py" = """
def double(number):
    return 2 * number
"""
"test_app.py" = """
import unittest

from app import double


class DoubleTest(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(3), 6)
"""
'''


def figures(_quick: bool) -> Iterator[Figure]:
    """Count the lines, and run one task with one check."""
    lines = {path: _count(path) for path in SOURCE.rglob("*.py")}
    sizes = _by_part(lines)
    core = sizes.pop("")
    yield _figure("lines of the core", core, CORE_TARGET)
    for part, size in sorted(sizes.items()):
        yield Figure(f"lines of the part {part}", f"{size:,}", "", "")
    yield _figure("lines of the whole", sum(lines.values()), WHOLE_TARGET)
    with place() as here:
        imported = import_one_task(here)
    yield _figure("lines that one task with one check imports", sum(map(_count, imported)), IMPORTED_TARGET)
    yield _figure("modules that it imports", len(imported), MODULES_TARGET)


def _figure(what: str, ours: int, target: int) -> Figure:
    return Figure(what, f"{ours:,}", "", "", f"≤ {target:,}", ours <= target)


def _count(path: Path) -> int:
    """Count lines as `wc -l` does."""
    return path.read_bytes().count(b"\n")


def _by_part(lines: Mapping[Path, int]) -> dict[str, int]:
    """Return the lines by part; those of the core are under an empty name."""
    parts = SOURCE / "parts"
    found: dict[str, int] = {"": 0}
    for path, count in lines.items():
        inside = path.relative_to(parts).parts if path.is_relative_to(parts) else ()
        name = inside[0] if len(inside) > 1 else ""
        found[name] = found.get(name, 0) + count
    return found


def import_one_task(here: Place) -> list[Path]:
    """Run one task of a scripted agent with one check; return the files of the modules it has imported."""
    script, config, listed = (here.folder / name for name in ("agent.toml", "segue.toml", "modules.json"))
    script.write_text(_SCRIPT)
    config.write_text(
        f'agent = "scripted"\nchecks = [["python3", "-m", "unittest", "-q"]]\n'
        f"[agents.scripted]\nscript = {json.dumps(str(script))}\n"
    )
    words = ("run", str(here.write_plan(1)), "--config", str(config), "--repo", str(here.repo), "--quiet")
    done = subprocess.run(
        [sys.executable, "-c", _LIST, str(listed), *words],
        cwd=here.repo,
        env=here.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"One task with one check ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return [Path(file) for file in json.loads(listed.read_text()).values() if file]
