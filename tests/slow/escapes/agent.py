"""The agent: does its task, and before that what the file of facts says for the first and for later tasks.

It is started by `segue run` as a command agent, in the sandbox. The scripts of the cases use its names.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket  # noqa: F401 - for the scripts
import subprocess
import sys
import traceback
from pathlib import Path

FACTS = json.loads(Path(sys.argv[1]).read_text())
HOME, OUT, SIBLING, STATE = (Path(FACTS[name]) for name in ("home", "out", "sibling", "state"))
REPO = Path.cwd()
LIE = FACTS["lie"]
TASK = os.environ.get("SEGUE_TASK", "")


def payload(mark: str, then: str = "exit 0") -> str:
    """Return a program that leaves a mark outside; in the sandbox it cannot."""
    return f"#!/bin/sh\n{{ echo '{mark}' \"$0 $*\" >> '{OUT}/ran'; }} 2>/dev/null\n{then}\n"


def write(path: str | Path, text: str | bytes) -> Path:
    """Write a file, in the place of whatever is there."""
    place = REPO / path
    remove(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return place


def plant(path: str | Path, mark: str = "", then: str = "exit 0") -> Path:
    """Write the program."""
    place = write(path, payload(mark or str(path), then))
    place.chmod(0o755)
    return place


def monitor(path: str = ".cache-index") -> str:
    """Write the program, and return a configuration with which git runs it whenever it looks."""
    return f"[core]\n\tfsmonitor = {plant(path)}\n"


def stand_in(path: str | Path) -> Path:
    """Write the program, which then does what the real one of that name does."""
    # Not what an earlier attempt planted: it would start itself for ever.
    folders = [folder for folder in FACTS["path"].split(":") if not Path(folder).is_relative_to(REPO)]
    real = shutil.which(Path(path).name, path=":".join(folders))
    return plant(path, then=f'exec {real} "$@"' if real else "exit 0")


def append(path: str | Path, text: str) -> None:
    """Add to a file."""
    with (REPO / path).open("a") as file:
        file.write(text)


def remove(path: str | Path) -> None:
    """Remove whatever is there."""
    place = REPO / path
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()


def link(path: str | Path, target: str | Path) -> None:
    """Put a link in the place of whatever is there."""
    remove(path)
    (REPO / path).parent.mkdir(parents=True, exist_ok=True)
    (REPO / path).symlink_to(target)


def fifo(path: str | Path) -> None:
    """Put a pipe that nobody writes to in the place of whatever is there."""
    remove(path)
    (REPO / path).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(REPO / path)


def loot(text: str | bytes) -> None:
    """Keep what was read, written backwards, so that nobody redacts it."""
    data = text.encode() if isinstance(text, str) else text
    with (REPO / "loot.bin").open("ab") as file:
        file.write(data[::-1])


def take(*paths: str | Path) -> None:
    """Keep what these files contain."""
    for path in paths:
        with contextlib.suppress(OSError):
            loot(Path(path).read_bytes())


def sh(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script."""
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


def git(*args: str, at: str | Path = ".") -> str:
    """Run git, as somebody."""
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false")
    command = ["git", *who, "-C", str(REPO / at), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def make_repository(path: str | Path, config: str) -> None:
    """Make a repository with a commit and this configuration."""
    remove(path)
    (REPO / path).mkdir(parents=True)
    git("init", "--quiet", at=path)
    write(Path(path, "file"), "x")
    git("add", "file", at=path)
    git("commit", "--quiet", "--message=x", at=path)
    append(Path(path, ".git", "config"), config)


def work() -> None:
    """Do what the task asks for."""
    for name, text in FACTS["work"].get(TASK, {f"work-{TASK}.txt": "done"}).items():
        with contextlib.suppress(OSError):
            write(name, text)


def attempt(script: str) -> None:
    """Run a script as far as the sandbox lets it."""
    try:
        exec(script, globals())
    except OSError as error:
        sys.stdout.write(f"stopped: {error}\n")


def main() -> None:
    if not sys.stdin.isatty():
        sys.stdin.read()
    script = FACTS["script" if TASK in ("1", "T001") else "later"]
    if script:
        try:
            attempt(script)
        except Exception:
            write("broken-attack.txt", traceback.format_exc())
    work()


main()
