"""Puts the stand-ins on a PATH: small executables that start fast."""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAMS = {
    "agent": "from segue.sim.cursor_agent import main\nsys.exit(main(home=HOME))",
    "cursor-agent": "from segue.sim.cursor_agent import main\nsys.exit(main(home=HOME))",
    "stet": "from segue.sim.stet import main\nsys.exit(main(sys.argv[1:]))",
}
"""Name → how it is called. Nobody who rehearses has a key, so Cursor's stand-in is told it is logged in."""

_LAUNCHER = """\
# Written by `segue sim bin`: a stand-in, not the vendor's tool.
import os
import sys
from pathlib import Path

sys.path.append({root!r})
os.environ.setdefault("SEGUE_SIM_LOGGED_IN", "1")
HOME = Path(__file__).resolve().parent
{call}
"""
_SHEBANG_MAX = 127


def write_launchers(folder: Path) -> list[Path]:
    """Write an executable for every stand-in into the folder; what was there under its name is replaced."""
    if not folder.exists():
        folder.mkdir(parents=True)
        # In a repository the stand-ins must not make the work tree dirty, nor be committed.
        (folder / ".gitignore").write_text("*\n")
    root = str(Path(__file__).resolve().parents[2])
    windows = sys.platform == "win32"
    written = []
    for name, call in PROGRAMS.items():
        path = folder / (f"{name}.py" if windows else name)
        path.write_text(_shebang() + _LAUNCHER.format(root=root, call=call), encoding="utf-8")
        path.chmod(0o755)
        if windows:
            path = folder / f"{name}.cmd"
            path.write_text(f'@"{sys.executable}" -I -S "%~dp0{name}.py" %*\r\n', encoding="utf-8")
        written.append(path)
    return written


def _shebang() -> str:
    """A first line that every system reads; a path with blanks or of great length needs a detour."""
    line = f"#!{sys.executable} -IS\n"
    if " " not in sys.executable and len(line) <= _SHEBANG_MAX:
        return line
    return f"#!/bin/sh\n'''exec' \"{sys.executable}\" -I -S \"$0\" \"$@\"\n' '''\n"
