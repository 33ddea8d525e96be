"""The program that is started in place of an agent's: it becomes the agent, beside a server that records.

It forks. One process serves, outside of the agent's sandbox, and outlives Segue like the agent itself. The
other one learns the server's address, puts it where the agent looks for its model, and becomes the agent, so
that limits, signals and exit codes are the agent's own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

MARK = "http://segue-recorder.invalid"
"""In arguments and variables of the agent, it stands for the server's address."""
_LOOK = 1.0
_DIRECT = ("127.0.0.1", "localhost")


def main(arguments: list[str]) -> int:
    """Start the server, then become the agent: the first argument says what to record, the others are its."""
    if sys.platform == "win32":
        return 127  # recording is refused there
    document, argv = json.loads(arguments[0]), arguments[1:]
    reading, writing = os.pipe()
    agent = os.getpid()
    first = os.fork()
    if first == 0:
        # Twice, so that the agent has no child that it did not start.
        if os.fork() == 0:
            os.close(reading)
            _serve(document, agent, writing)
        os._exit(0)
    os.close(writing)
    os.waitpid(first, 0)
    with os.fdopen(reading) as pipe:
        address = pipe.read().strip()
    if not address:
        sys.stderr.write("segue: the recorder could not be started.\n")
        return 127
    env = {name: value.replace(MARK, address) for name, value in os.environ.items()}
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(filter(None, (env.get(name, ""), *_DIRECT)))
    try:
        os.execvpe(argv[0], [word.replace(MARK, address) for word in argv], env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"segue: {argv[0]} cannot be started: {error.strerror}\n")
    return 127


def _serve(document: dict[str, Any], agent: int, writing: int) -> None:
    """Serve until the agent is gone; never returns."""
    if sys.platform == "win32":
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the agent is asked to end, and may still say something
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    try:
        import asyncio

        asyncio.run(_record(document, agent, writing))
    finally:
        os._exit(0)


async def _record(document: dict[str, Any], agent: int, writing: int) -> None:
    import asyncio
    import secrets

    from segue.system.http.server import open_server
    from segue.system.recording.forward import forward_app
    from segue.system.recording.spool import RecordingSpool

    secret = secrets.token_urlsafe(16)
    app = forward_app(secret, document["upstream"], RecordingSpool(Path(document["folder"])))
    async with open_server(app, grace=0) as url:
        os.write(writing, f"{url}/{secret}".encode())
        os.close(writing)
        while _is_alive(agent):  # noqa: ASYNC110 - nobody says when it ends
            await asyncio.sleep(_LOOK)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
