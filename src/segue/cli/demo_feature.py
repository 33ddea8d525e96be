"""The second part of the demo: a Spec Kit feature carried by simulated cloud agents and judged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segue.cli import drive
from segue.cli.output import Output, program
from segue.runtime.wiring import App
from segue.sim import throwaway
from segue.sim.throwaway import Throwaway

_HOSTED = "https://github.com/demo/greeting"
_KEY = "crsr_demo_key_of_no_value"


async def show(folder: Path | None, output: Output) -> int:
    """Run it, then say what happened and where the branches lie."""
    place = await throwaway.with_feature(folder)
    os.environ["CURSOR_API_KEY"] = _KEY
    with _services(place) as (cloud, judge):
        app = App.load(
            place.repo,
            command_line={
                "agent": "cursor-cloud",
                "state_dir": str(place.state),
                "database_url": str(place.state / "segue.db"),
                "agents": {"cursor-cloud": {"base_url": cloud, "repository": _HOSTED}},
                "judge": {"base_url": f"{judge}/v1", "api_key_env": "CURSOR_API_KEY"},
            },
        )
        output.note(f"2. A Spec Kit feature, simulated cloud agents and a simulated judge: {place.repo}\n")
        code = await drive.start(app, str(place.feature), (), None, output, detach=False, verbose=False)
    if code == 0:
        output.note(_SAID.format(segue=program(), repo=place.repo, state=place.state, feature=place.feature))
    return code


@contextmanager
def _services(place: Throwaway) -> Iterator[tuple[str, str]]:
    """The simulated cloud and the simulated model, on loopback, for as long as the run takes."""
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


_SAID = """
What happened: the agent of T002 claimed to greet by name, but did not; the judge found nothing to quote
for it, the agent was told exactly what was missing and mended it on the same branch. Each task started
from the branch of the one before.

  Repository   {repo}    (git log --all --graph, after git fetch)
  Ticks        {feature}/tasks.md
  State        {feature}/state.json
  Look again   SEGUE_STATE_DIR={state} {segue} status last
"""
