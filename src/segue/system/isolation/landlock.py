"""The sandbox by Landlock: rules that a process lays on itself, enforced by the kernel; no rights needed.

`main` runs in a process of its own: it lays the rules on itself and becomes the program. It uses the standard
library only. Landlock allows and never denies, so what is hidden or read-only is what no rule names.

A filter of system calls closes what neither mounts nor Landlock can: keyrings, and sockets by path. It is the
same on every machine, because it knows the numbers of each kind of processor.
"""

# This starts before every program of the sandbox, and pathlib would cost it start-up time.
# ruff: noqa: PTH112, PTH114, PTH118, PTH120, PTH208
from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_BENEATH, _PORT = 1, 2
_NO_NEW_PRIVILEGES = 38
_DROP_FROM_BOUNDS = 24
_AMBIENT, _CLEAR_ALL = 47, 4
_WRITE_FILE, _READ_FILE, _TRUNCATE, _IOCTL = 1 << 1, 1 << 2, 1 << 14, 1 << 15
_CHANGE = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Write files; remove and make entries of every kind."""
_REFER = 1 << 13
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_CONNECT = 1 << 1
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


def restrict(rules: dict[str, list[str]], shut_ports: Iterable[int]) -> None:
    """Lay the rules on this process: it reads all but `hidden` places, or what of them is `shown`.

    It changes only the places under `write`, and cannot connect to some ports.
    """
    version = landlock_abi()
    handled = (_READ_FILE | _rights(version)) if rules else 0
    shut = set(shut_ports) if version >= 4 else set()
    fields = (handled, _CONNECT if shut else 0, _SCOPES if version >= 6 else 0)
    size = 8 + 8 * (version >= 4) + 8 * (version >= 6)  # the kernel refuses fields that it does not know
    ruleset = _syscall(_CREATE, struct.pack("=QQQ", *fields)[:size], size, 0)
    for place in readable_places(rules["hidden"], rules["shown"]) if rules else ():
        _allow(ruleset, place, _READ_FILE, handled)
    for place in writable_places(rules):
        _allow(ruleset, place, _READ_FILE | _rights(version), handled)
    if shut:
        _open_ports(ruleset, shut)
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


def _rights(version: int) -> int:
    """Return the rights to change things that this version knows; what it does not know stays allowed."""
    more = (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    return _CHANGE | more


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


def _open_ports(ruleset: int, shut: set[int]) -> None:
    """Allow connections to all ports but these: there is no rule that denies one."""
    library, rule = ctypes.CDLL(None, use_errno=True).syscall, ctypes.create_string_buffer(16)
    for port in range(65536):
        if port not in shut:
            struct.pack_into("=QQ", rule, 0, _CONNECT, port)
            library(_ADD, ruleset, _PORT, rule, 0)


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


_ACTIONS = "/proc/sys/kernel/seccomp/actions_avail"
_LOAD, _IS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _PROCESSOR, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_UNIX = 1
_RINGS = 425
"""io_uring_setup, which can make sockets too."""
_SOCKETCALL = 102
"""An older way to make sockets, whose arguments cannot be seen."""
_OTHER_NUMBERS = 0x40000000
"""From here on, x86-64 has the same calls again."""
_CALLS: dict[int, tuple[tuple[int, int, int], int, tuple[int, ...]]] = {
    0xC000003E: ((248, 249, 250), 41, (_RINGS,)),  # x86-64
    0x40000003: ((286, 287, 288), 359, (_RINGS, _SOCKETCALL)),  # x86
    0xC00000B7: ((217, 218, 219), 198, (_RINGS,)),  # arm64
    0x40000028: ((309, 310, 311), 281, (_RINGS, _SOCKETCALL)),  # arm
    0xC00000F3: ((217, 218, 219), 198, (_RINGS,)),  # riscv64
    0xC0000015: ((269, 270, 271), 326, (_RINGS, _SOCKETCALL)),  # ppc64le
    0x80000016: ((278, 279, 280), 359, (_RINGS, _SOCKETCALL)),  # s390x
}
"""By processor: what uses keyrings, `socket`, and what else could make a socket."""


def has_filters() -> bool:
    """Return whether this kernel filters system calls."""
    return os.access(_ACTIONS, os.F_OK)


def make_filter(*, sockets: bool) -> bytes:
    """Return the program that refuses keyrings and, without `sockets`, new Unix sockets."""
    lines = [_line(_LOAD, _PROCESSOR)]
    for processor, (keyrings, socket, others) in _CALLS.items():
        body = [_line(_LOAD, _NUMBER)]
        refused = (*keyrings, *(() if sockets else others))
        tests = len(refused)
        left = tests + (0 if sockets else 3) + 2
        body.append(_line(_AT_LEAST, _OTHER_NUMBERS, left - 1, 0))
        for place, number in enumerate(refused):
            body.append(_line(_IS, number, left - 2 - place, 0))
        if not sockets:
            body += [
                _line(_IS, socket, 0, 2),
                _line(_LOAD, _FIRST_ARGUMENT),
                _line(_IS, _UNIX, 1, 0),
            ]
        body += [_line(_RETURN, _ALLOW), _line(_RETURN, _REFUSE)]
        lines += [_line(_IS, processor, 0, len(body)), *body]
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def lay_filter(program: bytes) -> None:
    """Lay a filter on this process; it must have given up new privileges before."""
    lines = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("@HP", len(program) // 8, ctypes.addressof(lines))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(22, 2, whole, 0, 0) < 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def main(arguments: list[str]) -> int:
    """Lay the rules of the first argument on this process, and become the program that follows."""
    document = json.loads(arguments[0])
    try:
        restrict(document.get("rules", {}), document.get("shut_ports", ()))
        if has_filters():
            lay_filter(make_filter(sockets=document.get("sockets", True)))
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
