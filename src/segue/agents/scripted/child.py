"""The process of the scripted agent: does the acts that it reads from stdin as JSON, in their order.

It prints JSON lines:

    {"type": "text", "text": …}
    {"type": "tool", "name": "Write" | "Edit" | "Bash", "input": {…}}
    {"type": "usage", "input_tokens": …, "output_tokens": …, "cost_usd": …}
    {"type": "result", "text": …}
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_IDENTITY = ("-c", "user.name=Scripted agent", "-c", "user.email=scripted@localhost")


class BadAct(Exception):
    """Something that the script asks for cannot be done."""


def main(_arguments: list[str]) -> int:
    """Do everything that stdin says."""
    job = json.load(sys.stdin.buffer)
    try:
        for name, *values in job["acts"]:
            ACTS[name](*values)
    except (BadAct, OSError) as error:
        _complain(f"Error: {error}")
        return 1
    except KeyboardInterrupt:
        sys.excepthook = lambda *_: None  # no traceback when it is stopped
        raise
    return int(job["exit_code"])


def _print(line: Any) -> None:
    _say(json.dumps(line))


def _say(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def _complain(text: str) -> None:
    sys.stderr.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stderr.buffer.flush()


def _report(name: str, **values: Any) -> None:
    _print({"type": "tool", "name": name, "input": values})


def _wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.02)


def _write(name: str, text: str) -> None:
    path = _find_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    _report("Write", path=name, chars=len(text))


def _append(name: str, text: str) -> None:
    path = _find_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(text.encode())
    _report("Edit", path=name, chars=len(text))


def _replace(name: str, old: str, new: str) -> None:
    path = _find_file(name)
    text = path.read_bytes()
    if old.encode() not in text:
        raise BadAct(f"{name!r} does not contain {old!r}")
    path.write_bytes(text.replace(old.encode(), new.encode()))
    _report("Edit", path=name, old=old, new=new)


def _delete(name: str) -> None:
    _find_file(name).unlink()
    _report("Bash", command=f"rm {name}")


def _find_file(name: str) -> Path:
    """Return the path of a file to change; it must be in the workspace and not in .git."""
    root = Path.cwd().resolve()
    place = (root / name).resolve()
    git = root / ".git"
    if place == root or not place.is_relative_to(root) or place.is_relative_to(git):
        raise BadAct(f"{name!r} is not a file of the workspace")
    return place


def _run(*argv: str) -> None:
    _call(*argv)
    _report("Bash", command=" ".join(argv))


def _commit(message: str) -> None:
    _call("git", "add", "--all")
    _call("git", *_IDENTITY, "commit", "--quiet", "-m", message)
    _report("Bash", command=f"git commit -m {message!r}")


def _call(*argv: str) -> None:
    try:
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise BadAct(str(error)) from None


def _hang() -> None:
    while True:
        time.sleep(600)


ACTS: dict[str, Callable[..., None]] = {
    "print": _print,
    "say": _say,
    "complain": _complain,
    "sleep": time.sleep,
    "wait_for": _wait_for,
    "write": _write,
    "append": _append,
    "replace": _replace,
    "delete": _delete,
    "run": _run,
    "commit": _commit,
    "hang": _hang,
}
