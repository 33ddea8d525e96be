"""`segue` commands as processes that need not import Segue first: forked by a process that has done so.

Most commands of the tests would spend more time on imports than on their work. A command started here is a
process like any other: it has its own folder, environment, files and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO

_LENGTH = 8
_SPECIAL = ("PYTHON", "LD_", "LC_", "LANG", "TZ")
"""Variables that a Python reads when it starts: a command that changes one of them gets its own Python."""
_LATE = (
    *("rich.table", "sqlite3", "psycopg", "httpx2", "starlette.applications", "uvicorn", "psutil"),
    *("platformdirs.unix", "importlib.readers"),
)
ADDRESS = "TESTS_WARM"
"""The variable with the address of the process that forks for all test processes."""
_HEAVY = ("segue.proof.runners.hooks", "segue.provider", "segue.features.litellm", "segue.__main__")


def run_segue(
    args: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `segue` with nothing to read, and return its exit code and output."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start_segue(args, cwd, env, out, err)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), err.read())


def start_segue(
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    out: IO[str],
    err: IO[str] | None = None,
    preload: str = "",
) -> subprocess.Popen[str]:
    """Start `segue` with nothing to read; its output goes to a file, or to one each.

    `preload` is a library that is loaded into it, and into no program that it starts.
    """
    argv = [sys.executable, "-m", "segue", *args]
    if preload or (hasattr(os, "fork") and _special(env) == _special(os.environ)):
        return _Forked(argv, cwd, env, (out.fileno(), (err or out).fileno()), preload)
    return subprocess.Popen(
        argv, cwd=cwd, env=env, stdout=out, stderr=err or out, stdin=subprocess.DEVNULL, text=True
    )


def _special(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_SPECIAL)}


class _Forked(subprocess.Popen[str]):
    """A process that was forked by another one, which says when it has ended and how."""

    def __init__(
        self, argv: list[str], cwd: Path, env: Mapping[str, str], files: tuple[int, int], preload: str
    ) -> None:
        self.args = argv
        self.returncode = None
        self.stdin = self.stdout = self.stderr = None
        self._status, theirs = os.pipe()
        try:
            _send(json.dumps([argv[3:], str(cwd), dict(env)]).encode(), [*files, theirs], preload)
        finally:
            os.close(theirs)
        self.pid = _number(os.read(self._status, _LENGTH))

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = _number(os.read(self._status, _LENGTH))
            os.close(self._status)
        return self.returncode

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._status)


def _number(said: bytes) -> int:
    assert said, "the process that starts `segue` has ended"
    return int.from_bytes(said, "big", signed=True)


_lock = threading.Lock()


def _send(request: bytes, fds: list[int], preload: str) -> None:
    """Ask for a process, whose output and status go to these files."""
    with _lock:
        forker, _ = _forker(preload)
        socket.send_fds(forker, [len(request).to_bytes(_LENGTH, "big")], fds)
        forker.sendall(request)


@cache
def _forker(preload: str) -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    """Connect to the process that forks for all test processes, or start one."""
    if preload or not _SHARED:
        return _start_forker(preload)
    forker = socket.socket(socket.AF_UNIX)
    forker.connect(_SHARED)
    return forker, None


_SHARED = os.environ.get(ADDRESS)


@cache
def share_forker() -> None:
    """Start the process that forks, for all test processes that this one starts."""
    folder = tempfile.mkdtemp(prefix="segue-warm-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[ADDRESS] = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[ADDRESS])
        listener.listen()
        _kept.append(_start_forker("", listener))


_kept: list[object] = []


def _start_forker(preload: str, *listener: socket.socket) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the process that forks; it ends when this end of the socket is closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        fds = [one.fileno() for one in (theirs, *listener)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", *map(str, fds)],
            cwd=Path(__file__).parents[1],
            pass_fds=fds,
            env={**os.environ, **({"LD_PRELOAD": preload} if preload else {})},
            stdin=subprocess.DEVNULL,
        )
    return ours, process


class _Forker:
    """The process that has imported Segue, and forks."""

    def __init__(self, owner: int, *listener: int) -> None:
        self._owner = socket.socket(fileno=owner)
        self._listeners = [socket.socket(fileno=fd) for fd in listener]
        self._callers = [self._owner]
        self._running: dict[int, int] = {}

    def serve(self) -> list[str] | None:
        """Fork for each request; return the arguments in the process that runs them, None at the end."""
        signal.signal(signal.SIGCHLD, self._reap)
        while True:
            for one in select.select([*self._listeners, *self._callers], [], [])[0]:
                if one in self._listeners:
                    self._callers.append(one.accept()[0])
                    continue
                header, fds, _, _ = socket.recv_fds(one, _LENGTH, 3)
                if header:
                    args = self._fork(one.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL), fds)
                    if args is not None:
                        return args
                elif one is self._owner:
                    return None
                else:
                    self._callers.remove(one)
                    one.close()

    def _fork(self, request: bytes, fds: list[int]) -> list[str] | None:
        """Fork for a request; return the arguments in the new process."""
        args, cwd, env = json.loads(request)
        # A process that ends at once is reaped only when it is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            self._become(cwd, env, fds)
            return [str(word) for word in args]
        self._running[pid] = fds[2]
        # A caller that was killed meanwhile does not listen.
        with contextlib.suppress(BrokenPipeError):
            os.write(fds[2], pid.to_bytes(_LENGTH, "big", signed=True))
        os.close(fds[0])
        os.close(fds[1])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        return None

    def _reap(self, _signal: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                told = self._running.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(BrokenPipeError):
                    os.write(told, code.to_bytes(_LENGTH, "big", signed=True))
                os.close(told)

    def _become(self, cwd: str, env: dict[str, str], fds: list[int]) -> None:
        """Turn a forked process into the one that was asked for."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A shell ignores Ctrl-C for what it starts in the background, the tests perhaps.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for fd in self._running.values():
            os.close(fd)
        for one in (*self._listeners, *self._callers):
            one.close()
        os.dup2(fds[0], 1)
        os.dup2(fds[1], 2)
        for fd in fds:
            os.close(fd)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)


def _warm_up() -> None:
    """Import what commands import."""
    import segue
    from segue.web.render import compile_templates

    root = Path(str(segue.__file__)).parent
    found = sorted(
        ".".join(file.relative_to(root.parent).with_suffix("").parts) for file in root.rglob("*.py")
    )
    for name in [*found, *_LATE]:
        if not name.startswith(_HEAVY):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    _prepare()
    compile_templates()
    gc.collect()
    gc.freeze()


def _prepare() -> None:
    """Do once what each process would do first: compile expressions, look at the types of values."""
    from msgspec import Struct, ValidationError, convert

    from segue.domain.kinds import recognise_kind
    from segue.store.sqlite import open_empty

    recognise_kind("Write one.")
    open_empty().close()
    for kind in _subclasses(Struct):
        # Some want fields, and some are never read from data.
        with contextlib.suppress(ValidationError, TypeError, NameError):
            convert({}, kind)


def _subclasses(kind: type[object]) -> Iterator[type[object]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def _main() -> None:
    _warm_up()
    args = _Forker(*map(int, sys.argv[1:])).serve()
    if args is None:
        return
    from segue import __main__ as program

    sys.path[0] = str(Path.cwd())
    sys.argv = [str(program.__file__), *args]
    try:
        program.main()
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else 0)


def _end(code: int) -> None:
    """End as Python does, except for taking apart all that was imported, which would take longest."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
