"""A scene of the demo: a Spec Kit feature, with simulated cloud agents and a simulated judge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segue.cli.run import session
from segue.cli.run.demo.runs import load_app, look_again
from segue.cli.terminal.output import Printer
from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.runtime.task_choice import ALL
from segue.sim.demo.repository import DemoRepository, commit, copy, git, make_folders
from segue.sim.llm.app import llm_app
from segue.sim.llm.script import LlmScript
from segue.sim.script import load_script
from segue.system.http.server import start_server

_FILES = "segue.parts.sim.demo"
_HOSTED = "https://github.com/demo/greeting"
KEY = "crsr_demo_key_of_no_value"


async def show_feature(folder: Path | None, output: Printer) -> int:
    """Run a Spec Kit feature with simulated cloud agents and a simulated judge."""
    place = await create_with_feature(folder)
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
    agents = load_script(place.folder / "agents.toml", CloudScript)
    cloud, stop_cloud = start_server(cloud_app(agents, {_HOSTED: place.remote}))
    judge, stop_judge = start_server(llm_app(load_script(place.folder / "judge.toml", LlmScript)))
    try:
        yield cloud, judge
    finally:
        stop_cloud()
        stop_judge()


async def create_with_feature(folder: Path | None = None) -> DemoRepository:
    """Create a repository with a Spec Kit feature, its hosted copy, and scripts for the services."""
    place = make_folders(folder)
    for name in ("tasks.md", "spec.md", "plan.md"):
        copy(name, place.feature / name, _FILES)
    for name in ("agents.toml", "judge.toml"):
        copy(name, place.folder / name, _FILES)
    await commit(place)
    await git(place.folder, "clone", "--quiet", "--bare", str(place.repo), str(place.remote))
    await git(place.repo, "remote", "add", "origin", str(place.remote))
    return place


_FEATURE = """
The agent of T002 said that it greets by name, but it did not. The judge found no evidence for it and said
what was missing, and the agent fixed it on the same branch."""
