"""Write the stand-ins as small executables that start fast, for a folder on the PATH."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from segue.domain.installed import import_name, socket_variants
from segue.system.process.segue import frozen
from segue.system.programs import CHILD

PROGRAMS = {
    "agent": "cursor",
    "cursor-agent": "cursor",
    "gemini": "gemini",
    "copilot": "copilot",
    "opencode": "opencode",
    "qwen": "qwen",
    "vibe-acp": "vibe",
}
"""The name of each executable, and what it replaces."""
_STAND_INS = "stand-ins"
"""The socket of those that other parts bring."""

_NOTE = "Written by `segue sim bin`: a stand-in, not the vendor's tool."
_PYTHON = """\
# {note}
import sys
from pathlib import Path

sys.path.append({root!r})
from segue.parts.sim.launchers import run

sys.exit(run([{name!r}, str(Path(__file__).resolve().parent), *sys.argv[1:]]))
"""
_FROZEN = (CHILD, "segue.parts.sim.launchers:run")
"""Selects `run` in a one-file build."""
_SHEBANG_MAX = 127


def list_programs() -> list[str]:
    """Return the names of the executables, those of other parts too."""
    return [*PROGRAMS, *socket_variants(_STAND_INS)]


def write_launchers(folder: Path) -> list[Path]:
    """Write an executable for every stand-in into the folder, replacing files of the same name."""
    if not folder.exists():
        folder.mkdir(parents=True)
        # In a repository the stand-ins must not make the work tree dirty or be committed.
        (folder / ".gitignore").write_text("*\n")
    write = _write_batch if sys.platform == "win32" else _write_script
    return [write(folder.absolute(), name) for name in list_programs()]


def _write_script(folder: Path, name: str) -> Path:
    if frozen():
        words = [sys.executable, *_FROZEN, name, str(folder)]
        text = f'#!/bin/sh\n# {_NOTE}\nexec {shlex.join(words)} "$@"\n'
    else:
        text = _shebang() + _PYTHON.format(note=_NOTE, root=_root(), name=name)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def _write_batch(folder: Path, name: str) -> Path:
    command = f'"{sys.executable}" {" ".join(_FROZEN)} {name} "%~dp0."'
    if not frozen():
        text = _PYTHON.format(note=_NOTE, root=_root(), name=name)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        command = f'"{sys.executable}" -I -S "%~dp0{name}.py"'
    path = folder / f"{name}.cmd"
    path.write_text(f"@rem {_NOTE}\r\n@{command} %*\r\n", encoding="utf-8", newline="")
    return path


def run(arguments: list[str]) -> int:
    """Run as one of the stand-ins. Arguments: its NAME, the FOLDER of the launcher, then its own."""
    name, home, *rest = arguments
    if (where := socket_variants(_STAND_INS).get(name)) is not None:
        stand_in: Callable[[list[str]], int] = import_name(where)
        return stand_in(rest)
    kind = PROGRAMS[name]
    if kind == "cursor" and rest[:1] != ["acp"]:
        from segue.parts.sim.cursor.agent import main as run_cursor

        # A rehearsal has no key, so the stand-in counts as logged in.
        os.environ.setdefault("SEGUE_SIM_LOGGED_IN", "1")
        return run_cursor(rest, home=Path(home))
    from segue.parts.sim.acp.agent import main as run_acp

    return run_acp(kind, rest, Path(home))


def _root() -> str:
    return str(Path(__file__).resolve().parents[3])


def _shebang() -> str:
    """Return a first line that every system understands, even for a long path or one with spaces."""
    line = f"#!{sys.executable} -IS\n"
    if " " not in sys.executable and len(line) <= _SHEBANG_MAX:
        return line
    return f"#!/bin/sh\n'''exec' \"{sys.executable}\" -I -S \"$0\" \"$@\"\n' '''\n"
