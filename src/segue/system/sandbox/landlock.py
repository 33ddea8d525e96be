"""The sandbox by Landlock: rules that a process lays on itself, enforced by the kernel; no rights needed.

`main` runs in a process of its own: it lays the rules on itself and becomes the program. It uses the standard
library only. Landlock allows and never denies, so what is hidden or read-only is what no rule names.
"""

# This starts before every program of the sandbox, and pathlib would cost it start-up time.
# ruff: noqa: PTH112, PTH114, PTH115, PTH118, PTH120, PTH208
from __future__ import annotations

import ctypes
import json
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_DROP_FROM_BOUNDS = 24
_AMBIENT, _CLEAR_ALL = 47, 4
_WRITE_FILE, _READ_FILE, _TRUNCATE, _IOCTL = 1 << 1, 1 << 2, 1 << 14, 1 << 15
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Write files; remove and make entries of every kind."""
_REFER = 1 << 13
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_LOOK_ONLY = sum(getattr(os, name, 0) for name in ("O_PATH", "O_CLOEXEC", "O_NOFOLLOW"))
"""Linux has all of these flags."""
_SCOPES = 0b11
"""No signals to processes outside, no abstract sockets of processes outside."""


def landlock_abi() -> int:
    """Return the version of Landlock that this kernel has; 0 if there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return max(0, _syscall(_CREATE, None, 0, 1))
    except (OSError, AttributeError):
        return 0


def restrict(rules: dict[str, list[str]]) -> None:
    """Lay the rules on this process: it reads all but `hidden` places, or what of them is `shown`.

    It changes only the places under `write`, and the work tree, which is in `tree`.
    """
    version = landlock_abi()
    # What this version does not know stays allowed.
    handled = _READ_FILE | _CHANGE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    fields = (handled, 0, _SCOPES if version >= 6 else 0)
    size = 8 + 8 * (version >= 4) + 8 * (version >= 6)  # the kernel refuses fields that it does not know
    ruleset = _syscall(_CREATE, struct.pack("=QQQ", *fields)[:size], size, 0)
    for place in readable_places(rules["hidden"], rules["shown"]):
        _allow(ruleset, place, _READ_FILE, handled)
    for place in writable_places(rules):
        _allow(ruleset, place, handled, handled)
    for stream in (1, 2):  # output may go into a file; programs open it again as /dev/stdout
        _allow(ruleset, os.readlink(f"/proc/self/fd/{stream}"), _WRITE_FILE | _TRUNCATE, handled)
    _drop_capabilities()
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _syscall(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def readable_places(hidden: Iterable[str], shown: Iterable[str] = ()) -> Iterator[str]:
    """Yield the outermost places that have nothing hidden in them; and `shown` ones wherever they are."""
    closed = {os.path.realpath(place) for place in hidden}
    yield from _without(os.sep, closed, {above for place in closed for above in _parents(place)})
    for place in shown:
        yield from _parts(place, closed)


def writable_places(rules: dict[str, list[str]]) -> Iterator[str]:
    """Yield the places that may be changed, in parts if something in them is hidden.

    Rights count for everything below a place, so nothing new can be made directly in such a one. The work
    tree stays whole: there an agent would be stopped by that.
    """
    closed = {os.path.realpath(place) for place in rules.get("hidden", ())}
    opened = rules.get("write", [])
    for place in opened:
        yield from _parts(place, closed.difference(opened))
    yield from rules.get("tree", ())


def _parts(place: str, closed: set[str]) -> Iterator[str]:
    """Yield a place or, if something below it is hidden, the parts of it that are not."""
    inner = {other for other in closed if other.startswith(f"{place}/")}
    yield from _without(place, inner, {above for other in inner for above in _parents(other)})


def _without(folder: str, closed: set[str], above: set[str]) -> Iterator[str]:
    """Yield the folder or, if something below it is hidden, the parts of it that are not."""
    if folder in closed:
        return
    if folder not in above:
        yield folder
        return
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        yield from _without(os.path.join(folder, name), closed, above)


def _parents(place: str) -> Iterator[str]:
    while place != os.sep:
        place = os.path.dirname(place)
        yield place


def _allow(ruleset: int, place: str, rights: int, handled: int) -> None:
    try:
        fd = os.open(place, _LOOK_ONLY)
    except OSError:
        return  # gone, or out of reach anyway
    try:
        if os.path.islink(place):
            return  # it may point to something hidden
        if not os.path.isdir(place):
            rights &= _OF_FILES
        _syscall(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights & handled, fd), 0)
    except OSError:
        return  # nothing that has rights, such as a pipe
    finally:
        os.close(fd)


def _drop_capabilities() -> None:
    """Let root be a user like others: with capabilities it could look into all processes."""
    library = ctypes.CDLL(None)
    library.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        library.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0)  # the program it becomes cannot have it


def _syscall(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def main(arguments: list[str]) -> int:
    """Lay the rules of the first argument on this process, and become the program that follows."""
    document = json.loads(arguments[0])
    try:
        restrict(document["rules"])
    except OSError as error:
        sys.stderr.write(f"segue: the sandbox (Landlock) could not be set up: {error.strerror}\n")
        return 126
    os.environ.update(document.get("variables", {}))
    program = arguments[1]
    try:
        os.execvp(program, arguments[1:])  # noqa: S606 - there is no shell
    except OSError as error:
        sys.stderr.write(f"segue: {program}: {error.strerror}\n")
    return 127
