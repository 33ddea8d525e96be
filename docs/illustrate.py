"""Makes the pictures in docs/pictures from the current code: `make pictures`.

The terminal, the caught cheat and the proof card are a session of the tutorial; the page shows a run at work.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from docs.svg import draw_stack, draw_terminal, read_texts

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
FILES = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COLUMNS = 110
_UP = re.compile(r"\r?\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
_OTHER_CONTROLS = re.compile(r"\x1b\[\?\d+[hl]|\r")
_LAYER = re.compile(r"^([a-z][a-z |]*?) {2,}(\S.*)$", re.MULTILINE)


def main() -> int:
    """Make every picture."""
    with tempfile.TemporaryDirectory(prefix="segue-") as name:
        pictures = {**make_session(Path(name)), "architecture": draw_layers()}
    for name, svg in pictures.items():
        (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")
        click.echo(f"docs/pictures/{name}.svg  {len(svg) / 1000:.0f} kB")
    from docs import page_pictures

    return page_pictures.main()


def draw_layers() -> str:
    """Return the picture of the layers, as ARCHITECTURE.md lists them."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Layers")[2].partition("```text")[2]
    layers = [(name.strip(), what.strip()) for name, what in _LAYER.findall(text.partition("```")[0])]
    return draw_stack(((name, re.split(r"; | \| |: ", what)[0]) for name, what in layers), "Segue's layers")


def make_session(place: Path) -> dict[str, str]:
    """Do what the tutorial says, in a terminal; return its pictures."""
    repo, env = place / "cart", surroundings(place)
    repo.mkdir()
    tutorial = (ROOT / "docs" / "tutorial.md").read_text("utf-8").partition("## 7. ")[0]
    for name, text in FILES.findall(tutorial):
        (repo / name).write_text(text, encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "Plan a shopping cart"]):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True)
    frames = record(["run", "plan.md"], repo, env)
    back = next(frame for frame in frames if "is sent back" in frame)
    ended = [line for line in frames[-1].splitlines() if line.strip()]
    log = run(["logs", "last", "2"], repo, env)
    caught = [line for line in log if re.search(r"agent: |uses Edit|check |PARTIAL|FAIL|done", line)]
    card = run(["proof", "last", "2"], repo, env)
    prompt = "\x1b[1m$ segue {}\x1b[0m"
    at_work = [prompt.format("run plan.md"), *strip_ends(back.splitlines())]
    return {
        "terminal": draw_terminal(
            [*at_work, "", *ended], "A run in the terminal, while it works and at its end"
        ),
        "caught": draw_terminal(
            [prompt.format("logs last 2"), *caught], "An agent skips a test and is sent back"
        ),
        "proof": draw_terminal([prompt.format("proof last 2"), *card], "The proof card of a task"),
    }


def surroundings(place: Path) -> dict[str, str]:
    """Return the environment of all commands: nothing of the person who makes the pictures is seen."""
    home = place / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\nname = Demo\nemail = demo@localhost\n[init]\ndefaultBranch = main\n"
    )
    known = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {**known, "HOME": str(home), "SEGUE_TRUST": "1", "TERM": "xterm-256color"}


def run(words: Sequence[str], repo: Path, env: Mapping[str, str]) -> list[str]:
    """Return the lines that a command prints."""
    line = [sys.executable, "-m", "segue", *words]
    return subprocess.run(
        line, cwd=repo, env=env, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def record(words: Sequence[str], repo: Path, env: Mapping[str, str]) -> list[str]:
    """Run a command in a terminal; return each frame that it drew, and what it printed last."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    with os.fdopen(theirs, "w") as out:
        line = [sys.executable, "-m", "segue", *words]
        process = subprocess.Popen(line, cwd=repo, env=env, stdin=out, stdout=out, stderr=out)
    text = b""
    with os.fdopen(ours, "rb", closefd=True) as terminal:
        while piece := _read(terminal.fileno()):
            text += piece
    if process.wait():
        raise SystemExit(f"segue {' '.join(words)} failed:\n{text.decode()}")
    return [_OTHER_CONTROLS.sub("", frame) for frame in _UP.split(text.decode()) if frame.strip()]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # what Linux says when the other end is closed


def strip_ends(lines: Sequence[str]) -> list[str]:
    """Return lines without the empty ones at both ends."""
    return "\n".join(lines).strip("\n").splitlines()


def compare(pictures: Mapping[str, str]) -> list[str]:
    """Return how the stored pictures differ from these, in the words that they show."""
    wrong = []
    for name, svg in pictures.items():
        path = PICTURES / f"{name}.svg"
        stored = path.read_text("utf-8") if path.exists() else ""
        wrong += [f"{name}: {word}" for word in sorted(_words(stored) ^ _words(svg))]
    return wrong


def _words(svg: str) -> set[str]:
    """Return the words of a picture, without rows that change while a task is worked on."""
    lasting = (line for line in read_texts(svg) if not re.search(r"running|checking|[█░]|^N .* launch", line))
    return {word for line in lasting for word in line.split()}


if __name__ == "__main__":
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir()
    raise SystemExit(main())
