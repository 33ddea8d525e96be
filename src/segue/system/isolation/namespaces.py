"""The sandbox without any program: the kernel's namespaces by plain system calls, as an ordinary user too.

`main` runs in a process of its own and understands those options of bubblewrap that Segue uses, so that both
means enforce the same command line. It uses the standard library only, and every mount is made in a new root,
in which the old one is gone before the program starts.
"""

# This starts before every program of the sandbox, and pathlib would cost it start-up time.
# ruff: noqa: PTH102, PTH103, PTH112, PTH120, PTH123, PTH211
from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys

from segue.system.isolation import landlock

assert sys.platform == "linux"  # nobody starts it elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_UNSHARE = {
    "--unshare-user": 0x10000000,
    "--unshare-pid": 0x20000000,
    "--unshare-net": 0x40000000,
    "--unshare-ipc": 0x08000000,
    "--unshare-uts": 0x04000000,
}
_NEW_MOUNTS = 0x00020000
_PLACES = {
    **dict.fromkeys(("--bind", "--ro-bind", "--ro-bind-try", "--dev-bind"), 2),
    **dict.fromkeys(("--tmpfs", "--dev", "--proc", "--remount-ro"), 1),
}
"""The options that change what is seen, and how many words follow."""
_FLAGS = frozenset(("--die-with-parent", "--disable-userns", "--new-session", "--clearenv"))
_NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 2, 4, 8
_BIND, _RECURSIVE, _SLAVE = 4096, 16384, 1 << 19
_MOUNT_SETATTR, _READ_ONLY, _ALL_BELOW, _HERE = 442, 1, 0x8000, -100
_DETACH = 2
_DIE_WITH_PARENT, _DROP_FROM_BOUNDS, _NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_ALL = 1, 24, 38, 47, 4
_SET_NAME, _USED_UP = 15, 300
_CAPABILITIES_3 = 0x20080522
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_BASE, _OLD, _NEW = "/tmp", "/old", "/new"  # noqa: S108 - covered by a file system of this process alone
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1"}
_LINKS |= {"stderr": "/proc/self/fd/2", "core": "/proc/kcore", "ptmx": "pts/ptmx"}


class NamespacePlan:
    """What the command line asks for."""

    def __init__(self, words: list[str]) -> None:
        self.unshare, self.flags = _NEW_MOUNTS, set[str]()
        self.places: list[list[str]] = []
        self.variables: dict[str, str] = {}
        self.folder = "/"
        self.filter = b""
        self.last_pid = 0
        at = 0
        while words[at] != "--":
            word, at = words[at], at + 1
            if word in _UNSHARE:
                self.unshare |= _UNSHARE[word]
            elif word in _FLAGS:
                self.flags.add(word)
            elif word in _PLACES:
                self.places.append([word, *words[at : at + _PLACES[word]]])
                at += _PLACES[word]
            elif word == "--setenv":
                self.variables[words[at]], at = words[at + 1], at + 2
            elif word == "--seccomp":
                with os.fdopen(int(words[at]), "rb") as file:
                    self.filter, at = file.read(), at + 1
            elif word == "--last-pid":
                self.last_pid, at = int(words[at]), at + 1
            elif word == "--chdir":
                self.folder, at = words[at], at + 1
            elif word == "--cap-drop":
                at += 1  # all are dropped in any case
            else:
                raise ValueError(f"unknown option {word}")
        self.argv = words[at + 1 :]

    @property
    def has_own_processes(self) -> bool:
        """Whether the program sees no process of others."""
        return bool(self.unshare & _UNSHARE["--unshare-pid"])


