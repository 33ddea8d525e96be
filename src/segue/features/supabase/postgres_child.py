"""The child process that owns a temporary Postgres and removes it when Segue ends.

It needs the standard library only. When its standard input closes, for whatever reason, Segue is gone, and
nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUPERUSER = "supabase_admin"

_WAIT = 0.02
_START_SECONDS = 300.0
_STOP_SECONDS = 60.0
_READY = 7
"""The line of postmaster.pid that contains the server's state."""

_SETTINGS = (
    *("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB"),
    *("max_connections=20", "temp_file_limit=1GB", "autovacuum=off", "log_min_messages=fatal"),
)


def main(arguments: list[str]) -> int:
    """Serve until standard input closes. Arguments: FOLDER BIN…; the first line of input is the password."""
    folder, programs = Path(arguments[0]), [Path(argument) for argument in arguments[1:]]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server: subprocess.Popen[bytes] | None = None
    try:
        password = sys.stdin.readline().strip()
        as_user = _user(folder)
        found = _initialise(folder, programs, password, as_user)
        if isinstance(found, str):
            return _say(f"failed {found}")
        server, address = _start(folder, found, as_user)
        _say(_wait_until_ready(folder, server, address))
        sys.stdin.read()
    finally:
        if server is not None:
            _stop(server)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _say(line: str) -> int:
    sys.stdout.write(line.replace("\n", " ") + "\n")
    sys.stdout.flush()
    return 1 if line.startswith("failed") else 0


def _user(folder: Path) -> dict[str, Any]:
    """Return Popen options for another user if we are root, whom Postgres refuses; give it the folder."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return {}
    import pwd

    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            found = pwd.getpwnam(name)
            os.chown(folder, found.pw_uid, found.pw_gid)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise SystemExit("failed there is no user to run Postgres as")


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP", "TMP") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _initialise(folder: Path, programs: list[Path], password: str, as_user: dict[str, Any]) -> Path | str:
    """Create the data folder; return the folder of the programs that did it, or a text why none could."""
    secret = folder / "password"
    secret.write_text(password)
    if as_user and sys.platform != "win32":
        os.chown(secret, as_user["user"], -1)
    why = "no programs"
    for place in programs:
        argv = [str(place / "initdb"), "-D", str(folder / "data"), "-U", SUPERUSER, "--pwfile", str(secret)]
        argv += ["-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync"]
        try:
            made = subprocess.run(
                argv,
                cwd=folder,
                env=_environment(),
                capture_output=True,
                check=False,
                timeout=_START_SECONDS,
                **as_user,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = f"{place / 'initdb'}: {error}"
            continue
        if made.returncode == 0:
            secret.unlink()
            return place
        why = f"{place / 'initdb'}: {made.stderr.decode('utf-8', 'replace').strip()[-300:]}"
        shutil.rmtree(folder / "data", ignore_errors=True)
    return why


def _start(folder: Path, place: Path, as_user: dict[str, Any]) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server; return it with its address: a socket in its folder, or loopback on Windows."""
    address, port = str(folder), 5432
    where = ["-c", "listen_addresses=", "-k", str(folder)]
    if sys.platform == "win32":
        address, port = "127.0.0.1", _free_port()
        where = ["-c", f"listen_addresses={address}"]
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    argv = [str(place / "postgres"), "-D", str(folder / "data"), "-p", str(port), *where, *settings]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            argv,
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            **as_user,
        )
    return server, f"{address} {port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(folder: Path, server: subprocess.Popen[bytes], address: str) -> str:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError, IndexError):
            lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
            if lines[_READY].strip() == "ready":
                return f"ready {address}"
        time.sleep(_WAIT)
    said = (folder / "log").read_text("utf-8", "replace").strip()[-300:]
    return f"failed the server did not start: {said}"


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stop the server: SIGINT ends its sessions first, SIGQUIT ends it at once."""
    if sys.platform == "win32":
        gently, hard = signal.SIGTERM, signal.SIGTERM
    else:
        gently, hard = signal.SIGINT, signal.SIGQUIT
    for number in (gently, hard):
        with contextlib.suppress(OSError):
            server.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS)
            return
    server.kill()
    server.wait()
