"""The first three parts of the demo: a plan, a Spec Kit feature, and a project built from one prompt."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from segue.cli.run import session
from segue.cli.terminal.output import Printer, program
from segue.domain.run import TASK_RUNS
from segue.runtime.app import App
from segue.sim.demo import repository
from segue.sim.demo.repository import DemoRepository

_HOSTED = "https://github.com/demo/greeting"
_GOAL = "Build a Supabase todo app with auth"
KEY = "crsr_demo_key_of_no_value"


def load_app(place: DemoRepository, agent: str, **settings: Any) -> App:
    """Load the settings of a demo, which keeps its state in its own folder."""
    own = {"state_dir": str(place.state), "database_url": str(place.state / "segue.db")}
    return App.load(place.repo, command_line={"agent": agent, **own, **settings}, need="nothing")


async def show_plan(folder: Path | None, output: Printer) -> int:
    """Run a plan with the simulated agent."""
    place = await repository.create_with_plan(folder)
    scripted = {"script": str(place.folder / "script.toml")}
    app = load_app(place, "scripted", limits={"attempts": 2}, agents={"scripted": scripted})
    output.note(f"1. A plan with three tasks and the simulated agent: {place.repo}\n")
    code = await session.start(app, str(place.plan), (), None, output)
    if code == 0:
        output.note(
            _PLAN.format(segue=program(), repo=place.repo, state=place.state, database=app.database())
        )
    return code


async def show_feature(folder: Path | None, output: Printer) -> int:
    """Run a Spec Kit feature with simulated cloud agents and a simulated judge."""
    place = await repository.create_with_feature(folder)
    os.environ["CURSOR_API_KEY"] = KEY
    with _services(place) as (cloud, judge):
        agents = {"cursor-cloud": {"base_url": cloud, "repository": _HOSTED}}
        judged = {"base_url": f"{judge}/v1", "api_key_env": "CURSOR_API_KEY"}
        app = load_app(place, "cursor-cloud", agents=agents, judge=judged)
        output.note(f"2. A Spec Kit feature, simulated cloud agents and a simulated judge: {place.repo}\n")
        code = await session.start(app, str(place.feature), (), None, output)
    if code == 0:
        said = _FEATURE.format(segue=program(), repo=place.repo, state=place.state, feature=place.feature)
        output.note(said)
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
    """Build a project from one prompt, and write the report page."""
    place = await repository.create_empty(folder)
    app = load_app(place, "scripted", agents={"scripted": {"script": str(place.folder / "build.toml")}})
    output.note(f'3. One prompt, "{_GOAL}", with the simulated agent in every role: {place.repo}\n')
    code = await session.start(app, _GOAL, (), None, output)
    if code == 0:
        report = place.folder / "report.html"
        report.write_text(_report_page(app), encoding="utf-8")
        output.note(_BUILD.format(segue=program(), repo=place.repo, state=place.state, report=report))
    return code


def _report_page(app: App) -> str:
    from segue.reports.build import REPORTS, build_reports, build_run_report
    from segue.reports.html_page import render_html
    from segue.reports.selection import Selection

    with app.store(read_only=True) as store:
        timeline = build_run_report(store, store.runs(limit=1, kinds=TASK_RUNS)[0].id)
        asked = build_reports(store, tuple(REPORTS), Selection())
    reports = [timeline, *asked] if timeline else asked
    return render_html(reports, _GOAL, f"Made by segue demo on {time.strftime('%Y-%m-%d %H:%M')}.")


_PLAN = """
What happened: task 2 claimed to be done without changing anything and was retried; task 3 hit a usage
limit, waited for it to end and continued. Every step is in the database.

  Repository   {repo}    (git log shows one commit per task)
  Data         {database}
  Look again   SEGUE_STATE_DIR={state} {segue} status last --repo {repo}
               SEGUE_STATE_DIR={state} {segue} logs --repo {repo}
"""

_FEATURE = """
What happened: the agent of T002 claimed to greet by name but did not. The judge found no evidence for it,
told the agent exactly what was missing, and the agent fixed it on the same branch. Each task started from
the branch of the previous one.

  Repository   {repo}    (git log --all --graph, after git fetch)
  Ticks        {feature}/tasks.md
  State        {feature}/state.json
  Look again   SEGUE_STATE_DIR={state} {segue} status last --repo {repo}
"""

_BUILD = """
What happened: the agent planned four steps. The second forgot who may see what: the row level security
check (where Postgres is available) and the judge noticed, a web search found the relevant documentation,
and the step passed. The third step departed from the plan, so the remaining steps were planned again.

  Repository   {repo}    (git log shows what each step changed)
  Report       {report}    (open it in a browser)
  Look again   SEGUE_STATE_DIR={state} {segue} logs --repo {repo}
"""