def enter(plan: NamespacePlan) -> None:
    """Put this process into namespaces of its own, in which it is the user that it was."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", plan.unshare)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        _write(f"/proc/self/{name}", text)
    if "--disable-userns" in plan.flags:
        _write("/proc/sys/user/max_user_namespaces", "0")
    if plan.unshare & _UNSHARE["--unshare-net"]:
        _start_loopback()


def furnish(plan: NamespacePlan) -> None:
    """Make the new root as the plan says, and leave the old one."""
    mask = os.umask(0)
    sources = [os.path.realpath(words[1]) if len(words) == 3 else "" for words in plan.places]
    _mount("", "/", "", _RECURSIVE | _SLAVE)
    _mount("tmpfs", _BASE, "tmpfs", _NO_SETUID | _NO_DEVICES)
    for name in (_OLD, _NEW):
        os.mkdir(_BASE + name)
    _call("pivot_root", _BASE.encode(), (_BASE + _OLD).encode())
    os.chdir("/")
    _mount(_NEW, _NEW, "", _BIND | _RECURSIVE)
    for words, source in zip(plan.places, sources, strict=True):
        try:
            _place(words, source)
        except OSError as error:
            if words[0] == "--ro-bind-try" and error.errno == errno.ENOENT:
                continue  # what may be missing may also vanish at this moment
            raise OSError(error.errno, f"{' '.join(words)}: {os.strerror(error.errno or 0)}") from None
    _call("umount2", _OLD.encode(), _DETACH)
    os.chdir(_NEW)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir("/")
    os.umask(mask)


def _place(words: list[str], source: str) -> None:
    option, target = words[0], _NEW + words[-1].rstrip("/")
    if option == "--remount-ro":
        _set(target, _READ_ONLY)
    elif option == "--tmpfs":
        _make_folder(target)
        _mount("tmpfs", target, "tmpfs", _NO_SETUID | _NO_DEVICES, "mode=0755")
    elif option == "--proc":
        _make_folder(target)
        _mount("proc", target, "proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS)
    elif option == "--dev":
        _make_devices(target)
    elif option != "--ro-bind-try" or os.path.lexists(_OLD + source):
        _bind(_OLD + source, target)
        kept = _NO_SETUID | (0 if option == "--dev-bind" else _NO_DEVICES)
        _set(target, kept | (_READ_ONLY if option.startswith("--ro") else 0), _ALL_BELOW)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        _make_folder(target)
    elif not os.path.lexists(target):
        _make_folder(os.path.dirname(target))
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    _mount(source, target, "", _BIND | _RECURSIVE)


def _make_devices(folder: str) -> None:
    """Make a /dev with what every program may use."""
    _make_folder(folder)
    _mount("tmpfs", folder, "tmpfs", _NO_SETUID, "mode=0755")
    for name in _DEVICES:
        _bind(f"{_OLD}/dev/{name}", f"{folder}/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"{folder}/{name}")
    os.mkdir(f"{folder}/shm", 0o1777)
    os.mkdir(f"{folder}/pts")
    _mount(
        "devpts", f"{folder}/pts", "devpts", _NO_SETUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620"
    )


def _make_folder(path: str) -> None:
    os.makedirs(path, 0o755, exist_ok=True)


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack_from("h", fcntl.ioctl(any_socket, _GET_FLAGS, request), 16)[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def drop_rights() -> None:
    """Give up what a process may do in namespaces of its own: it could undo all of this."""
    library = ctypes.CDLL(None)
    library.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        library.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0)
    _call("capset", struct.pack("=Ii", _CAPABILITIES_3, 0), bytes(24))
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def look_ordinary(last_pid: int) -> None:
    """Let processes be numbered from here on, and take what this one was started with out of its sight."""
    try:
        _write("/proc/sys/kernel/ns_last_pid", str(last_pid))
    except OSError:  # a kernel without it: numbers are used up
        for _ in range(_USED_UP):
            os.waitpid(os.fork() or os._exit(0), 0)
    with open("/proc/self/stat") as file:
        places = [int(word) for word in file.read().rpartition(")")[2].split()[45:49]]
    for start, end in (places[:2], places[2:]):
        if 0 < start < end:
            ctypes.memset(start, 0, end - start)
    name = b"/sbin/init"
    if places[1] - places[0] > len(name):
        ctypes.memmove(places[0], name, len(name))
    ctypes.CDLL(None).prctl(_SET_NAME, b"init", 0, 0, 0)


def _become(plan: NamespacePlan) -> NoReturn:
    """Become the program."""
    if "--new-session" in plan.flags:
        os.setsid()
    env = {**({} if "--clearenv" in plan.flags else os.environ), **plan.variables}
    program = plan.argv[0]
    try:
        os.chdir(plan.folder)
        env["PWD"] = plan.folder  # as bubblewrap does; a shell would believe the old one
        if plan.filter:
            landlock.lay_filter(plan.filter)
        os.execvpe(program, plan.argv, env)  # noqa: S606 - there is no shell
    except OSError as error:
        sys.stderr.write(f"segue: {program}: {error.strerror}\n")
    os._exit(127)


def _start(plan: NamespacePlan) -> int:
    """Start the program in a furnished namespace, and return how it ends."""
    if plan.last_pid:
        look_ordinary(plan.last_pid)
    furnish(plan)
    drop_rights()
    # With processes of its own, this is the first of them: when it ends, the kernel ends all others.
    pid = os.fork() if plan.has_own_processes else 0
    if not pid:
        _become(plan)
    return _wait(pid)


def _wait(pid: int) -> int:
    """Wait for a process, and for all that are left to this one meanwhile; return its exit code."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _tie_to(parent: int, plan: NamespacePlan) -> None:
    """End this process with its parent, also if that is killed."""
    if "--die-with-parent" in plan.flags:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def main(arguments: list[str]) -> int:
    """Run the program that follows `--` in namespaces that the other arguments describe."""
    try:
        plan = NamespacePlan(arguments)
        parent = os.getppid()
        enter(plan)
        _tie_to(parent, plan)
        pid = os.fork()
    except (OSError, AttributeError) as error:
        return _refuse(error)
    if pid:
        drop_rights()
        return _wait(pid)
    try:
        # In namespaces of its own, a process does not know the number of its parent.
        _tie_to(0 if plan.has_own_processes else os.getppid(), plan)
        code = _start(plan)
    except (OSError, AttributeError) as error:
        code = _refuse(error)
    sys.stderr.flush()
    os._exit(code)


def _refuse(error: Exception) -> int:
    said = error.strerror if isinstance(error, OSError) else error
    sys.stderr.write(f"segue: the sandbox (namespaces) could not be set up: {said}\n")
    return 126


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _call(
        "mount",
        *(text.encode("utf-8", "surrogateescape") for text in (source, target, kind)),
        flags,
        options.encode(),
    )


def _set(target: str, attributes: int, flags: int = 0) -> None:
    """Restrict a mount, and those below it."""
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    place = target.encode("utf-8", "surrogateescape")
    _call("syscall", _MOUNT_SETATTR, _HERE, place, flags, wanted, len(wanted))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _call(name: str, *arguments: object) -> None:
    values = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*values) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
