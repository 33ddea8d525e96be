"""A filter of system calls for what neither mounts nor Landlock can close: keyrings, and sockets by path.

The program is the same on every machine: it knows the numbers of each kind of processor. It uses the standard
library only, because it runs before every program of the sandbox.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

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


def is_there() -> bool:
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


def lay(program: bytes) -> None:
    """Lay a filter on this process; it must have given up new privileges before."""
    lines = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("@HP", len(program) // 8, ctypes.addressof(lines))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(22, 2, whole, 0, 0) < 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
