"""Write the stand-ins as small executables that start fast, for a folder on the PATH."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path

from segue.system.program import frozen

PROGRAMS = {
    "agent": ("--segue-sim-agent", "run_agent"),
    "cursor-agent": ("--segue-sim-agent", "run_agent"),
    "stet": ("--segue-sim-stet", "run_stet"),
    "gemini": ("--segue-sim-gemini", "run_gemini"),
    "copilot": ("--segue-sim-copilot", "run_copilot"),
    "opencode": ("--segue-sim-opencode", "run_opencode"),
    "qwen": ("--segue-sim-qwen", "run_qwen"),
    "vibe-acp": ("--segue-sim-vibe", "run_vibe"),
}
"""Name → the flag that selects it in a one-file build, and the function of this module to call."""

_NOTE = "Written by `segue sim bin`: a stand-in, not the vendor's tool."
_PYTHON = """\
# {note}
import sys
from functools import partial
from pathlib import Path

sys.path.append({root!r})
from segue.sim.launchers import {call}

sys.exit({call}([str(Path(__file__).resolve().parent), *sys.argv[1:]]))
"""
_SHEBANG_MAX = 127


def write_launchers(folder: Path) -> list[Path]:
    """Write an executable for every stand-in into the folder, replacing files of the same name."""
    if not folder.exists():
        folder.mkdir(parents=True)
        # In a repository the stand-ins must not make the work tree dirty or be committed.
        (folder / ".gitignore").write_text("*\n")
    write = _write_batch if sys.platform == "win32" else _write_script
    return [write(folder.absolute(), name) for name in PROGRAMS]


def _write_script(folder: Path, name: str) -> Path:
    flag, call = PROGRAMS[name]
    if frozen():
        words = [sys.executable, flag, str(folder)]
        text = f'#!/bin/sh\n# {_NOTE}\nexec {shlex.join(words)} "$@"\n'
    else:
        text = _shebang() + _PYTHON.format(note=_NOTE, root=_root(), call=call)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def _write_batch(folder: Path, name: str) -> Path:
    flag, call = PROGRAMS[name]
    command = f'"{sys.executable}" {flag} "%~dp0."'
    if not frozen():
        text = _PYTHON.format(note=_NOTE, root=_root(), call=call)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        command = f'"{sys.executable}" -I -S "%~dp0{name}.py"'
    path = folder / f"{name}.cmd"
    path.write_text(f"@rem {_NOTE}\r\n@{command} %*\r\n", encoding="utf-8", newline="")
    return path


def run_agent(arguments: list[str]) -> int:
    """Run as Cursor's `agent`. Arguments: FOLDER of the launcher, then its own."""
    if arguments[1:2] == ["acp"]:
        return _run_acp("cursor", arguments)
    from segue.sim.cursor.agent import main

    # A rehearsal has no key, so the stand-in counts as logged in.
    os.environ.setdefault("SEGUE_SIM_LOGGED_IN", "1")
    return main(arguments[1:], home=Path(arguments[0]))


def run_stet(arguments: list[str]) -> int:
    """Run as `stet`. Arguments: FOLDER of the launcher, then its own."""
    from segue.sim.stet.command import main

    return main(arguments[1:])


def _run_acp(flavour: str, arguments: list[str]) -> int:
    """Run as an agent that speaks the Agent Client Protocol. Arguments: FOLDER, then its own."""
    from segue.sim.acp.agent import main

    return main(flavour, arguments[1:], Path(arguments[0]))


run_gemini = partial(_run_acp, "gemini")
run_copilot = partial(_run_acp, "copilot")
run_opencode = partial(_run_acp, "opencode")
run_qwen = partial(_run_acp, "qwen")
run_vibe = partial(_run_acp, "vibe")


def _root() -> str:
    return str(Path(__file__).resolve().parents[2])


def _shebang() -> str:
    """Return a first line that every system understands, even for a long path or one with spaces."""
    line = f"#!{sys.executable} -IS\n"
    if " " not in sys.executable and len(line) <= _SHEBANG_MAX:
        return line
    return f"#!/bin/sh\n'''exec' \"{sys.executable}\" -I -S \"$0\" \"$@\"\n' '''\n"
