"""Two more parts of the demo: a Spec Kit feature, and a project built from one prompt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from segue.cli.run import session
from segue.cli.terminal.output import Printer, program
from segue.runtime.app import App
from segue.runtime.preconditions import NotIsolated, check_isolated
from segue.runtime.task_choice import ALL
from segue.sim.demo import repository
from segue.sim.demo.repository import DemoRepository

_HOSTED = "https://github.com/demo/greeting"
_GOAL = "Build a Supabase todo app with auth"
KEY = "crsr_demo_key_of_no_value"


def load_app(place: DemoRepository, agent: str, **settings: Any) -> App:
    """Load the settings of a demo, which keeps its state in its own folder."""
    own = {"state_dir": str(place.state), "database_url": str(place.state / "segue.db")}
    app = App.load(place.repo, command_line={"agent": agent, **own, **settings}, need="nothing")
    try:
        check_isolated(app, app.isolation())
    except NotIsolated as exposed:
        exposed.accept()  # its agents are Segue's own
    return app


async def show_feature(folder: Path | None, output: Printer) -> int:
    """Run a Spec Kit feature with simulated cloud agents and a simulated judge."""
    place = await repository.create_with_feature(folder)
    os.environ["CURSOR_API_KEY"] = KEY
    with _services(place) as (cloud, judge):
        agents = {"cursor-cloud": {"base_url": cloud, "repository": _HOSTED}}
        judged = {"base_url": f"{judge}/v1", "api_key_env": "CURSOR_API_KEY"}
        app = load_app(place, "cursor-cloud", agents=agents, judge=judged)
        output.note("A Spec Kit feature, with simulated cloud agents and a simulated judge.\n")
        code = await session.start(app, str(place.feature), ALL, output)
    if code == 0:
        output.note(_FEATURE + look_again(place))
    return code


@contextmanager
def _services(place: DemoRepository) -> Iterator[tuple[str, str]]:
    """Serve the simulated cloud and the simulated model on loopback inside the block."""
    from segue.sim.cloud.app import cloud_app
    from segue.sim.cloud.script import CloudScript
    from segue.sim.llm.app import llm_app
    from segue.sim.llm.script import LlmScript
    from segue.sim.script import load_script
    from segue.system.http.server import start_server

    agents = load_script(place.folder / "agents.toml", CloudScript)
    cloud, stop_cloud = start_server(cloud_app(agents, {_HOSTED: place.remote}))
    judge, stop_judge = start_server(llm_app(load_script(place.folder / "judge.toml", LlmScript)))
    try:
        yield cloud, judge
    finally:
        stop_cloud()
        stop_judge()


async def show_build(folder: Path | None, output: Printer) -> int:
    """Build a project from one prompt."""
    place = await repository.create_empty(folder)
    app = load_app(place, "scripted", agents={"scripted": {"script": str(place.folder / "build.toml")}})
    output.note(f'One prompt, "{_GOAL}", with the simulated agent in every role.\n')
    code = await session.start(app, _GOAL, ALL, output)
    if code == 0:
        output.note(_BUILD + look_again(place))
    return code


def look_again(place: DemoRepository) -> str:
    """Return where a part is stored, and how to look at it."""
    look = f"SEGUE_STATE_DIR={place.state} {program()} serve --open"
    return f"\nStored in {place.folder}\nLook again: {look}\n"


_FEATURE = """
The agent of T002 said that it greets by name, but it did not. The judge found no evidence for it and said
what was missing, and the agent fixed it on the same branch."""

_BUILD = """
The agent planned four steps. The second forgot who may see what: the row level security check (where
Postgres is available) and the judge noticed, a web search found the documentation, and the step passed.
The third step departed from the plan, so the remaining steps were planned again."""
