"""Another part of the demo: an agent without keys, a subagent in the cloud, the relay, a reminder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from segue.cli.run.demo.runs import load_app, look_again
from segue.cli.terminal.output import Printer
from segue.parts.bridge.command import converse
from segue.parts.bridge.conversations import begin_conversation
from segue.parts.relay.options import RelaySettings, TokenFile
from segue.parts.relay.serve import serve
from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.parts.sim.demo import KEY, create_with_feature
from segue.sim.demo.repository import DemoRepository
from segue.sim.script import check_script
from segue.system.http.server import start_server

_HOME = "https://github.com/demo/agent-env"
_APP = "https://github.com/demo/greeting"
_MESSAGE = "Give the greeting a health check, save my files, and remind me to look at it."
_FIRST = """I delegate the work and ask for the rest.
SUBAGENT: repo=github.com/demo/greeting, prompt=Add a health check at GET /health, answering {"status":"ok"}
SUBAGENT: repo=github.com/somebody/else, prompt=This one is on nobody's list
LOCAL_ACTION: backup, where=home
REMIND: in 2s, look at the health check"""
_SCRIPT = [
    {
        "prompt": "Complete the task between",
        "say": "Added health.py.",
        "write": {"health.py": "STATUS = 'ok'\n"},
    },
    {"prompt": "bridge", "turn": 1, "say": _FIRST},
    {"prompt": "status=due", "say": "Time to look at the health check: its branch is ready."},
    {"prompt": "bridge", "say": "The branch is there and your files are saved. The other one was refused."},
]


async def show_bridge(folder: Path | None, output: Printer) -> int:
    """Hold a conversation that uses all commands of the protocol."""
    place = await create_with_feature(folder)
    os.environ["CURSOR_API_KEY"] = KEY
    script = check_script(_SCRIPT, CloudScript)
    url, stop = start_server(cloud_app(script, {_HOME: place.remote, _APP: place.remote}))
    try:
        async with _relay(place) as relay:
            app = load_app(
                place,
                "cursor-cloud",
                agents={"cursor-cloud": {"base_url": url}},
                bridge={"allow_repos": ["demo/*"], "relay_url": relay},
            )
            output.note("An agent without keys, a bridge, a relay and a reminder.\n")
            with app.store() as store:
                run, _ = begin_conversation(store, app, "cursor-cloud", _HOME, _MESSAGE)
            code = await converse(app, run, output, wait_reminders=True)
    finally:
        stop()
    if code == 0:
        output.note(_SAID + look_again(place))
    return code


@asynccontextmanager
async def _relay(place: DemoRepository) -> AsyncIterator[str]:
    """Serve the real relay with one harmless action inside the block."""
    from segue.domain.options import read_options
    from segue.system.files import private_folder

    folder = private_folder(place.folder / "relay")
    os.environ["SEGUE_RELAY_TOKEN"] = TokenFile(folder).rotate()
    # git is installed everywhere, and this call only prints its argument.
    argv = ["git", "check-ref-format", "--branch", "saved/{where}"]
    action = {"argv": argv, "parameters": {"where": "[a-z]+"}}
    settings = read_options(RelaySettings, {"port": 0, "actions": {"backup": action}})
    urls: asyncio.Queue[str] = asyncio.Queue()
    work = asyncio.create_task(serve(settings, folder, urls.put_nowait))
    first = asyncio.create_task(urls.get())
    try:
        await asyncio.wait([work, first], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        yield await first
    finally:
        for task in (work, first):
            task.cancel()
        await asyncio.gather(work, first, return_exceptions=True)


_SAID = """
The agent printed four commands. The bridge launched one subagent, refused the other because its repository
is not allowed, let the relay run the one action it knows, and sent the reminder when it was due."""
