"""The process of the scripted agent: does what it reads, act by act.

Segue has read the script, and sends what follows from it (see `acts`), because `json`, `re` and `tomllib`
take longer to import than everything else here. On stdin each act is a line `NAME SIZE …` with as many bytes
as the sizes say; the prompt comes after the line `prompt`.
"""

# Importing pathlib would double the start-up time.
# ruff: noqa: PTH103, PTH108, PTH109, PTH110, PTH118, PTH120, PTH123
from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn


class BadAct(Exception):
    """Something that the script asks for cannot be done."""


def main(_arguments: list[str]) -> int:
    """Do everything that stdin says."""
    try:
        for name, fields in _read_acts(sys.stdin.buffer.read()):
            if name == "exit":
                return int(fields[0])
            ACTS[name](*fields)
    except (BadAct, OSError) as error:
        sys.stderr.buffer.write(f"Error: {error}\n".encode("utf-8", "replace"))
        return 1
    except KeyboardInterrupt:
        sys.excepthook = lambda *_: None  # no traceback when it is stopped
        raise
    return 0


def _read_acts(data: bytes) -> Iterator[tuple[str, list[bytes]]]:
    place = 0
    while True:
        end = data.index(b"\n", place)
        name, *sizes = data[place:end].decode().split()
        if name == "prompt":
            return
        place, fields = end + 1, []
        for size in map(int, sizes):
            fields.append(data[place : place + size])
            place += size
        yield name, fields


def _print(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _complain(text: bytes) -> None:
    sys.stderr.buffer.write(text)
    sys.stderr.buffer.flush()


def _sleep(seconds: bytes) -> None:
    time.sleep(float(seconds))


def _wait_for(path: bytes) -> None:
    while not os.path.exists(os.fsdecode(path)):
        time.sleep(0.02)


def _write(name: bytes, text: bytes, how: str = "wb") -> None:
    path = _find_file(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, how) as file:
        file.write(text)


def _append(name: bytes, text: bytes) -> None:
    _write(name, text, "ab")


def _replace(name: bytes, old: bytes, new: bytes) -> None:
    path = _find_file(name)
    with open(path, "rb") as file:
        text = file.read()
    if old not in text:
        raise BadAct(f"{os.fsdecode(name)} does not contain {os.fsdecode(old)!r}")
    with open(path, "wb") as file:
        file.write(text.replace(old, new))


def _delete(name: bytes) -> None:
    os.unlink(_find_file(name))


def _find_file(name: bytes) -> str:
    """Return the path of a file to change; it must be in the workspace and not in .git."""
    root = os.path.realpath(os.getcwd())
    path = os.path.realpath(os.path.join(root, os.fsdecode(name)))
    git = os.path.join(root, ".git")
    if not path.startswith(os.path.join(root, "")) or path == git or path.startswith(os.path.join(git, "")):
        raise BadAct(f"{os.fsdecode(name)!r} is not a file of the workspace")
    return path


def _run(*words: bytes) -> None:
    import subprocess  # slow, like the next one, and most scripts do without

    try:
        argv = [os.fsdecode(word) for word in words]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise BadAct(str(error)) from None


def _hang() -> NoReturn:
    while True:
        time.sleep(600)


ACTS: dict[str, Callable[..., None]] = {
    "print": _print,
    "complain": _complain,
    "sleep": _sleep,
    "wait_for": _wait_for,
    "write": _write,
    "append": _append,
    "replace": _replace,
    "delete": _delete,
    "run": _run,
    "hang": _hang,
}
"""What it can do, beside ending with `exit CODE`."""
